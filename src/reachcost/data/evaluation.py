"""Evaluation sets: fixed start and goal states, read from frozen JSON files or sampled from logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.json_files import read_json
from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, foreign_errors, require_type

UNNUMBERED = np.empty(0, np.int64)
"""Default of episode numbers: 0 to E - 1."""
ARRAYS = ("episodes", "source_rows", "source_episodes")
"""Arrays of whole numbers in a frozen set."""


@dataclass(frozen=True)
class EvaluationSet:
    """E start and goal states of one task.

    Attributes:
        starts: Start states [E, ...].
        goals: Goal states [E, ...].
        name: Its name in the task.
        seed: The seed of its sampling.
        episodes: Number of each episode [E], by default 0 to E - 1. A subset keeps the numbers, and with them its
            random streams.
        source_rows: Log rows of start and goal [E, 2], if they were taken from logs.
        source_episodes: Logged episodes of those rows [E, 2].
        logs_sha256: Fingerprint of those logs.
        world: The world of the states, `task.world`; empty if unknown.
        budget: Actions that an episode may execute; by default those of the task.
        full_sha256: Fingerprint of the full set, if this set is a subset.

    >>> EvaluationSet(starts=np.zeros((2, 3)), goals=np.ones((2, 3))).episodes.tolist()
    [0, 1]
    """

    starts: np.ndarray
    goals: np.ndarray
    name: str = "given"
    seed: int = 0
    episodes: np.ndarray = field(default_factory=lambda: UNNUMBERED)
    source_rows: np.ndarray | None = None
    source_episodes: np.ndarray | None = None
    logs_sha256: str | None = None
    world: str = ""
    budget: int | None = None
    full_sha256: str | None = None

    def __post_init__(self) -> None:
        for name in ("starts", "goals"):
            states = np.asarray(getattr(self, name))
            if states.ndim < 1 or states.dtype.kind not in "biuf":
                _refuse(f"{name} are {str(states.tolist())[:60]}", "give one state per episode")
            wrong = np.flatnonzero(~np.isfinite(states).all(axis=tuple(range(1, states.ndim))))
            if len(wrong):
                _refuse(f"{name} are not finite, first in row {wrong[0]}", "leave it out")
            object.__setattr__(self, name, states)
        shapes = self.starts.shape[1:], self.goals.shape[1:]
        if shapes[0] != shapes[1]:
            _refuse(f"starts and goals have shapes {shapes}", "give states of one task")
        if self.episodes is UNNUMBERED:
            object.__setattr__(self, "episodes", np.arange(len(self.starts)))
        counts = len(self.starts), len(self.goals), len(self.episodes)
        if len({*counts}) > 1:
            _refuse(f"{counts} starts, goals and episodes", "give one of each per episode")
        if len({*self.episodes.tolist()}) < len(self.episodes):
            _refuse(f"episodes with the same number, {self.episodes[:8].tolist()}", "renumber them")

    def __len__(self) -> int:
        return len(self.episodes)

    def __repr__(self) -> str:
        return f"EvaluationSet({self.name!r}, {len(self)} episodes, seed {self.seed})"

    @property
    def fingerprint(self) -> str:
        """sha256 over episode numbers, start and goal states and, if known, their source in the logs."""
        arrays = [self.episodes, self.starts, self.goals]
        if self.source_rows is not None and self.source_episodes is not None:
            arrays += [self.source_rows, self.source_episodes, np.array([self.seed]), np.array([str(self.logs_sha256)])]
        return fingerprint_arrays(*arrays)

    @property
    def record(self) -> dict[str, str]:
        """Fingerprints that a record contains: that of the set and, for a subset, that of the full set."""
        record = {"evaluation_set_sha256": self.fingerprint}
        if self.full_sha256 not in (None, self.fingerprint):
            record["full_set_sha256"] = self.full_sha256
        return record

    def subset(self, rows: np.ndarray | slice) -> EvaluationSet:
        """Some rows as a set."""
        arrays = {name: getattr(self, name) for name in ("starts", "goals", *ARRAYS)}
        kept = {name: values[rows] for name, values in arrays.items() if values is not None}
        return replace(self, **kept, full_sha256=self.full_sha256 or self.fingerprint)

    def spread(self, count: int) -> EvaluationSet:
        """A subset with this number of episodes, spread over the set."""
        if not 1 <= count <= len(self):
            raise ReachcostError(f"{self.name!r} has {len(self)} episodes, not {count}: choose 1 to {len(self)}")
        return self.subset(np.linspace(0, len(self) - 1, count).astype(int))


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise ReachcostError(f"evaluation set: {problem}: {remedy}")


EvaluationSets: TypeAlias = EvaluationSet | Sequence[EvaluationSet] | None
"""Type of arguments that take one evaluation set, several or none."""


def as_sets(exclude: EvaluationSets) -> tuple[EvaluationSet, ...]:
    """Evaluation sets to exclude, as a tuple; raises an error for anything else."""
    given: Any = exclude if isinstance(exclude, list | tuple) else [] if exclude is None else [exclude]
    for chosen in given:
        if not isinstance(chosen, EvaluationSet):
            raise ReachcostError(f"exclude= takes evaluation sets, not {chosen!r:.80}: see task.evaluation_set(name)")
    return tuple(given)


def require_set(evaluation: object) -> None:
    """Raise an error for anything but an evaluation set, such as a name."""
    require_type(evaluation, EvaluationSet, "evaluation", "give a set, task.evaluation_set(name) or rc.EvaluationSet")


def require_one_world(world: str, evaluation: EvaluationSet) -> None:
    """Raise an error for an evaluation set of another world (such as another layout) than the task's."""
    if evaluation.world and world != evaluation.world:
        raise ReachcostError(
            f"evaluation set {evaluation.name!r} is of {evaluation.world}, but the task is {world}: sample another set"
        )


