"""Evaluation sets that are shipped: drawn once, frozen as JSON, and known by their fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reachcost.core.json_files import read_json
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import FOREIGN_ERRORS, ReachcostError

ARRAYS = ("episodes", "source_rows", "source_episodes")


def read_frozen(path: Path, states: type[np.floating], **known: Any) -> EvaluationSet:
    """The set in a file, which must be the one that was frozen.

    Args:
        path: The file.
        states: The type of its states.
        known: What the fingerprint does not cover: its name, world, budget.
    """
    try:
        return thawed(read_json(path), states, **known)
    except ReachcostError:
        raise
    except (OSError, *FOREIGN_ERRORS) as error:
        raise ReachcostError(f"the evaluation set {path} is damaged ({error}): reinstall reachcost") from error


def thawed(manifest: Any, states: type[np.floating], **known: Any) -> EvaluationSet:
    """Rebuild a set and check its hash."""
    evaluation = EvaluationSet(
        starts=np.array(manifest["starts"], states),
        goals=np.array(manifest["goals"], states),
        seed=manifest["seed"],
        logs_sha256=manifest["logs_sha256"],
        **{name: np.array(manifest[name], np.int64) for name in ARRAYS},
        **known,
    )
    if evaluation.fingerprint != manifest["sha256"]:
        raise ReachcostError(f"evaluation set {evaluation.name!r} was changed since it was frozen: reinstall reachcost")
    return evaluation
