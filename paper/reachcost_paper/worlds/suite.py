"""The suite: worlds with logs, world model, planner and evaluation sets, and what to break in them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.fitting.repair import LabelledRecipe, repair
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.registry import make_task
from reachcost_paper.worlds import arm, bundled, graph, heading, hill, momentum, open
from reachcost_paper.worlds.learned import Learned
from reachcost_paper.worlds.sight import Sight, lose_number
from reachcost_paper.worlds.tasks import SEEDS, FeatureTask, require


@dataclass(frozen=True)
class World:
    """One world. Logs and models are made on first use."""

    name: str
    structure: str
    """Its structure, in one sentence."""
    task: Callable[[], Task]
    model: Callable[[Task, Logs], WorldModel]
    """Makes the world model."""
    logs: Mapping[str, Any]
    """Arguments of `task.generate_logs`; another `seed` gives other logs of the same kind."""
    planner: SamplingPlanner
    blind: Callable[[WorldModel], WorldModel]
    """The same model, with an encoder that loses one relevant coordinate."""
    region: Callable[[np.ndarray], np.ndarray]
    """Marks the states [N, ...] where many routes pass, bool [N]; one fault removes them from the logs."""
    cost: Literal["raw", "trm"] = "trm"
    """Cost of the intact planner: latent distance, or the repaired cost."""
    recipe: LabelledRecipe = field(default_factory=LabelledRecipe)
    """How its head is trained; settings were tried on `tune`."""
    pairs: int = 100_000
    """Training pairs of an epoch."""
    wandering: Mapping[str, Any] = field(default_factory=dict)
    """Changes of `logs` for logs that wander aimlessly, if it has any."""
    evaluation: Callable[[Task, str], EvaluationSet] = lambda task, part: task.evaluation_set(part)
    """Returns the evaluation set `tune` or `report`."""
    shown: tuple[int, ...] | None = None
    """Entries of a state that a frame shows, for the audit of logs alone; None for all."""
    packages: tuple[str, ...] = ()
    """Packages of the extra `worlds` that it needs."""

    def generate_logs(self, task: Task) -> Logs:
        return task.generate_logs(**self.logs)

    def repair(self, task: Task, model: WorldModel, logs: Logs, *, shuffled: bool = False) -> LearnedHead:
        """`reachcost.repair` with the settings of this world; both evaluation sets are excluded."""
        exclude = [self.evaluation(task, part) for part in SEEDS]
        settings: Any = {"pairs": self.pairs, "recipe": self.recipe, "references": False}
        return repair(model, encode_logs(model, logs), exclude=exclude, shuffled=shuffled, **settings)

    def terminal_cost(self, task: Task, model: WorldModel, logs: Logs) -> TerminalCost:
        """The cost of the intact planner."""
        return LatentMSE() if self.cost == "raw" else HeadCost(self.repair(task, model, logs))


def require_packages(worlds: Iterable[World]) -> None:
    """Refuse to begin if a package of any of these worlds is not installed."""
    for world in worlds:
        for package in world.packages:
            require(package, world.name)


def exact(task: Task, logs: Logs, block: int = 1) -> Sight:
    """Exact dynamics behind an encoder, with action blocks of the logs for continuous actions."""
    actions = None if task.discrete_actions else ActionBlocks.of(logs, block)
    return Sight(cast(FeatureTask, task), actions)


_LEARNED: dict[tuple[str, str], Learned] = {}


def learned(task: Task, logs: Logs, block: int, history: int = 1) -> Learned:
    """A small world model, trained once per process and logs."""
    key = (task.world, logs.fingerprint)
    if key not in _LEARNED:
        _LEARNED[key] = Learned(cast(FeatureTask, task), logs, block, history)
    return _LEARNED[key]


def suite() -> dict[str, World]:
    """Every world by name, including worlds whose packages are missing."""
    worlds = (
        World(
            name="rooms",
            structure="many rooms in a tree, routes of more than 100 steps, four discrete actions",
            task=graph.Rooms,
            model=exact,
            logs={"episodes": 2000, "seed": 0},
            planner=CategoricalCEM(actions=4, horizon=14, candidates=96, iterations=3, elites=8, tie_break=1e-3),
            blind=partial(lose_number, number=1, value=0),
            region=graph.middle_room,
            wandering={"noise": 1.0},
            recipe=LabelledRecipe(Recipe(epochs=16)),
        ),
        World(
            name="one-way",
            structure="two halls with a gate that opens one way: the distance back is not the distance there",
            task=graph.OneWay,
            model=exact,
            logs={"episodes": 1500, "seed": 0},
            planner=CategoricalCEM(actions=4, horizon=8, candidates=64, iterations=3, elites=8, tie_break=1e-3),
            blind=partial(lose_number, number=1, value=0),
            region=graph.by_the_door,
            wandering={"noise": 1.0},
            recipe=LabelledRecipe(Recipe(head="pair"), directed=True),
        ),
        World(
            name="open",
            structure="an open field, where the distance of latents is right as it is",
            task=open.Open,
            model=partial(exact, block=5),
            logs={"episodes": 300, "seed": 0},
            planner=CEM(horizon=3, candidates=100, iterations=5, elites=10),
            blind=partial(lose_number, number=1, value=0),
            region=open.middle,
            cost="raw",
        ),
        World(
            name="arm",
            structure="two joints among obstacles: angles that wrap around, seen as sine and cosine",
            task=arm.Arm,
            model=partial(exact, block=5),
            logs={"episodes": 1500, "seed": 0},
            planner=CEM(horizon=6, candidates=128, iterations=5, elites=12),
            blind=partial(lose_number, number=0, value=0.0),
            region=arm.level,
        ),
        World(
            name="heading",
            structure="four rooms of MiniGrid with a heading: three discrete actions, turning takes time",
            task=heading.Heading,
            model=exact,
            logs={"episodes": 2000, "seed": 0},
            planner=CategoricalCEM(actions=3, horizon=10, candidates=64, iterations=3, elites=8, tie_break=1e-3),
            blind=partial(lose_number, number=1, value=9),
            region=heading.doorways,
            wandering={"noise": 1.0},
            packages=("minigrid",),
        ),
        World(
            name="momentum",
            structure="a ball with momentum in PointMaze's U: no frame shows the velocity, a trained model reads two",
            task=momentum.Momentum,
            model=partial(learned, block=3, history=2),
            logs={"episodes": 600, "seed": 0},
            planner=CEM(horizon=4, candidates=100, iterations=5, elites=10),
            blind=partial(lose_number, number=1, value=1.0),
            region=momentum.bend,
            shown=(0, 1),
            packages=("gymnasium_robotics", "mujoco"),
        ),
        World(
            name="hill",
            structure="Gymnasium's mountain car, too weak for the hill: it must drive away from its goal first",
            task=hill.Hill,
            model=partial(learned, block=5),
            logs={"episodes": 400, "seed": 0},
            planner=CEM(horizon=3, candidates=100, iterations=4, elites=10, deviation=3.0),
            blind=partial(lose_number, number=1, value=0.0),
            region=hill.halfway_up,
            recipe=LabelledRecipe(Recipe(head="pair"), directed=True),
        ),
        World(
            name="obstacle",
            structure="a wall with one door, seen in pixels by a bundled world model",
            task=partial(make_task, bundled.NAME),
            model=lambda task, logs: bundled.bundled_model(),
            logs={"episodes": 1000, "seed": 0},
            planner=CEM(candidates=150, iterations=5, elites=15),
            blind=bundled.lose_height,
            region=bundled.by_the_door,
            evaluation=lambda task, part: bundled.evaluation_set(part),
        ),
    )
    return {world.name: world for world in worlds}
