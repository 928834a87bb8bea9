"""PushT logs in the columns of the public files, their policies and statistics, and evaluation sets.

The policies are a scripted pusher, the public weak policy, and random actions. Evaluation sets are sampled from
held-out episodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet, logged_goals
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, CENTRE_OF_GRAVITY, OUTLINE, clearance, touches_walls, turned
from reachcost.tasks.pusht.physics import ACTION_SCALE, step

STEPS = 100
MOVED = 1e-9  # pixels or radians; a T without contact does not move at all
LATER = 25  # steps over which displacement and rotation are measured, in addition to single steps
FROZEN = Path(__file__).parent / "frozen"
BUDGETS = {25: 50, 50: 50, 75: 75}  # goal offset in steps, and maximum number of actions per episode
EPISODES = 50
NAMES = tuple(f"offset-{offset}-{seed}" for offset in BUDGETS for seed in (3072, 3073, 3074))
PATTERN = re.compile(r"offset-(25|50|75)-(tune-)?(\d+)")

KINDS = ("pusher", "weak", "random")
SHARES = (0.7, 0.15, 0.15)  # share of the episodes of each kind
POSES, CHOICES = 6, 32  # numbers of target poses and of pushes that are sampled for an episode of the pusher
PUSH_SPEED = (0.1, 0.3)  # range of the length of the actions of a push
PUSH_NOISE = 0.05
WEAK_REACH = 100.0  # maximum distance in pixels, along each axis, between the T and the weak policy's targets
AGENT_ROOM, BLOCK_ROOM = (50.0, 450.0), (100.0, 400.0)  # ranges of start positions, as in the public environment
POSE_ROOM = (160.0, 352.0)  # range of the pusher's target poses
SPOTS_PER_EDGE = (5, 2, 2, 4, 2, 4, 2, 2)
GYRATION = 55.0  # about sqrt(moment / mass), in pixels: the weight of a radian of error relative to a pixel
STAND_OFF = 12.0  # pixels between agent and T where a push begins
AROUND = 112.0  # radius of the circle on which the agent moves around the T
ARRIVED = 8.0  # pixels from the beginning of a push at which it begins
WALK_SPEED = 0.34  # maximum length of an action before a push
LOST = 30.0  # pixels off the T at which a push is given up
CLOSE = (12.0, 0.12)  # pixels and radians within which a target pose counts as reached


def make_logs(
    seed: int,
    episodes: np.ndarray,
    purpose: str = "pusht-logs",
    *,
    kinds: Sequence[int] | None = None,
    observe: Callable[[np.ndarray], Observations] | None = None,
) -> Logs:
    """Log episodes by their numbers [E]; an episode does not depend on the others.

    `purpose` names the random streams. The given `kinds` have equal parts; by default all kinds have their shares. The
    action of the last row of an episode is zero, as none was executed there.
    """
    plans = [sample_plan(seed, purpose, episode, kinds) for episode in episodes.tolist()]
    starts, made_by, noise, *of_pushers = (np.stack(part) for part in zip(*plans, strict=True))
    count, rows = len(plans), STEPS + 1
    states, actions = np.empty((count, rows, 7)), np.zeros((count, rows, 2), np.float32)
    states[:, 0] = starts
    pushers = Pushers(*of_pushers)
    is_pusher, is_weak = ((made_by == kind)[:, None] for kind in (0, 1))
    for t in range(STEPS):
        here = states[:, t]
        pushed = pushers.act(here) + PUSH_NOISE * noise[:, t]
        wanted = np.select([is_pusher, is_weak], [pushed, weak(here, noise[:, t])], noise[:, t])
        actions[:, t] = _within_window(here, np.clip(wanted, -1, 1))
        states[:, t + 1] = step(here, actions[:, t])
    states = states.reshape(-1, 7)
    columns = {
        "state": states,
        "proprio": proprio(states),
        "action": actions.reshape(-1, 2),
        "policy": np.repeat(made_by, rows),
        "episode_idx": np.repeat(np.arange(count), rows),
        "step_idx": np.tile(np.arange(rows), count),
    }
    return Logs(columns, np.full(count, rows), observe)


def proprio(states: np.ndarray) -> np.ndarray:
    """Position and velocity of the agent [N, 4]."""
    return np.concatenate([states[:, :2], states[:, 5:]], axis=1)


def describe_logs(logs: Logs) -> dict[str, tuple[float, float | None]]:
    """Contact, displacement and rotation of the T, and standard deviations of actions and states (mean of the axes).

    The second numbers are the statistics of DINO-WM's expert logs with which it normalises data.
    """
    states = np.asarray(logs.columns["state"], np.float64)
    shift, turn = _changes(logs, states, 1)
    moved = (shift > MOVED) | (turn > MOVED)
    later_shift, later_turn = _changes(logs, states, LATER)
    taken = np.asarray(logs.columns["action"], np.float64)[logs.window_starts(2)]
    return {
        "steps that move the block, %": (float(100 * moved.mean()), None),
        "block displacement in those, px": (_mean(shift[moved]), None),
        "block rotation in those, degrees": (float(np.degrees(_mean(turn[moved]))), None),
        f"block displacement in {LATER} steps, px": (_mean(later_shift), None),
        f"block rotation in {LATER} steps, degrees": (float(np.degrees(_mean(later_turn))), None),
        "rows with the block at a wall, %": (float(100 * touches_walls(states[:, 2:5]).mean()), None),
        "deviation of actions": (_mean(taken.std(0)), 0.201),
        "deviation of agent positions, px": (_mean(states[:, :2].std(0)), 94.1),
        "deviation of agent velocities, px/s": (_mean(states[:, 5:].std(0)), 74.5),
        "deviation of block positions, px": (_mean(states[:, 2:4].std(0)), 55.1),
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _changes(logs: Logs, states: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Displacement and rotation of the T within this number of steps of an episode: [W], [W]."""
    before = logs.window_starts(steps + 1)
    change = states[before + steps, 2:5] - states[before, 2:5]
    return np.linalg.norm(change[:, :2], axis=1), np.abs((change[:, 2] + np.pi) % (2 * np.pi) - np.pi)


