"""Pairs labelled by the oracle distance, for diagnostic heads that show what better labels could achieve."""

from __future__ import annotations

import numpy as np
import torch

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSets
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.labels.coverage import Groups, TooFewStates
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import Pairs, PairSet, require_counts, require_latents, sample_allowed
from reachcost.tasks.contract import Task, require_task


class OraclePairs(Pairs):
    """Pairs of any two logged rows, labelled by the true distance of the task. Not a repair: it needs the simulator.

    Pairs without a path from the first to the second row are resampled. Arguments not listed are as for
    `TemporalPairs`.

    Args:
        latents: Encoded logs with a column `state`.
        task: Measures the distance.
        groups: Maps the states of pairs [P, ...], [P, ...] to group numbers [P]; each group gets as many pairs.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task = make_task("toponav")
    >>> pairs = OraclePairs(encode_logs(ExactTopoNav(), task.generate_logs(50)), task, count=1000, validation=100)
    >>> pairs.record["labels"]
    'oracle'
    """

    def __init__(
        self,
        latents: Latents,
        task: Task,
        count: int = 100_000,
        validation: int = 10_000,
        exclude: EvaluationSets = None,
        seed: int = 0,
        groups: Groups | None = None,
    ) -> None:
        require_latents(latents)
        require_task(task)
        require_counts(count, validation)
        exclusion = Exclusion(latents.logs, exclude)
        if "state" not in latents.logs.columns:
            raise ReachcostError("oracle labels are distances of states, but these logs have no column 'state': add it")
        usable, states = exclusion.require_rows(), latents.logs.columns["state"]

        def sample(number: int, purpose: str, *indices: int) -> PairSet:
            rng = generator(seed, purpose, *indices)

            def draw(size: int) -> tuple[np.ndarray, ...]:
                first, second = rng.choice(usable, (2, size))
                distance = task.distance(np.asarray(states[first]), np.asarray(states[second]))
                return first, second, np.array(distance, np.float32)

            def refused(first: np.ndarray, second: np.ndarray, distance: np.ndarray) -> np.ndarray:
                return exclusion.bans(first, second) | np.isinf(distance)

            # With groups, sample many more pairs, to keep as many of each group.
            columns = sample_allowed(number if groups is None else 20 * number, draw, refused)
            if groups is not None:
                chosen = _equally_many(groups(*(states[rows] for rows in columns[:2])), number)
                columns = tuple(column[chosen] for column in columns)
            return PairSet(*map(torch.from_numpy, columns))

        super().__init__(
            latents,
            lambda epoch: sample(count, "oracle-train-pairs", epoch),
            sample(validation, "oracle-validation-pairs"),
            exclusion,
            {"labels": "oracle", "sampling": "any-rows", "seed": seed},
        )


def _equally_many(groups: np.ndarray, count: int) -> np.ndarray:
    """Positions of `count` pairs, ascending, as many of each group up to rounding."""
    found = np.unique(groups)
    wanted = np.diff(np.linspace(0, count, len(found) + 1).astype(int))
    chosen = [np.flatnonzero(groups == group)[:share] for group, share in zip(found, wanted, strict=True)]
    if sum(map(len, chosen)) < count:
        sizes = ", ".join(str(len(part)) for part in chosen)
        raise TooFewStates(f"the groups hold only {sizes} pairs of {count}: give logs with more pairs of each group")
    return np.sort(np.concatenate(chosen))
