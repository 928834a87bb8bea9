"""The steps of a batch of PushT states, equal to those of the public environment.

A state is seven numbers: agent x, y; block x, y, angle; agent velocity x, y. They determine the future: with damping 0
the T's velocity is set in every tick by its contacts, so it is recomputed by solving the contacts of the last tick. A
state lacks only the impulses from which pymunk starts its next solution; they matter little, and only where several
contacts hold the T.
"""

from __future__ import annotations

import numpy as np

from reachcost.tasks.pusht.contacts import SECONDS, SLOP, push_away_from_walls, push_by_pymunk, require_pymunk
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, MIDDLE, REACH, WINDOW, clearance, touches_walls, turned

TICKS = 10  # ticks of the physics per step
ACTION_SCALE = 100.0
STIFFNESS, DRAG = 100.0, 20.0  # constants of the controller that pulls the agent to its target
TOUCH = 1e-6  # pixels; at a larger distance nothing touches, even after rounding


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Pull the agents towards their position plus 100 times the unclipped action: float64 [N, 7], [N, 2] -> [N, 7]."""
    return _step(states, actions)[0]


def rollout(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Execute sequences: float64 [N, 7], [N, T, 2] -> [N, T + 1, 7], the given states first.

    Single steps give the same result unless a T touches a wall: there a sequence keeps pymunk's memory of contacts, as
    the public environment does, and a state does not hold it.
    """
    here, walls = states, np.zeros(len(states), bool)
    reached = [here]
    for t in range(actions.shape[1]):
        here, left = _step(here, actions[:, t])
        walls |= left
        reached.append(here)
    paths = np.stack(reached, axis=1)
    rows = np.flatnonzero(walls)
    if len(rows):
        paths[rows, 1:, 2:5] = _push_on(paths[rows], actions[rows])
    return paths


def _step(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states after a step [N, 7], and whether pymunk computed them [N]."""
    require_pymunk()
    path, velocities = agent_path(states[:, :2], states[:, 5:], actions)
    after, left = states.copy(), np.zeros(len(states), bool)
    after[:, :2], after[:, 5:] = path[:, -1], velocities[:, -1]
    rows, first = first_contacts(path, states[:, 2:5])
    if len(rows):
        after[rows, 2:5], left[rows] = _push(path[rows], velocities[rows], states[rows], first)
    after[:, 4] %= 2 * np.pi
    return after, left


def _push(
    path: np.ndarray, velocities: np.ndarray, states: np.ndarray, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Poses [N, 3] of the T after a step with the first contact at place `first` [N], and whether pymunk made them [N].

    A tick 0 before the others only recomputes the velocity that the T already has.
    """
    moves = np.concatenate([states[:, None, 5:], velocities], axis=1)
    poses, left = push_away_from_walls(path, moves, states[:, 2:5])
    if left.any():
        before = np.concatenate([_tick_before(states[left]), path[left]], axis=1)
        starts = before[np.arange(len(before)), first[left]]
        poses[left] = push_by_pymunk(starts, states[left, 2:5], moves[left], first[left])[:, -1]
    return poses, left


def _push_on(paths: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Poses [N, T, 3] of the T after every step of sequences [N, T, 2] in one space each."""
    starts = paths[:, 0]
    legs = [agent_path(paths[:, t, :2], paths[:, t, 5:], actions[:, t])[1] for t in range(actions.shape[1])]
    moves = np.concatenate([starts[:, None, 5:], *legs], axis=1)
    poses = push_by_pymunk(_tick_before(starts)[:, 0], starts[:, 2:5], moves, every=TICKS)[:, 1:]
    poses[..., 2] %= 2 * np.pi
    return poses


def _tick_before(states: np.ndarray) -> np.ndarray:
    """Positions of the agents one tick before these states [N, 1, 2]."""
    return (states[:, :2] - SECONDS * states[:, 5:])[:, None]


def agent_path(positions: np.ndarray, velocities: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the agent at the start and after every tick [N, 11, 2], and velocities in every tick [N, 10, 2].

    Neither the T nor a wall stops it. With float32 actions velocities are float32, as in the public environment.
    """
    single = actions.dtype == np.float32
    kind = np.float32 if single else np.float64
    path = np.empty((len(positions), TICKS + 1, 2))
    moves = np.empty((len(positions), TICKS, 2))
    here, velocity = positions.astype(np.float64), velocities.astype(np.float64)
    path[:, 0] = here
    target = here.astype(kind) + actions.astype(kind) * kind(ACTION_SCALE)
    for tick in range(TICKS):
        pull = kind(STIFFNESS) * (target - here.astype(kind)) + (DRAG * -velocity).astype(kind)
        velocity = (velocity.astype(kind) + pull * kind(SECONDS)).astype(np.float64)
        here = here + velocity * SECONDS
        path[:, tick + 1], moves[:, tick] = here, velocity
    return path, moves


def first_contacts(path: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in which the T may be touched, and the number of the first such place of their paths [N, 11, 2]."""
    middle = poses[:, :2] + turned(MIDDLE, poses[:, 2])
    x, y = (path[..., axis] - middle[:, axis, None] for axis in (0, 1))
    apart = np.sqrt((x * x + y * y).min(1))
    near = np.flatnonzero(apart < REACH + AGENT_RADIUS + TOUCH)
    touched = np.zeros(path.shape[:2], bool)
    touched[near] = clearance(path[near], poses[near, None]) <= AGENT_RADIUS + TOUCH
    outer = np.flatnonzero((np.abs(middle - WINDOW / 2) > WINDOW / 2 - REACH - 10).any(1))
    touched[outer, 0] |= touches_walls(poses[outer], depth=SLOP / 2)  # an overlap that pymunk ignores remains
    rows = np.flatnonzero(touched.any(1))
    return rows, touched[rows].argmax(1)
