"""The suite: every world by name, made when asked for."""

from __future__ import annotations

from functools import partial
from typing import cast

from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.fitting.labelled_recipe import LabelledRecipe
from reachcost.heads.recipe import Recipe
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.tasks.contract import Task
from reachcost_paper.worlds import arm, bundled, heading, hill, momentum, oneway, open, rooms
from reachcost_paper.worlds.learned import Learned
from reachcost_paper.worlds.sight import Placed, Sight, lose_number
from reachcost_paper.worlds.world import World


def seen(task: Task, logs: Logs, block: int = 1) -> Sight:
    """Exact dynamics behind an encoder, with action blocks of the logs where actions are continuous."""
    actions = None if task.discrete_actions else ActionBlocks.of(logs, block)
    return Sight(cast(Placed, task), actions)


_LEARNED: dict[tuple[str, str], Learned] = {}


def learned(task: Task, logs: Logs, block: int, history: int = 1) -> Learned:
    """A small trained model, trained once per logs and process."""
    key = (task.world, logs.fingerprint)
    if key not in _LEARNED:
        _LEARNED[key] = Learned(cast(Placed, task), logs, block, history)
    return _LEARNED[key]


def suite() -> dict[str, World]:
    """Every world by name; those that need a package that is missing, too (see `World.available`).

    >>> list(suite())[:3]
    ['rooms', 'one-way', 'open']
    """
    worlds = (
        World(
            name="rooms",
            structure="many rooms in a tree, routes of more than 100 steps, four discrete actions",
            task=rooms.Rooms,
            model=seen,
            logs={"episodes": 2000, "seed": 0},
            planner=CategoricalCEM(actions=4, horizon=14, candidates=96, iterations=3, elites=8, tie_break=1e-3),
            blind=partial(lose_number, number=1, value=0),
            region=rooms.middle,
            wandering={"noise": 1.0},
            recipe=LabelledRecipe(Recipe(epochs=16)),
        ),
        World(
            name="one-way",
            structure="two halls with a gate that opens one way: the distance back is not the distance there",
            task=oneway.OneWay,
            model=seen,
            logs={"episodes": 1500, "seed": 0},
            planner=CategoricalCEM(actions=4, horizon=8, candidates=64, iterations=3, elites=8, tie_break=1e-3),
            blind=partial(lose_number, number=1, value=0),
            region=oneway.by_the_door,
            wandering={"noise": 1.0},
            recipe=LabelledRecipe(Recipe(head="pair"), directed=True),
        ),
        World(
            name="open",
            structure="an open field, where the distance of latents is right as it is",
            task=open.Open,
            model=partial(seen, block=5),
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
            model=partial(seen, block=5),
            logs={"episodes": 1500, "seed": 0},
            planner=CEM(horizon=6, candidates=128, iterations=5, elites=12),
            blind=partial(lose_number, number=0, value=0.0),
            region=arm.level,
        ),
        World(
            name="heading",
            structure="four rooms of MiniGrid with a heading: three discrete actions, turning takes time",
            task=heading.Heading,
            model=seen,
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
        bundled.OBSTACLE,
    )
    return {world.name: world for world in worlds}
