"""What a report is made of, in the terms of its panels, whether it was just computed or read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any, TypeVar

import numpy as np

from reachcost.audits.planner import Audit
from reachcost.core.arrays import fingerprint_arrays
from reachcost.planning.control import ControlRuns
from reachcost.report.scene import Scene
from reachcost.report.training import Training
from reachcost.results.ranking import Ranking
from reachcost.results.tables import ResultTable

Value = TypeVar("Value")


@dataclass(frozen=True)
class Loop:
    """How the episodes of one closed loop came out."""

    cost: str
    success: np.ndarray
    """Whether the goal was reached, bool [E]."""
    steps: np.ndarray
    """Actions until then, or all [E]."""
    category: np.ndarray
    """How it came out, str [E]."""
    run: str = ""
    """The record it is from, if it is from one."""
    model: str = ""
    """The world model, where it is told."""
    setting: str = ""
    """The evaluation set, where it is told."""
    protocol: str = ""
    """Planner, seed and budget, where they are told: what is compared has the same."""


@dataclass(frozen=True)
class Record:
    """A run on disk, as its manifest tells it."""

    name: str
    kind: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class Material:
    """Everything that panels may show."""

    audits: dict[str, Audit] = field(default_factory=dict)
    """By the name of the file or cost."""
    loops: tuple[Loop, ...] = ()
    ranks: dict[str, np.ndarray] = field(default_factory=dict)
    """% of candidates put before the truly best one, by cost [E]."""
    unranked: tuple[str, ...] = ()
    """Which rankings are there and not shown, in sentences."""
    tables: tuple[ResultTable, ...] = ()
    heads: dict[str, Training] = field(default_factory=dict)
    """How heads were trained, by name."""
    scenes: tuple[Scene, ...] = ()
    records: tuple[Record, ...] = ()
    commands: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """What is there and not shown, in sentences."""

    def __add__(self, other: Material) -> Material:
        """Both together."""
        together: dict[str, Any] = {}
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            several = isinstance(mine, dict)
            together[part.name] = numbered([*mine.items(), *theirs.items()]) if several else (*mine, *theirs)
        return Material(**together)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not any(getattr(self, part.name) for part in fields(self))

    @property
    def scene(self) -> Scene | None:
        """What can be looked at: the scene that shows most costs side by side, then the one with most episodes."""
        return max(self.scenes, key=_seen, default=None)


def _seen(scene: Scene) -> tuple[int, int, int]:
    ways = max((len(episode.ways) for episode in scene.episodes), default=0)
    return ways, len(scene.episodes), len(scene.neighbourhoods)


def numbered(pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """All values by name; of one name, the later ones are numbered, but for arrays that are there already.

    >>> numbered([("raw", 14), ("head", 99), ("raw", 22)])
    {'raw': 14, 'head': 99, 'raw (2)': 22}
    """
    found: dict[str, Value] = {}
    for name, value in pairs:
        if isinstance(value, np.ndarray) and np.array_equal(value, np.asarray(found.get(name))):
            continue  # several audits of one world model rank the same candidates by latent distance
        free = (f"{name} ({number})" for number in count(2))
        found[name if name not in found else next(word for word in free if word not in found)] = value
    return found


def loops_of(runs: ControlRuns) -> tuple[Loop, ...]:
    """How the episodes of each cost came out."""
    parts = zip(runs.costs, runs.success, runs.steps, runs.category, strict=True)
    episodes = fingerprint_arrays(runs.episodes, runs.paths[0, :, 0], runs.goals)
    return tuple(Loop(*part, protocol=f"{episodes}, {runs.paths.shape[2]}") for part in parts)


def ranks_of(rankings: Mapping[str, Ranking]) -> dict[str, np.ndarray]:
    """Where each cost puts the truly best candidate."""
    return {name: ranking.oracle_best_rank for name, ranking in rankings.items()}
