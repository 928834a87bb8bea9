"""Requests of the page and their answers: the map of a cost, and an episode with every iteration of all its plans.

An engine keeps no state except caches, because a request contains everything that its answer depends on.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field

from reachcost.core.json_files import parse_json, read_as
from reachcost.core.progress import escape_hidden
from reachcost.costs.latent import ORACLE
from reachcost.costs.maps import CostMap
from reachcost.costs.oracle import NO_PATH, OracleGeodesic, exact_model
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import ReachcostError
from reachcost.planning.control import ControlRuns, control, default_planner, sized_planner
from reachcost.planning.planner import Round, SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.compatibility import stepped
from reachcost.tasks.contract import Plane, Task

CANDIDATES, ITERATIONS, SEEDS = (4, 1000), (1, 40), (0, 2**31 - 1)  # smallest and largest values
ROLLOUTS, SHOWN = 10_000, 200_000  # maximum number of candidates of a plan, and of all plans of an episode
REMEDY = "send what the page sends"
LAYOUTS, MAPS = 64, 16  # number of worlds and of encoded maps in the caches
LARGEST = 65_535  # largest coordinate of a packed place
Place = tuple[float, float]
Layout = tuple[tuple[str, float], ...]


def _between(limits: tuple[int, int]) -> object:
    return Field(ge=limits[0], le=limits[1])


@dataclass(frozen=True)
class PlanRequest:
    """An episode in a layout, and how it is planned.

    >>> PlanRequest.parse(b'{"model": "m", "cost": "raw", "layout": {}, "start": [1, 2]}')
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: the request: `goal` is missing: send what the page sends
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    model: str  # name of the world model
    cost: str  # name of the terminal cost
    layout: dict[str, float]  # values of the handles of the world, 0 to 1
    start: Place
    goal: Place
    candidates: Annotated[int, _between(CANDIDATES)]  # candidates of an iteration
    iterations: Annotated[int, _between(ITERATIONS)]  # iterations of a plan
    seed: Annotated[int, _between(SEEDS)]  # seed of the planner

    @classmethod
    def parse(cls, body: bytes) -> PlanRequest:
        """Read a request from JSON."""
        try:
            value = parse_json(body)
        except ValueError as error:
            raise ReachcostError(f"the request is not valid JSON ({error}): {REMEDY}") from error
        request = read_as(cls, value, "the request", REMEDY)
        if (rollouts := request.candidates * request.iterations) > ROLLOUTS:
            raise ReachcostError(
                f"{request.candidates} candidates x {request.iterations} iterations are {rollouts:,} rollouts a plan: "
                f"ask for {ROLLOUTS:,} or fewer"
            )
        return request


class Cancelled(Exception):
    """The client no longer waits for the answer."""


@dataclass(frozen=True)
class ModelWithCosts:
    """A world model and the terminal costs of its latents, by name."""

    model: WorldModel
    costs: Mapping[str, TerminalCost]
    all_layouts: bool = False  # whether model and costs were made for every layout of the world


