"""What a report is made of, whether it was just computed or read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import AliasPath, Field

from reachcost.audits.audit import Audit
from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.json_files import read_as
from reachcost.planning.control import ControlRuns
from reachcost.report.scene import Scene
from reachcost.results.records import Run
from reachcost.results.tables import ResultTable

Value = TypeVar("Value")


@dataclass(frozen=True)
class Loop:
    """Outcomes of the E episodes of one closed loop."""

    cost: str
    success: np.ndarray  # whether the goal was reached, bool [E]
    steps: np.ndarray  # number of actions, int [E]
    category: np.ndarray  # how the episode ended, str [E]
    run: str = ""  # name of the record, if there is one
    model: str = ""
    setting: str = ""  # name of the evaluation set, if known
    protocol: str = ""  # episodes, planner, seed and budget: only loops of one protocol compare


def _at(*path: str) -> Any:
    return Field(validation_alias=AliasPath(*path))


@dataclass(frozen=True)
class Training:
    """What a report shows of the record of a head; other training methods record fewer values."""

    seed: int | None = None
    labels: Annotated[str | None, _at("pairs", "labels")] = None
    train_pairs: Annotated[int | None, _at("pairs", "train_pairs")] = None
    validation_pairs: Annotated[int | None, _at("pairs", "validation_pairs")] = None
    held_out_episodes: Annotated[int | None, _at("pairs", "held_out_episodes")] = None
    excluded_episodes: Annotated[int | None, _at("pairs", "exclusion", "excluded_episodes")] = None
    overlapping_pairs: Annotated[int | None, _at("pairs", "exclusion", "overlapping_pairs")] = None
    logs_sha256: Annotated[str | None, _at("pairs", "logs_sha256")] = None
    model: Annotated[str | None, _at("pairs", "model", "name")] = None
    validation_loss: float | None = None
    validation_rmse: float | None = None
    constant_loss: Annotated[float | None, _at("references", "constant", "loss")] = None
    constant_rmse: Annotated[float | None, _at("references", "constant", "rmse")] = None
    shuffled_loss: Annotated[float | None, _at("references", "shuffled", "loss")] = None
    shuffled_rmse: Annotated[float | None, _at("references", "shuffled", "rmse")] = None
    curve: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any], where: str) -> Training:
        """Read the record of a head.

        >>> Training.of({"seed": 3, "pairs": {"labels": "temporal"}}, "a head").labels
        'temporal'
        """
        return read_as(cls, dict(record), where)

    @property
    def losses(self) -> list[float]:
        """Validation loss of each epoch that has one."""
        found = [epoch.get("validation_loss") for epoch in self.curve]
        return [float(loss) for loss in found if isinstance(loss, int | float)]


@dataclass(frozen=True)
class Material:
    """Everything that the panels show. Materials are joined with `+`."""

    audits: dict[str, Audit] = field(default_factory=dict)  # by name of the file or cost
    loops: tuple[Loop, ...] = ()
    ranks: dict[str, np.ndarray] = field(default_factory=dict)  # % of candidates before the best one [E], by cost
    unranked: tuple[str, ...] = ()  # sentences about rankings that are not shown
    tables: tuple[ResultTable, ...] = ()
    heads: dict[str, Training] = field(default_factory=dict)
    scenes: tuple[Scene, ...] = ()
    records: tuple[Run, ...] = ()
    commands: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # sentences about everything else that is not shown

    def __add__(self, other: Material) -> Material:
        joined: dict[str, Any] = {}
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            named = isinstance(mine, dict)
            joined[part.name] = numbered([*mine.items(), *theirs.items()]) if named else (*mine, *theirs)
        return Material(**joined)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not any(getattr(self, part.name) for part in fields(self))

    @property
    def scene(self) -> Scene | None:
        """The scene with the most costs side by side, then with the most episodes."""

        def size(scene: Scene) -> tuple[int, int, int]:
            costs = max((len(episode.replays) for episode in scene.episodes), default=0)
            return costs, len(scene.episodes), len(scene.neighbourhoods)

        return max(self.scenes, key=size, default=None)


def numbered(pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """Values by name. Later values of a name get a number, but equal arrays are dropped.

    >>> numbered([("raw", 14), ("head", 99), ("raw", 22)])
    {'raw': 14, 'head': 99, 'raw (2)': 22}
    """
    found: dict[str, Value] = {}
    for name, value in pairs:
        if isinstance(value, np.ndarray) and np.array_equal(value, np.asarray(found.get(name))):
            continue  # audits of one world model rank the same candidates by latent distance
        free = (f"{name} ({number})" for number in count(2))
        found[name if name not in found else next(word for word in free if word not in found)] = value
    return found


def loops_of(runs: ControlRuns) -> tuple[Loop, ...]:
    """The outcomes of each cost."""
    parts = zip(runs.costs, runs.success, runs.steps, runs.category, strict=True)
    episodes = fingerprint_arrays(runs.episodes, runs.paths[0, :, 0], runs.goals)
    return tuple(Loop(*part, protocol=f"{episodes}, {runs.paths.shape[2]}") for part in parts)
