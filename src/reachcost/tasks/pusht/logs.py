"""PushT logs in the columns of the public files, their statistics, and evaluation sets from held-out episodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from reachcost.data.evaluation import EvaluationSet, logged_goals
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.pusht import policies
from reachcost.tasks.pusht.geometry import touches_walls

STEPS = 100
PURPOSE = "pusht-logs"
AT_ONCE = 1000  # episodes simulated in one batch; larger batches are not faster
MOVED = 1e-9  # pixels or radians; a T without contact does not move at all
LATER = 25  # steps over which displacement and rotation are measured, in addition to single steps
FROZEN = Path(__file__).parent / "frozen"
BUDGETS = {25: 50, 50: 50, 75: 75}  # goal offset in steps, and maximum number of actions per episode
EPISODES = 50
NAMES = tuple(f"offset-{offset}-{seed}" for offset in BUDGETS for seed in (3072, 3073, 3074))
PATTERN = re.compile(r"offset-(25|50|75)-(tune-)?(\d+)")


def make_logs(
    seed: int,
    episodes: np.ndarray,
    purpose: str = PURPOSE,
    *,
    steps: int = STEPS,
    kinds: Sequence[int] | None = None,
    observe: Callable[[np.ndarray], Observations] | None = None,
) -> Logs:
    """Log episodes by their numbers [E]; an episode does not depend on the others.

    The action of the last row of an episode is zero, as none was executed there.
    """
    count, rows = len(episodes), steps + 1
    batches = [episodes[start : start + AT_ONCE] for start in range(0, count, AT_ONCE)]
    parts = [policies.collect(seed, batch, steps, purpose, kinds) for batch in batches]
    states, actions, made_by = (np.concatenate(column) for column in zip(*parts, strict=True))
    actions = np.concatenate([actions, np.zeros((count, 1, 2), np.float32)], axis=1)
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
    return make_logs(seed, np.arange(episodes), f"pusht-{purpose}", kinds=(policies.KINDS.index("pusher"),))
