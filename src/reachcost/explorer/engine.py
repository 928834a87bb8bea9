"""A world, its world models and their costs: what a cost says of every place, and how an episode is planned under it.

Nothing here changes after it is made, but for what is remembered: every question carries all that it asks about.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from reachcost.core.progress import escape_hidden
from reachcost.costs.field import Places
from reachcost.costs.latent import ORACLE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import ReachcostError
from reachcost.explorer.arrays import packed_costs
from reachcost.explorer.requests import SHOWN, Asked, Place
from reachcost.explorer.responses import handles_of, outcome_of, rounds_of
from reachcost.planning.control import control, default_planner, sized_planner
from reachcost.planning.planner import Round
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task

LAYOUTS, MAPS = 64, 16
"""Worlds and encoded maps that are remembered."""


class Unwanted(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Planned:
    """A world model and what it can plan by."""

    model: WorldModel
    costs: Mapping[str, TerminalCost]
    """Terminal costs of its latents, by name."""
    everywhere: bool = False
    """Whether they were made for any layout of the world."""


class Engine:
    """Answers questions about one world.

    Args:
        task: The world; it must offer `plane`.
        models: World models by name, each with its costs.
        candidates: Of a round, where the page begins; by default those of the paper's planner.
        iterations: Rounds of a plan there.
    """

    def __init__(
        self, task: Task, models: Mapping[str, Planned], candidates: int | None = None, iterations: int | None = None
    ) -> None:
        task.plane()  # refuses a world without one
        default = default_planner(task.discrete_actions)
        self.candidates, self.iterations = candidates or default.candidates, iterations or default.iterations
        self.task, self.models = task, {escape_hidden(name): planned for name, planned in models.items()}
        self.costs = tuple(dict.fromkeys(name for planned in models.values() for name in planned.costs))
        self.costs += (ORACLE,) if task.offers("distance") else ()
        self._world = lru_cache(LAYOUTS)(self._moved)
        self._places = lru_cache(MAPS)(lambda layout, name: Places(self._world(layout), self.models[name].model))

    def cost(self, name: str) -> TerminalCost | None:
        """The first of the world models' costs of that name; the oracle is none of theirs."""
        return next((planned.costs[name] for planned in self.models.values() if name in planned.costs), None)

    def field(self, asked: Asked) -> dict[str, Any]:
        """What a cost says of every place of a layout, its handles, and what is to be said of model and layout."""
        world, began = self._world(asked.layout), time.perf_counter()
        goal = self._state(world, "goal", asked.goal)
        model, cost = self._judge(world, asked, goal)
        places = Places(world, model) if asked.cost == ORACLE else self._places(asked.layout, asked.model)
        return {
            "field": packed_costs(places.field(cost, goal)[0]),
            "handles": handles_of(world),
            "note": self.note(world, asked.model),
            "seconds": time.perf_counter() - began,
        }

    def plan(self, asked: Asked, wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """A whole episode, with every round of every plan of it; stops with `Unwanted` when nobody wants it."""
        world, began = self._world(asked.layout), time.perf_counter()
        start, goal = (self._state(world, name, getattr(asked, name)) for name in ("start", "goal"))
        model, cost = self._judge(world, asked, start)
        planner = sized_planner(world.discrete_actions, asked.candidates, asked.iterations)
        rounds: list[Round] = []

        def watch(found: Round) -> None:
            if not wanted():
                raise Unwanted
            if (len(rounds) + 1) * asked.candidates > SHOWN:
                raise ReachcostError(
                    f"this episode takes more than {SHOWN:,} candidates: ask for fewer candidates or iterations"
                )
            rounds.append(found)

        episode = EvaluationSet(start, goal, world=world.world)
        runs = control(world, model, {asked.cost: cost}, episode, planner, seed=asked.seed, watch=watch)
        planned = time.perf_counter() - began
        answer = outcome_of(world, runs) | rounds_of(world, blocks_of(model), runs, rounds, planner)
        return answer | {"seconds": {"planning": planned, "all": time.perf_counter() - began}}

    def note(self, world: Task, name: str) -> dict[str, Any]:
        """What is to be said of a world model in a layout that it may not know, and which model to take `instead`."""
        known = name in world.models
        if world.world == self.task.world or (known and self.models[name].everywhere):
            return {}
        if known:
            return {"text": f"{name} knows layouts like this one, but its repaired cost was fitted in another."}
        doubt = f"{name} was not trained" if name in self.task.models else f"Nothing says that {name} was trained"
        others = [other for other in world.models if other in self.models]
        return {"text": f"{doubt} in layouts like this one.", "instead": others[0] if others else None}

    def _moved(self, layout: tuple[tuple[str, float], ...]) -> Task:
        world = self.task
        names = [handle.name for handle in world.handles()] if world.offers("handles") else []
        for name, value in layout:
            if name not in names or not 0 <= value <= 1:
                what = f"move {', '.join(names)} to values from 0 to 1" if names else "nothing can be moved here"
                raise ReachcostError(f"the handle {name!r} cannot be at {value:g}: {what}")
            world = world.moved(name, value)
        return world

    def _state(self, world: Task, name: str, place: Place) -> np.ndarray:
        """The state [1, ...] at a place, which must be free."""
        plane, here = world.plane(), np.array([place])
        if not ((here >= plane.low) & (here <= plane.high)).all():
            raise ReachcostError(f"the {name} ({place[0]:.4g}, {place[1]:.4g}) is off the map: choose a place on it")
        if not plane.free(here).all():
            raise ReachcostError(f"the {name} ({place[0]:.4g}, {place[1]:.4g}) is in a wall: choose a free place")
        return plane.states(here)

    def _judge(self, world: Task, asked: Asked, states: np.ndarray) -> tuple[WorldModel, TerminalCost]:
        """What predicts, and the cost of what it predicts; for the oracle the simulator with the true distance."""
        planned = self.models.get(asked.model)
        if planned is None:
            raise ReachcostError(f"there is no world model {asked.model!r}: choose {' or '.join(self.models)}")
        if asked.cost not in self.costs:
            raise ReachcostError(f"there is no cost {asked.cost!r}: choose {' or '.join(self.costs)}")
        if asked.cost == ORACLE:
            exact = exact_model(world, planned.model, states)
            return exact, OracleGeodesic(exact)
        if asked.cost not in planned.costs:
            raise ReachcostError(f"{asked.model} has no cost {asked.cost!r}: choose another, or start with its --head")
        return planned.model, planned.costs[asked.cost]