class Engine:
    """Answers requests about one world.

    Args:
        task: The world, which must offer `plane`.
        models: World models by name.
        candidates: Number of candidates that the page starts with; by default as in the paper.
        iterations: Number of iterations that the page starts with; by default as in the paper.
    """

    def __init__(
        self,
        task: Task,
        models: Mapping[str, ModelWithCosts],
        candidates: int | None = None,
        iterations: int | None = None,
    ) -> None:
        task.plane()  # refuses a world without one
        default = default_planner(task.discrete_actions)
        self.candidates, self.iterations = candidates or default.candidates, iterations or default.iterations
        self.task, self.models = task, {escape_hidden(name): known for name, known in models.items()}
        self.costs = tuple(dict.fromkeys(name for known in models.values() for name in known.costs))
        self.costs += (ORACLE,) if task.offers("distance") else ()
        self._world = lru_cache(LAYOUTS)(self._moved)
        self._places = lru_cache(MAPS)(lambda layout, name: CostMap(self._world(layout), self.models[name].model))

    def cost(self, name: str) -> TerminalCost | None:
        """The first cost of that name; None for the oracle."""
        return next((known.costs[name] for known in self.models.values() if name in known.costs), None)

    def field(self, request: PlanRequest) -> dict[str, Any]:
        """The cost of ending at each place, the handles of the layout, and a note about the world model."""
        layout = _layout(request)
        world = self._world(layout)
        goal = self._state(world, "goal", request.goal)
        model, cost = self._model_and_cost(world, request, goal)
        places = CostMap(world, model) if request.cost == ORACLE else self._places(layout, request.model)
        return {
            "field": _packed_costs(places.field(cost, goal)[0]),
            "handles": handles_of(world),
            "note": self.note(world, request.model),
        }

    def plan(self, request: PlanRequest, wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """An episode with every iteration of all its plans; raises `Cancelled` if the client has left."""
        world, began = self._world(_layout(request)), time.perf_counter()
        start, goal = (self._state(world, name, getattr(request, name)) for name in ("start", "goal"))
        model, cost = self._model_and_cost(world, request, start)
        planner = sized_planner(world.discrete_actions, request.candidates, request.iterations)
        rounds: list[Round] = []

        def watch(found: Round) -> None:
            if not wanted():
                raise Cancelled
            if (len(rounds) + 1) * request.candidates > SHOWN:
                raise ReachcostError(
                    f"this episode takes more than {SHOWN:,} candidates: ask for fewer candidates or iterations"
                )
            rounds.append(found)

        episode = EvaluationSet(start, goal, world=world.world)
        runs = control(world, model, {request.cost: cost}, episode, planner, seed=request.seed, watch=watch)
        answer = _outcome(world, runs) | _rounds(world, blocks_of(model), runs, rounds, planner)
        return answer | {"seconds": time.perf_counter() - began}

    def note(self, world: Task, name: str) -> dict[str, Any]:
        """A warning if a world model may not know a layout, and the model to use `instead`."""
        known = name in world.models
        if world.world == self.task.world or (known and self.models[name].all_layouts):
            return {}
        if known:
            return {"text": f"{name} knows layouts like this one, but its repaired cost was fitted in another."}
        doubt = f"{name} was not trained" if name in self.task.models else f"It is unknown whether {name} was trained"
        others = [other for other in world.models if other in self.models]
        return {"text": f"{doubt} in layouts like this one.", "instead": others[0] if others else None}

    def _moved(self, layout: Layout) -> Task:
        world = self.task
        names = [handle.name for handle in world.handles()] if world.offers("handles") else []
        for name, value in layout:
            if name not in names or not 0 <= value <= 1:
                remedy = f"move {', '.join(names)} to values from 0 to 1" if names else "nothing can be moved here"
                raise ReachcostError(f"the handle {name!r} cannot be at {value:g}: {remedy}")
            world = world.moved(name, value)
        return world

    def _state(self, world: Task, name: str, place: Place) -> np.ndarray:
        """The state [1, ...] at a free place."""
        plane, here = world.plane(), np.array([place])
        if not ((here >= plane.low) & (here <= plane.high)).all():
            raise ReachcostError(f"the {name} ({place[0]:.4g}, {place[1]:.4g}) is off the map: choose a place on it")
        if not plane.free(here).all():
            raise ReachcostError(f"the {name} ({place[0]:.4g}, {place[1]:.4g}) is in a wall: choose a free place")
        return plane.states(here)

    def _model_and_cost(self, world: Task, request: PlanRequest, states: np.ndarray) -> tuple[WorldModel, TerminalCost]:
        """The world model and the cost of a request; for the oracle the simulator and the true distance."""
        known = self.models.get(request.model)
        if known is None:
            raise ReachcostError(f"there is no world model {request.model!r}: choose {' or '.join(self.models)}")
        if request.cost == ORACLE and ORACLE in self.costs:
            exact = exact_model(world, known.model, states)
            return exact, OracleGeodesic(exact)
        if request.cost not in known.costs:
            raise ReachcostError(f"{request.model} has no cost {request.cost!r}: choose {' or '.join(known.costs)}")
        return known.model, known.costs[request.cost]


def _layout(request: PlanRequest) -> Layout:
    return tuple(sorted(request.layout.items()))


def _packed(array: np.ndarray) -> dict[str, Any]:
    """An array of float32 or uint16 as JSON values, row by row in base64."""
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"kind": str(array.dtype), "shape": list(array.shape), "data": base64.b64encode(data.data).decode()}