def read_evaluation_set(path: Path, dtype: type[np.floating], **known: Any) -> EvaluationSet:
    """The frozen set in a file; raises an error if its fingerprint is not the recorded one.

    Args:
        path: The file.
        dtype: Type of its states.
        known: Its name, world and budget.
    """
    with foreign_errors(f"the evaluation set {path} is damaged", "reinstall reachcost"):
        manifest = read_json(path)
        evaluation = EvaluationSet(
            starts=np.array(manifest["starts"], dtype),
            goals=np.array(manifest["goals"], dtype),
            seed=manifest["seed"],
            logs_sha256=manifest["logs_sha256"],
            **{name: np.array(manifest[name], np.int64) for name in ARRAYS},
            **known,
        )
        if evaluation.fingerprint != manifest["sha256"]:
            raise ReachcostError(f"the evaluation set {path} was changed since it was frozen: reinstall reachcost")
    return evaluation


def logged_goals(
    logs: Logs,
    offset: int,
    count: int,
    seed: int = 0,
    *,
    name: str | None = None,
    world: str = "",
    budget: int | None = None,
) -> EvaluationSet:
    """Sample a start from each of `count` logged episodes; its goal is `offset` steps later in the same episode.

    Args:
        logs: Episodes with the column `state`.
        offset: Steps from start to goal.
        count: Number of goals.
        seed: Seed of the sampling.
        name: Name of the set; by default after the offset.
        world: The world of the logs, `task.world`.
        budget: Actions that an episode may execute; by default those of the task.

    >>> from reachcost import make_task
    >>> logged_goals(make_task("tworoom").generate_logs(20), offset=25, count=10)
    EvaluationSet('offset-25', 10 episodes, seed 0)
    """
    if "state" not in logs.columns:
        raise ReachcostError("these logs have no column 'state': starts and goals need one")
    if offset < 1 or count < 1:
        raise ReachcostError(f"offset is {offset} and count is {count}: give 1 or more for both")
    long_enough = np.flatnonzero(logs.lengths > offset)
    if len(long_enough) < count:
        raise ReachcostError(f"only {len(long_enough)} episodes last longer than {offset} steps: lower offset or count")
    rng = generator(seed, "logged-goals")
    episodes = np.sort(rng.choice(long_enough, count, replace=False))
    chosen = logs.offsets[episodes] + rng.integers(0, logs.lengths[episodes] - offset)
    source = np.stack([chosen, chosen + offset], axis=1)
    return EvaluationSet(
        name=f"offset-{offset}" if name is None else name,
        starts=logs.columns["state"][source[:, 0]],
        goals=logs.columns["state"][source[:, 1]],
        seed=seed,
        source_rows=source,
        source_episodes=logs.episode_of(source),
        logs_sha256=logs.fingerprint,
        world=world,
        budget=budget,
    )
