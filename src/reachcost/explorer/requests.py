"""Requests of the page. A request carries everything that its answer depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

from reachcost.core.json_files import parse_json, read_as
from reachcost.errors import ReachcostError

CANDIDATES, ITERATIONS, SEEDS = (4, 1000), (1, 40), (0, 2**31 - 1)  # smallest and largest values
ROLLOUTS, SHOWN = 10_000, 200_000  # maximum number of candidates of a plan, and of all plans of an episode
REMEDY = "send what the page sends"

Place = tuple[float, float]


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