def _packed_places(plane: Plane, places: np.ndarray) -> dict[str, Any]:
    """Places [..., 2] of a plane, uint16: 0 is the low corner, 65,535 the high one."""
    low, high = np.array(plane.low, float), np.array(plane.high, float)
    share = np.clip((places - low) / (high - low), 0, 1)
    return _packed(np.rint(LARGEST * share).astype(np.uint16))


def _packed_costs(costs: np.ndarray) -> dict[str, Any]:
    """Costs, float32. Places that cannot reach the goal get the largest of the other costs."""
    finite = costs[costs < NO_PATH]
    return _packed((np.minimum(costs, finite.max()) if finite.size else costs).astype(np.float32))


def handles_of(world: Task) -> list[dict[str, Any]]:
    """The handles of a world."""
    return [asdict(handle) for handle in world.handles()] if world.offers("handles") else []


def _outcome(world: Task, runs: ControlRuns) -> dict[str, Any]:
    """How the only episode of the runs ended."""
    steps, distance = int(runs.steps[0, 0]), float(runs.final_distance[0, 0])
    return {
        "path": _packed_places(world.plane(), world.plane().places(runs.paths[0, 0, : steps + 1])),
        "reached": bool(runs.success[0, 0]),
        "steps": steps,
        "distance": distance if np.isfinite(distance) else None,
        "category": str(runs.category[0, 0]).replace("_", " "),
    }


def _rounds(
    world: Task, blocks: ActionBlocks | None, runs: ControlRuns, rounds: list[Round], planner: SamplingPlanner
) -> dict[str, Any]:
    """Every iteration of P plans of I iterations with S candidates of T actions, executed by the simulator.

    Candidates have `ends` [P, I, S, 2] and `costs` [P, I, S], the `elites` [P, I, K] among them have paths, `routes`
    [P, I, K, T + 1, 2], and `chosen` [P, I, T + 1, 2] is the path of the plan. `executed` counts actions of a plan.
    """
    executed = planner.executed * (1 if blocks is None else blocks.length)
    plans = -(-int(runs.steps[0, 0]) // executed)  # a world may continue after the goal; the page does not
    iterations = planner.iterations
    if not plans:
        return {"plans": plans, "executed": executed}
    seen = zip(*rounds[: plans * iterations], strict=True)
    pools, costs, elites, chosen = (np.stack([part[0].cpu().numpy() for part in parts]) for parts in seen)
    starts = np.repeat(runs.paths[0, 0, : plans * executed : executed], iterations, axis=0)
    candidates = np.concatenate([pools, chosen[:, None].astype(pools.dtype)], axis=1)
    actions = candidates.astype(np.int64) if blocks is None else blocks.unroll(candidates)
    steps = actions.reshape(-1, *actions.shape[2:]).swapaxes(0, 1)
    path = accumulate(steps, partial(stepped, world), initial=np.repeat(starts, actions.shape[1], axis=0))
    states, plane = np.stack([*path], axis=1), world.plane()
    places = plane.places(states.reshape(-1, *states.shape[2:])).reshape(*actions.shape[:2], -1, 2)
    ends, best = places[:, :-1, -1], places[np.arange(len(places))[:, None], elites]
    return {
        "plans": plans,
        "executed": executed,
        "ends": _packed_places(plane, ends.reshape(plans, iterations, *ends.shape[1:])),
        "costs": _packed_costs(costs.reshape(plans, iterations, -1)),
        "elites": _packed(elites.reshape(plans, iterations, -1).astype(np.uint16)),
        "routes": _packed_places(plane, best.reshape(plans, iterations, *best.shape[1:])),
        "chosen": _packed_places(plane, places[:, -1].reshape(plans, iterations, -1, 2)),
    }
