"""The evaluation sets of PushT: rows t and t + offset of episodes that no training log holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.core.atomic import write_file
from reachcost.data.evaluation import EvaluationSet, logged_goals, read_evaluation_set
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.logs import make_logs
from reachcost.tasks.pusht.policies import KINDS

FROZEN = Path(__file__).parent / "frozen"
BUDGETS = {25: 50, 50: 50, 75: 75}
"""Goal offset in steps, and the actions that its episodes may execute."""
SEEDS = (3072, 3073, 3074)
EPISODES = 50
NAMES = tuple(f"offset-{offset}-{seed}" for offset in BUDGETS for seed in SEEDS)
ARRAYS = ("starts", "goals", "episodes", "source_rows", "source_episodes")
PATTERN = re.compile(r"offset-(\d+)-(tune-)?(\d+)")


def load(name: str, world: str) -> EvaluationSet:
    """The frozen set of that name; one of another seed, or to tune on, is drawn."""
    if name not in NAMES:
        return draw(name, world)
    return read_evaluation_set(
        FROZEN / f"{name}.json", np.float64, name=name, world=world, budget=BUDGETS[int(name.split("-")[1])]
    )


def freeze(directory: Path, world: str) -> None:
    """Write the manifests that are shipped; `docs/pusht.md` has the command."""
    for name in NAMES:
        write_file(directory / f"{name}.json", json.dumps(to_manifest(draw(name, world))) + "\n")


def to_manifest(evaluation: EvaluationSet) -> dict[str, Any]:
    """The set as JSON values; float64 survives as decimal numbers."""
    return {
        "name": evaluation.name,
        "seed": evaluation.seed,
        "budget": evaluation.budget,
        "logs_sha256": evaluation.logs_sha256,
        "sha256": evaluation.fingerprint,
        **{part: np.asarray(getattr(evaluation, part)).tolist() for part in ARRAYS},
    }


def draw(name: str, world: str, episodes: int = EPISODES) -> EvaluationSet:
    """Draw `offset-<25, 50 or 75>-<seed>`, or `offset-<...>-tune-<seed>` to choose settings on: one pair an episode.

    Their episodes are the scripted pusher's, from streams of their own: the evaluation sets share none with training
    logs of any seed, with those to tune on, or with each other.
    """
    match = PATTERN.fullmatch(name)
    if match is None or int(match[1]) not in BUDGETS:
        raise ReachcostError(
            f"PushT has no evaluation set {name!r}: choose one of {', '.join(NAMES)}, another seed of these, or "
            "offset-<25, 50 or 75>-tune-<seed> to choose settings on"
        )
    offset, seed = int(match[1]), int(match[3])
    logs = held_out_logs(f"{'tune' if match[2] else 'evaluation'}-{offset}", seed, episodes)
    return logged_goals(logs, offset, episodes, seed, name=name, world=world, budget=BUDGETS[offset])


def held_out_logs(purpose: str, seed: int, episodes: int) -> Logs:
    """The episodes that a set is drawn from."""
    return make_logs(seed, np.arange(episodes), f"pusht-{purpose}", kinds=(KINDS.index("pusher"),))
