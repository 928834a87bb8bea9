"""The suite: worlds with logs, world model, planner and evaluation sets, and what to break in them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal, cast

import numpy as np
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.data.probe import fit_probe
from reachcost.fitting.repair import LabelledRecipe, repair
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.loading import load_world_model
from reachcost_paper.worlds import arm, graph, hill, momentum, tasks
from reachcost_paper.worlds.models import Blind, Learned, Sight, lose_number
from reachcost_paper.worlds.tasks import EPISODES, SEEDS, FeatureTask, require

TWOROOM, MODEL, RULE = "tworoom", "lewm-tworoom-3072", "high-distance"
FIRST_SOURCE, SOURCES = 200, 500
"""First seed and number of episodes of the logs that evaluation sets are sampled from."""
LOW, HIGH, PROBED = 20.0, 204.0, 1500
"""Range and number of places that a probe is fitted on."""
DOORWAY = 40.0


@lru_cache
def bundled_model() -> WorldModel:
    return load_world_model(MODEL)


@lru_cache
def evaluation_set(part: str) -> EvaluationSet:
    """Starts and goals far apart, half of them on different sides of the wall."""
    task, seed = make_task(TWOROOM), SEEDS[part]
    source = task.generate_logs(SOURCES, FIRST_SOURCE + seed)
    return replace(task.sample_evaluation_set(RULE, source, seed).spread(EPISODES), name=part)


@lru_cache
def _lost_height() -> tuple[Tensor, Tensor, Tensor]:
    """Weight and bias of a probe of x, and the latents of a horizontal line [P, D], one per pixel."""
    task, model = make_task(TWOROOM), bundled_model()
    places = generator(0, "bundled-probe").uniform(LOW, HIGH, (PROBED, 2)).astype(np.float32)
    probe = fit_probe(model.encode(task.observe(places)), places[:, :1])
    line = np.arange(LOW, HIGH + 1, dtype=np.float32)
    level = np.stack([line, np.full_like(line, (LOW + HIGH) / 2)], axis=1)
    return probe.weight, probe.bias, model.encode(task.observe(level))


def lose_height(model: WorldModel) -> Blind:
    """A model that encodes every place as if it were at half the height, by a table of latents indexed by x."""
    weight, bias, line = _lost_height()

    def lose(latents: Tensor) -> Tensor:
        return line[((latents @ weight + bias)[:, 0] - LOW).round().long().clamp(0, len(line) - 1)]

    return Blind(model, lose, "the height")


def by_the_door(states: np.ndarray) -> np.ndarray:
    return np.asarray(make_task(TWOROOM).layout.door_distance(np.asarray(states)) < DOORWAY)


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
            task=tasks.Open,
            model=partial(exact, block=5),
            logs={"episodes": 300, "seed": 0},
            planner=CEM(horizon=3, candidates=100, iterations=5, elites=10),
            blind=partial(lose_number, number=1, value=0),
            region=tasks.middle,
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
            task=graph.Heading,
            model=exact,
            logs={"episodes": 2000, "seed": 0},
            planner=CategoricalCEM(actions=3, horizon=10, candidates=64, iterations=3, elites=8, tie_break=1e-3),
            blind=partial(lose_number, number=1, value=9),
            region=graph.doorways,
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
            task=partial(make_task, TWOROOM),
            model=lambda task, logs: bundled_model(),
            logs={"episodes": 1000, "seed": 0},
            planner=CEM(candidates=150, iterations=5, elites=15),
            blind=lose_height,
            region=by_the_door,
            evaluation=lambda task, part: evaluation_set(part),
        ),
    )
    return {world.name: world for world in worlds}
