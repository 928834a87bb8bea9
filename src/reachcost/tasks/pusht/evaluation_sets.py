"""The evaluation sets of PushT: rows t and t + offset of episodes that are in no training logs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from reachcost.data.evaluation import EvaluationSet, logged_goals, read_evaluation_set, write_evaluation_set
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.logs import make_logs
from reachcost.tasks.pusht.policies import KINDS

FROZEN = Path(__file__).parent / "frozen"
BUDGETS = {25: 50, 50: 50, 75: 75}  # goal offset in steps, and maximum number of actions per episode
SEEDS = (3072, 3073, 3074)
EPISODES = 50
NAMES = tuple(f"offset-{offset}-{seed}" for offset in BUDGETS for seed in SEEDS)
PATTERN = re.compile(r"offset-(\d+)-(tune-)?(\d+)")


def load(name: str, world: str) -> EvaluationSet:
    """The frozen set of that name; a tuning set or a set of another seed is sampled."""
    if name not in NAMES:
        return draw(name, world)
    return read_evaluation_set(
        FROZEN / f"{name}.json", np.float64, name=name, world=world, budget=BUDGETS[int(name.split("-")[1])]
    )


def freeze(directory: Path, world: str) -> None:
    """Write the files that are shipped; `docs/pusht.md` has the command."""
    for name in NAMES:
        write_evaluation_set(draw(name, world), directory / f"{name}.json")


def draw(name: str, world: str, episodes: int = EPISODES) -> EvaluationSet:
    """Sample `offset-<25, 50 or 75>-<seed>`, or the tuning set `offset-<...>-tune-<seed>`: one pair per episode.

    The scripted pusher makes the episodes from separate random streams: evaluation sets share none with training
    logs of any seed, with tuning sets, or with each other.
    """
    match = PATTERN.fullmatch(name)
    if match is None or int(match[1]) not in BUDGETS:
        raise ReachcostError(
            f"PushT has no evaluation set {name!r}: choose one of {', '.join(NAMES)}, another seed of these, or the "
            "tuning set offset-<25, 50 or 75>-tune-<seed>"
        )
    offset, seed = int(match[1]), int(match[3])
    logs = held_out_logs(f"{'tune' if match[2] else 'evaluation'}-{offset}", seed, episodes)
    return logged_goals(logs, offset, episodes, seed, name=name, world=world, budget=BUDGETS[offset])


def held_out_logs(purpose: str, seed: int, episodes: int) -> Logs:
    """The episodes from which a set is sampled."""
    return make_logs(seed, np.arange(episodes), f"pusht-{purpose}", kinds=(KINDS.index("pusher"),))