def sample_set(name: str, world: str, episodes: int = EPISODES) -> EvaluationSet:
    """Sample `offset-<25, 50 or 75>-<seed>`, or the tuning set `offset-<...>-tune-<seed>`: one pair per episode.

    Start and goal are rows t and t + offset of episodes of the scripted pusher. Their random streams are separate:
    evaluation sets share no episode with training logs of any seed, with tuning sets, or with each other.
    """
    match = PATTERN.fullmatch(name)
    if match is None:
        known = f"{', '.join(NAMES)}, another seed of these, or a tuning set such as offset-50-tune-1"
        raise ReachcostError(f"PushT has no evaluation set {name!r}: choose {known}")
    offset, seed = int(match[1]), int(match[3])
    logs = held_out_logs(f"{'tune' if match[2] else 'evaluation'}-{offset}", seed, episodes)
    return logged_goals(logs, offset, episodes, seed, name=name, world=world, budget=BUDGETS[offset])


def held_out_logs(purpose: str, seed: int, episodes: int) -> Logs:
    """The episodes from which a set is sampled."""
    return make_logs(seed, np.arange(episodes), f"pusht-{purpose}", kinds=(KINDS.index("pusher"),))


def sample_plan(seed: int, purpose: str, episode: int, kinds: Sequence[int] | None) -> tuple[np.ndarray | int, ...]:
    """All random numbers of an episode, from its own stream: start, kind of policy, noise, plan of a pusher."""
    rng = generator(seed, purpose, episode)
    start = sample_start(rng)
    kind = int(rng.choice(len(KINDS), p=SHARES) if kinds is None else rng.choice(kinds))
    poses = np.concatenate([rng.uniform(*POSE_ROOM, (POSES, 2)), rng.uniform(0, 2 * np.pi, (POSES, 1))], axis=1)
    bonuses, speeds = rng.uniform(0, 0.6, (CHOICES, len(SPOTS))), rng.uniform(*PUSH_SPEED, CHOICES)
    patience = rng.integers(12, 30, CHOICES)
    return start, kind, rng.uniform(-1, 1, (STEPS, 2)), poses, bonuses, speeds, patience


def sample_start(rng: np.random.Generator) -> np.ndarray:
    """A state at rest [7]: uniform as in the public environment, but without overlaps."""
    while True:
        agent, block = rng.uniform(*AGENT_ROOM, 2), rng.uniform(*BLOCK_ROOM, 2)
        pose = np.append(block, rng.uniform(0, 2 * np.pi))
        if clearance(agent, pose) > AGENT_RADIUS and not touches_walls(pose):
            return np.concatenate([agent, pose, np.zeros(2)])


