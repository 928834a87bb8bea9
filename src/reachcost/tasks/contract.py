"""`Task`: what general code asks of a simulated world. Subclass it, and leave out what your world cannot offer.

Always in batches of N states; the world side speaks numpy. `reachcost.check_task` tests the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations
from reachcost.tasks.plane import Handle, Plane

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""States [N, ...] and goals [N, ...] to distances [N]."""

LOST = {
    "distance": "no oracle planner, no SASC, no heads on oracle labels; final distances are NaN",
    "generate_logs": "logs must come from a file",
    "evaluation_set": "starts and goals must be given, say by logged_goals",
    "render": "no pictures of episodes",
    "coordinates": "a probe reads every number of the state, angles and unseen parts too",
    "groups": "success is not told apart by kind of episode",
    "category": "failures have one name",
    "bottleneck": "the criterion about coverage finds narrow places by the oracle distance",
    "plane": "no maps of what costs say about places, and nothing to click on",
    "handles": "nothing of its layout can be dragged",
}
"""The optional parts of a task, and what is lost without each of them."""


@dataclass(frozen=True)
class PublicEnvironment:
    """The same world in stable-worldmodel."""

    name: str
    """Its Gymnasium id there."""
    callables: tuple[Mapping[str, Any], ...]
    """How `World.evaluate` puts start and goal of an episode into it."""
    pixels: int
    """Side of its frames."""
    promised: Mapping[str, float] = field(default_factory=dict)
    """How many times as fast ours is at least, in `transitions` and in `frames`; `reachcost bench` measures it."""


class Task(ABC):
    """A simulated world. `step`, `observe` and `success` are required, everything else is optional (see `LOST`)."""

    name: str
    """How it is called in commands and records."""
    action_budget: int
    """Actions that an episode may execute, unless its evaluation set has a budget of its own."""
    stops_at_success: bool = False
    """Whether an episode ends when it reaches its goal, or goes on to the end of its budget."""
    discrete_actions: int | None = None
    """How many actions there are, given by their index, int64 [N, 1]; None where they are continuous."""
    action_dim: int | None = None
    """Numbers in a continuous action, if it says so: planners compare their action blocks with it."""
    distance_unit: str = ""
    """What its oracle distance counts, `px` or `steps`, if it says so."""
    sets: tuple[str, ...] = ()
    """Names of its evaluation sets; the first one is meant where none is named."""
    models: tuple[str, ...] = ()
    """World models that come with reachcost and know this world, as `--model` takes them; the first one is meant where
    none is named."""
    public: ClassVar[PublicEnvironment | None] = None
    """The same world in stable-worldmodel, if it is there."""

    @property
    def world(self) -> str:
        """What tells this world from others: an evaluation set of one means nothing in another."""
        return self.name

    @abstractmethod
    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: [N, ...], [N, a] -> [N, ...]; discrete actions are int64 [N, 1]."""

    @abstractmethod
    def observe(self, states: np.ndarray) -> Observations:
        """Everything a world model may encode, as columns of N rows; `state` among them."""

    @abstractmethod
    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether each state counts as having reached its goal: bool [N]."""

    def offers(self, part: str) -> bool:
        """Whether this world has an optional part."""
        return getattr(type(self), part) is not getattr(Task, part)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """The oracle distance [N], 0 from a state to itself; used for diagnosis, never by a terminal cost."""
        raise self._missing("distance")

    @property
    def further_distances(self) -> Mapping[str, Distance]:
        """Distances that audits report beside the oracle's, by name."""
        return {}

    def generate_logs(self, episodes: int, seed: int = 0) -> Logs:
        """Log its data policy, with the columns `state` and `action`; its random numbers are those of the seed."""
        raise self._missing("generate_logs")

    def describe_logs(self, logs: Logs) -> Mapping[str, tuple[float, float | None]]:
        """Statistics of logs, each with what the public logs of this world have, if that is known."""
        return {
            "episodes": (len(logs), None),
            "observations": (logs.rows, None),
            "shortest episode": (int(logs.lengths.min()), None),
            "longest episode": (int(logs.lengths.max()), None),
            "mean length": (float(logs.lengths.mean()), None),
        }

    def evaluation_set(self, name: str) -> EvaluationSet:
        """The evaluation set of that name, one of `sets`; the same one every time."""
        raise self._missing("evaluation_set")

    def render(self, states: np.ndarray) -> np.ndarray:
        """Draw states as uint8 pixels [N, height, width, 3]."""
        raise self._missing("render")

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """What a probe should read from a state, finite [N, K]: angles as sine and cosine, nothing that frames lack."""
        return np.asarray(states, np.float64).reshape(len(states), -1)

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Named kinds of episodes: always the same names, to bool [N], every episode in at most one of them."""
        return {}

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Name how an episode that went from `starts` to `states` came out, `success` among the names: str [N]."""
        return np.where(self.success(states, goals), "success", "not_reached")

    def bottleneck(self, states: np.ndarray) -> np.ndarray:
        """Where states lie from the places every long way leads through: 2 near, 0 far, 1 in between, int [N]."""
        raise self._missing("bottleneck")

    def plane(self) -> Plane:
        """How its states lie on a plane, if they do: a map of costs is drawn there, and places are clicked on."""
        raise self._missing("plane")

    def handles(self) -> tuple[Handle, ...]:
        """What of its layout can be moved along lines of its plane; a world that has any also has `moved`."""
        raise self._missing("handles")

    def moved(self, name: str, value: float) -> Task:
        """This world with the handle of that name at another value, 0 to 1, or at the nearest position."""
        raise self._missing("handles")

    def _missing(self, part: str) -> ReachcostError:
        return ReachcostError(
            f"the task {self.name!r} has no `{part}`: {LOST[part]}; write that method of the task, or do without"
        )


def require_task(task: object) -> None:
    """Refuse what is no task, and one that does not say what every task must say."""
    require_type(task, Task, "task", "give a task, rc.make_task(name), or make one of your reachcost.Task")
    if missing := next((name for name in ("name", "action_budget") if not hasattr(task, name)), None):
        raise ReachcostError(f"the task {type(task).__name__} has no `{missing}`: set that attribute of its class")
