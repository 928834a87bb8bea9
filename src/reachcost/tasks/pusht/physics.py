"""One call steps any batch of PushT states; step for step the public environment.

A state is seven numbers: agent x, y; block x, y, angle; agent velocity x, y. That is all there is to know of the
future: the T's own velocity is set anew in every tick by what touches it (damping 0), so it is found from the state by
solving the contacts of its last tick again. Only impulses that pymunk keeps as a first guess are lost with it; they
matter where several contacts hold the T at once, and there by little.
"""

from __future__ import annotations

import numpy as np

from reachcost.tasks.pusht.contacts import push_away_from_walls
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, REACH, clearance, touches_walls, turned
from reachcost.tasks.pusht.pymunk_space import SECONDS, push_by_pymunk, require_pymunk

TICKS = 10
"""Of the physics in a step."""
ACTION_SCALE = 100.0
STIFFNESS, DRAG = 100.0, 20.0
"""Of the controller that pulls the agent to its target."""
TOUCH = 1e-6
"""Pixels; what is farther apart touches nothing, whatever the rounding."""


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Pull the agents towards their position plus 100 times the action: float64 [N, 7], [N, 2] -> [N, 7].

    Actions are not clipped, as in the public environment.
    """
    require_pymunk()
    path, velocities = agent_path(states[:, :2], states[:, 5:], actions)
    after = states.copy()
    after[:, :2], after[:, 5:] = path[:, -1], velocities[:, -1]
    rows, first = first_contacts(path, states[:, 2:5])
    if len(rows):
        after[rows, 2:5] = push(path[rows], velocities[rows], states[rows], first)
        after[rows, 4] %= 2 * np.pi
    return after


def push(path: np.ndarray, velocities: np.ndarray, states: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Poses [N, 3] of the T after a step whose first contact is at the place `first` [N] of the path [N, 11, 2].

    A tick 0 before the others only finds the velocity that the T already has: the agent comes to its first place from
    where it was a tick before.
    """
    moves = np.concatenate([states[:, None, 5:], velocities], axis=1)
    poses, left = push_away_from_walls(path, moves, states[:, 2:5])
    if left.any():
        before = np.concatenate([states[left, None, :2] - SECONDS * states[left, None, 5:], path[left]], axis=1)
        starts = before[np.arange(len(before)), first[left]]
        poses[left] = push_by_pymunk(starts, states[left, 2:5], moves[left], first[left])
    return poses


def agent_path(positions: np.ndarray, velocities: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the agent is at the start and after every tick [N, 11, 2], and its velocity in every tick [N, 10, 2].

    Nothing stops it, neither the T nor a wall. Actions of float32 make the public environment compute velocities in
    float32, so they do here.
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
    """Rows in which the T may be touched, and for each the first of the places [N, 11, 2] where it is."""
    middle = poses[:, :2] + turned(np.array([0.0, 60.0]), poses[:, 2])
    apart = np.linalg.norm(path - middle[:, None], axis=-1).min(1)
    near = np.flatnonzero(apart < REACH + AGENT_RADIUS + TOUCH)
    touched = np.zeros(path.shape[:2], bool)
    touched[near] = clearance(path[near], poses[near, None]) <= AGENT_RADIUS + TOUCH
    touched[:, 0] |= touches_walls(poses)
    rows = np.flatnonzero(touched.any(1))
    return rows, touched[rows].argmax(1)