def weak(states: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The public weak policy [N, 2]: a uniform target around the agent, clipped to the square around the T."""
    agent, block = states[:, :2], states[:, 2:4]
    target = np.clip(agent + ACTION_SCALE * noise, block - WEAK_REACH, block + WEAK_REACH)
    return np.clip((target - agent) / ACTION_SCALE, -1, 1)


def _within_window(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Actions [N, 2] with targets clipped to the window; the simulator would let the agent leave it."""
    agent = states[:, :2]
    return np.clip((np.clip(agent + ACTION_SCALE * actions, 20, 492) - agent) / ACTION_SCALE, -1, 1)


_SHARES = np.concatenate([(np.arange(count) + 0.5) / count for count in SPOTS_PER_EDGE])
_EDGES = np.repeat(np.roll(OUTLINE, -1, axis=0) - OUTLINE, SPOTS_PER_EDGE, axis=0)
SPOTS = np.repeat(OUTLINE, SPOTS_PER_EDGE, axis=0) + _SHARES[:, None] * _EDGES
"""Places on the outline to push at [S, 2], in the T's frame."""
INWARD = _EDGES[:, ::-1] * (-1, 1) / np.linalg.norm(_EDGES, axis=1, keepdims=True)
"""Directions of the pushes [S, 2]."""


class Pushers:
    """N scripted pushers: each moves the T to one target pose [N, G, 3] after another, by pushes without friction.

    Each of the C pushes has random bonuses on the values of the spots [N, C, S], an action length, the speed [N, C],
    and a maximum number of steps, the patience [N, C].
    """

    def __init__(self, poses: np.ndarray, bonuses: np.ndarray, speeds: np.ndarray, patience: np.ndarray) -> None:
        self._poses, self._bonuses, self._speeds, self._patience = poses, bonuses, speeds, patience
        count = len(poses)
        self._goal, self._choice = np.zeros(count, int), np.full(count, -1)
        self._spot, self._pushing, self._left = np.zeros(count, int), np.zeros(count, bool), np.zeros(count, int)
        self._all = np.arange(count)

    def act(self, states: np.ndarray) -> np.ndarray:
        """Actions [N, 2] in states [N, 7]."""
        self._next_pose(states)
        self._choose(states)
        agent, pose = states[:, :2], states[:, 2:5]
        spot = pose[:, :2] + turned(SPOTS[self._spot], pose[:, 2])
        inward = turned(INWARD[self._spot], pose[:, 2])
        stand = spot - inward * (AGENT_RADIUS + STAND_OFF)
        self._pushing |= np.linalg.norm(agent - stand, axis=1) < ARRIVED
        self._left -= 1
        speed = self._speeds[self._all, self._choice, None]
        sideways = (spot - agent) - inward * ((spot - agent) * inward).sum(1, keepdims=True)
        push = inward * speed + sideways / ACTION_SCALE
        walk = (self._waypoint(agent, pose, stand) - agent) / ACTION_SCALE
        length = np.linalg.norm(walk, axis=1, keepdims=True)
        walk *= np.minimum(1, WALK_SPEED / np.maximum(length, 1e-9))
        return np.where(self._pushing[:, None], push, walk)

    def _next_pose(self, states: np.ndarray) -> None:
        """Continue with the next target pose where the present one is reached."""
        shift, turn = self._error(states)
        reached = (np.linalg.norm(shift, axis=1) < CLOSE[0]) & (np.abs(turn) < CLOSE[1])
        self._goal = np.minimum(self._goal + reached, self._poses.shape[1] - 1)

    def _error(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Remaining shift of the centre of gravity [N, 2] and rotation [N]."""
        pose, wanted = states[:, 2:5], self._poses[self._all, self._goal]
        here, there = (part[:, :2] + turned(CENTRE_OF_GRAVITY, part[:, 2]) for part in (pose, wanted))
        return there - here, (wanted[:, 2] - pose[:, 2] + np.pi) % (2 * np.pi) - np.pi

    def _values(self, states: np.ndarray) -> np.ndarray:
        """Cosine between the effect of a push at each spot and the remaining error [N, S]."""
        shift, turn = self._error(states)
        wanted = np.concatenate([shift, GYRATION * turn[:, None]], axis=1)
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True) + 1e-9
        arms = SPOTS - CENTRE_OF_GRAVITY
        torque = arms[:, 0] * INWARD[:, 1] - arms[:, 1] * INWARD[:, 0]
        inward = turned(INWARD[None], states[:, 4:5])
        effect = np.concatenate([inward, np.broadcast_to(torque[:, None] / GYRATION, (*inward.shape[:2], 1))], axis=2)
        effect /= np.linalg.norm(effect, axis=2, keepdims=True)
        x, y, turn = np.moveaxis(effect, 2, 0)
        return x * wanted[:, :1] + y * wanted[:, 1:2] + turn * wanted[:, 2:]

    def _choose(self, states: np.ndarray) -> None:
        """Choose a new spot where a push took too long, left the T, or no longer helps."""
        values = self._values(states)
        off = clearance(states[:, :2], states[:, 2:5]) > AGENT_RADIUS + LOST
        over = (self._left <= 0) | (self._pushing & (off | (values[self._all, self._spot] < 0)))
        self._choice = np.where(over, self._choice + 1, self._choice) % self._bonuses.shape[1]
        best = (values + self._bonuses[self._all, self._choice]).argmax(1)
        self._spot = np.where(over, best, self._spot)
        self._left = np.where(over, self._patience[self._all, self._choice], self._left)
        self._pushing &= ~over

    def _waypoint(self, agent: np.ndarray, pose: np.ndarray, stand: np.ndarray) -> np.ndarray:
        """The next point to move to [N, 2]: on the circle around the T while the stand is behind it."""
        middle = pose[:, :2] + turned(np.array([0.0, 55.0]), pose[:, 2])
        here, there = agent - middle, stand - middle
        bearing, wanted = (np.arctan2(offset[:, 1], offset[:, 0]) for offset in (here, there))
        behind = (wanted - bearing + np.pi) % (2 * np.pi) - np.pi
        turn = bearing + np.clip(behind, -0.5, 0.5)
        circle = middle + AROUND * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        return np.where((np.abs(behind) > 0.35)[:, None], circle, stand)
