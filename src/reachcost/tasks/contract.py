"""`Task`: a batched simulated world. Subclass it and leave out the optional parts that your world cannot offer.

All methods take batches of N states as numpy arrays. `reachcost.check_task` tests the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.data.observations import LazyColumns
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]  # states [N, ...] and goals [N, ...] to distances [N]

LOST = {
    "distance": "no oracle planner, no SASC, no heads on oracle labels; final distances are NaN",
    "generate_logs": "logs must come from a file",
    "evaluation_set": "starts and goals must be given, say by logged_goals",
    "render": "no pictures of episodes",
    "coordinates": "a probe reads every number of the state, angles and unseen parts too",
    "groups": "success is not reported by kind of episode",
    "category": "failures have one name",
    "bottleneck": "the criterion about coverage finds narrow places by the oracle distance",
    "plane": "no maps of costs, and no places to click on",
    "handles": "its layout cannot be dragged",
}
"""The optional parts of a task, and what is lost without each of them."""
SET_PAIR = tuple({"method": f"_set_{name}", "args": {name: {"value": name}}} for name in ("state", "goal_state"))
"""Calls by which `World.evaluate` of stable-worldmodel sets start and goal of an episode."""


@dataclass(frozen=True)
class Plane:
    """Places (x, y) of states on a rectangle, y growing downwards.

    >>> plane = Plane((0, 0), (2, 1), 0.5, lambda s: s, lambda p: p, lambda p: p[:, 0] > 1)
    >>> plane.grid().shape, plane.grid()[0, :2].tolist()
    ((2, 4, 2), [[0.25, 0.25], [0.75, 0.25]])
    """

    low: tuple[float, float]  # the upper left corner
    high: tuple[float, float]  # the lower right corner
    cell: float  # side of the cells of a map
    places: Callable[[np.ndarray], np.ndarray]  # of states: [N, ...] -> (x, y) [N, 2]
    states: Callable[[np.ndarray], np.ndarray]  # at rest at free places, or nearest to them: [N, 2] -> [N, ...]
    free: Callable[[np.ndarray], np.ndarray]  # whether an agent can be at places: [N, 2] -> bool [N]

    def grid(self) -> np.ndarray:
        """Centres of the cells of a map, float [rows, columns, 2]."""
        x, y = (
            np.linspace(low, high, round((high - low) / self.cell), endpoint=False) + self.cell / 2
            for low, high in zip(self.low, self.high, strict=True)
        )
        return np.stack(np.meshgrid(x, y), axis=-1)


@dataclass(frozen=True)
class Handle:
    """A part of a world that can be dragged along a line of its plane.

    >>> Handle("door", (5, 0), (5, 10), 0.25).place
    (5.0, 2.5)
    """

    name: str
    start: tuple[float, float]  # place at value 0
    end: tuple[float, float]  # place at value 1
    value: float  # the present position, from 0 to 1
    positions: int | None = None  # number of positions, evenly from start to end; None for any

    @property
    def place(self) -> tuple[float, float]:
        """The present place, (x, y)."""
        x, y = ((1 - self.value) * first + self.value * last for first, last in zip(self.start, self.end, strict=True))
        return x, y


@dataclass(frozen=True)
class PublicEnvironment:
    """The same world in stable-worldmodel."""

    name: str  # its Gymnasium id there
    pixels: int  # side of its frames
    callables: tuple[Mapping[str, Any], ...] = SET_PAIR


class Task(ABC):
    """A simulated world. `step`, `observe` and `success` are required, everything else is optional (see `LOST`)."""

    name: str  # in commands and records
    action_budget: int  # maximum number of actions per episode, unless its evaluation set has a budget
    stops_at_success: bool = False  # whether an episode ends at its goal, instead of at the end of its budget
    discrete_actions: int | None = None  # number of actions, given by index, int64 [N, 1]; None if continuous
    action_dim: int | None = None  # size of a continuous action, if declared: action blocks are compared with it
    distance_unit: str = ""  # of the oracle distance, such as `px` or `steps`
    sets: tuple[str, ...] = ()  # names of its evaluation sets; the first one is the default
    models: tuple[str, ...] = ()  # its bundled world models, as `--model` takes them; the first one is the default
    public: ClassVar[PublicEnvironment | None] = None  # the same world in stable-worldmodel, if it is there

    @property
    def world(self) -> str:
        """Identifies the world: evaluation sets of other worlds are refused."""
        return self.name

    @abstractmethod
    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: [N, ...], [N, a] -> [N, ...]; discrete actions are int64 [N, 1]."""

    @abstractmethod
    def observe(self, states: np.ndarray) -> Observations:
        """Everything a world model may encode, as columns of N rows, including `state`."""

    @abstractmethod
    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether each state counts as having reached its goal: bool [N]."""

    def offers(self, part: str) -> bool:
        """Whether this world has an optional part."""
        return part in vars(self) or getattr(type(self), part) is not getattr(Task, part)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """The oracle distance [N], 0 from a state to itself; used for diagnosis, never by a terminal cost."""
        raise self._missing("distance")

    @property
    def further_distances(self) -> Mapping[str, Distance]:
        """Distances that audits report in addition to the oracle's, by name."""
        return {}

    def generate_logs(self, episodes: int, seed: int = 0) -> Logs:
        """Log the data policy of this world, with the columns `state` and `action`; the seed determines the logs."""
        raise self._missing("generate_logs")

    def describe_logs(self, logs: Logs) -> Mapping[str, tuple[float, float | None]]:
        """Statistics of logs by name, each with the value of the public logs of this world, if known."""
        return {
            "episodes": (len(logs), None),
            "observations": (logs.rows, None),
            "shortest episode": (int(logs.lengths.min()), None),
            "longest episode": (int(logs.lengths.max()), None),
            "mean length": (float(logs.lengths.mean()), None),
        }

    def evaluation_set(self, name: str) -> EvaluationSet:
        """The evaluation set of that name, one of `sets`; always the same."""
        raise self._missing("evaluation_set")

    def render(self, states: np.ndarray) -> np.ndarray:
        """Render states as uint8 pixels [N, height, width, 3]."""
        raise self._missing("render")

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """What a probe should read from a state, finite [N, K]: angles as sine and cosine, only what frames show."""
        return np.asarray(states, np.float64).reshape(len(states), -1)

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Named kinds of episodes, bool [N]: always the same names, and every episode in at most one of them."""
        return {}

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Names of the outcomes of episodes from `starts` to `states`, including `success`: str [N]."""
        return np.where(self.success(states, goals), "success", "not_reached")

    def bottleneck(self, states: np.ndarray) -> np.ndarray:
        """Whether states are near places that every long path passes: 2 near, 0 far, 1 in between, int [N]."""
        raise self._missing("bottleneck")

    def plane(self) -> Plane:
        """The plane of its states, on which costs are shown and places are clicked."""
        raise self._missing("plane")

    def handles(self) -> tuple[Handle, ...]:
        """Parts of its layout that can be dragged; a world with handles also has `moved`."""
        raise self._missing("handles")

    def moved(self, name: str, value: float) -> Task:
        """This world with the handle of that name at another value from 0 to 1, or at the nearest position."""
        raise self._missing("handles")

    def _missing(self, part: str) -> ReachcostError:
        return ReachcostError(f"the task {self.name!r} has no `{part}`: write that method, or do without: {LOST[part]}")


def frames_of_two_sizes(states: np.ndarray, proprio: Any, render: Callable[..., np.ndarray]) -> Observations:
    """The columns `state`, `proprio`, `pixels` and `pixels_64`; frames are rendered when read."""
    frames = {"pixels": lambda: render(states), "pixels_64": lambda: render(states, 64)}
    return LazyColumns({"state": states, "proprio": proprio, **frames})


def require_finite(name: str, rows: np.ndarray) -> None:
    """Require finite numbers in every row of states or actions [N, ...]."""
    if not np.isfinite(rows).all():
        row = int(np.argwhere(~np.isfinite(rows))[0, 0])
        raise ReachcostError(f"{name} {row} is {rows[row].tolist()}: {name}s must be finite")


def require_task(task: object) -> None:
    """Require a `Task` that has a name and an action budget."""
    require_type(task, Task, "task", "give a task, rc.make_task(name), or make one of your reachcost.Task")
    if missing := next((name for name in ("name", "action_budget") if not hasattr(task, name)), None):
        raise ReachcostError(f"the task {type(task).__name__} has no `{missing}`: set that attribute of its class")
