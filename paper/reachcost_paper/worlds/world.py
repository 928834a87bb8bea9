"""`World`: a task with all that a planner in it is made of, and how to break it on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.fitting.labelled_recipe import LabelledRecipe
from reachcost.fitting.repair import repair_latents
from reachcost.heads.base import LearnedHead
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task

PARTS = ("tune", "report")
"""The evaluation sets of every world: choices are made on the first, numbers are told of the second."""


def own_set(task: Task, part: str) -> EvaluationSet:
    """The task's evaluation set of that name."""
    return task.evaluation_set(part)


@dataclass(frozen=True)
class World:
    """One world. Nothing is made before it is asked for.

    >>> from reachcost_paper.worlds import suite
    >>> world = suite()["open"]
    >>> task = world.task()
    >>> len(world.evaluation(task, "tune"))
    30
    """

    name: str
    """How the suite calls it."""
    structure: str
    """What is particular about it, in one sentence."""
    task: Callable[[], Task]
    """Makes the task."""
    model: Callable[[Task, Logs], WorldModel]
    """Makes the world model; what is trained is trained once per logs and process."""
    logs: Mapping[str, Any]
    """What `task.generate_logs` is called with; another `seed` gives others of the same kind."""
    planner: SamplingPlanner
    """The planner."""
    blind: Callable[[WorldModel], WorldModel]
    """The same model, with an encoder that loses one coordinate that matters."""
    region: Callable[[np.ndarray], np.ndarray]
    """Which states [N, ...] lie where many routes must pass: bool [N]; what logs can be robbed of."""
    cost: Literal["raw", "trm"] = "trm"
    """What the unbroken planner minimises: latent distance, or the repaired cost."""
    recipe: LabelledRecipe = field(default_factory=LabelledRecipe)
    """How its head is trained. Settings were tried out on `tune`, so only `report` tells how good they are."""
    pairs: int = 100_000
    """Training pairs of an epoch."""
    wandering: Mapping[str, Any] = field(default_factory=dict)
    """What makes its logs wander aimlessly instead, if they can: changes of `logs`."""
    evaluation: Callable[[Task, str], EvaluationSet] = own_set
    """The evaluation set `tune` or `report` of its task."""
    shown: tuple[int, ...] | None = None
    """Which numbers of a state a frame shows, by default all: what an audit of logs alone must be told."""
    packages: tuple[str, ...] = ()
    """What it needs of the extra `worlds`."""

    def available(self) -> bool:
        """Whether its packages are installed."""
        return all(find_spec(package) is not None for package in self.packages)

    def generate_logs(self, task: Task) -> Logs:
        """Its logs."""
        return task.generate_logs(**self.logs)

    def repair(
        self, task: Task, model: WorldModel, logs: Logs, *, seed: int = 0, shuffled: bool = False
    ) -> LearnedHead:
        """`reachcost.repair` with the settings of this world; both evaluation sets are kept out."""
        kept_out = [self.evaluation(task, part) for part in PARTS]
        latents = encode_logs(model, logs)
        return repair_latents(
            latents,
            exclude=kept_out,
            pairs=self.pairs,
            recipe=self.recipe,
            seed=seed,
            shuffled=shuffled,
            model=model,
        )

    def terminal_cost(self, task: Task, model: WorldModel, logs: Logs, *, seed: int = 0) -> TerminalCost:
        """What the unbroken planner minimises."""
        return LatentMSE() if self.cost == "raw" else HeadCost(self.repair(task, model, logs, seed=seed))


def require_packages(worlds: Iterable[World]) -> None:
    """Refuse to begin if a package of any of these worlds is not installed."""
    for world in worlds:
        for package in world.packages:
            require(package, world.name)


def require(package: str, world: str) -> None:
    """Refuse a world whose package is not installed."""
    if find_spec(package) is None:
        raise ReachcostError(f"the world {world!r} needs {package}: pip install 'reachcost[worlds]'")
