"""What a page asks for: every request carries all of it, and what makes no sense is refused with a sentence."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from reachcost.core.json_files import parse_json
from reachcost.errors import ReachcostError

CANDIDATES, ITERATIONS, SEEDS = (4, 1000), (1, 40), (0, 2**31 - 1)
"""The fewest and most that can be asked for."""
ROLLOUTS, SHOWN = 10_000, 200_000
"""Candidates of all rounds of a plan, at most, and of all plans of an episode: one waits for them."""

Place = tuple[float, float]


@dataclass(frozen=True)
class Asked:
    """An episode in a layout, and how it is planned.

    >>> Asked.of(b'{"model": "m", "cost": "raw", "layout": {}, "start": [1, 2]}')
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: the request lacks goal, candidates, iterations, seed: send all of them
    """

    model: str
    """Name of the world model."""
    cost: str
    """Name of the terminal cost."""
    layout: tuple[tuple[str, float], ...]
    """Handles of the world and their values, 0 to 1."""
    start: Place
    """(x, y)."""
    goal: Place
    """(x, y)."""
    candidates: int
    """Of a round."""
    iterations: int
    """Rounds of a plan."""
    seed: int
    """Of the planner."""

    @classmethod
    def of(cls, body: bytes) -> Asked:
        """Read a request, JSON."""
        try:
            given = parse_json(body)
        except ValueError as error:
            raise ReachcostError(f"the request is no JSON ({error}): send an object") from error
        names = [field.name for field in fields(cls)]
        if not isinstance(given, dict):
            raise ReachcostError(f"the request is no object: send {', '.join(names)}")
        if missing := [name for name in names if name not in given]:
            raise ReachcostError(f"the request lacks {', '.join(missing)}: send all of them")
        if unknown := sorted(given.keys() - {*names}):
            raise ReachcostError(f"the request has {unknown[0]!r}, which means nothing: leave it out")
        asked = cls(
            model=_text("model", given["model"]),
            cost=_text("cost", given["cost"]),
            layout=_layout(given["layout"]),
            start=_place("start", given["start"]),
            goal=_place("goal", given["goal"]),
            candidates=_whole("candidates", given["candidates"], CANDIDATES),
            iterations=_whole("iterations", given["iterations"], ITERATIONS),
            seed=_whole("seed", given["seed"], SEEDS),
        )
        if (rollouts := asked.candidates * asked.iterations) > ROLLOUTS:
            raise ReachcostError(
                f"{asked.candidates} candidates x {asked.iterations} iterations are {rollouts:,} rollouts a plan: ask "
                f"for {ROLLOUTS:,} or fewer"
            )
        return asked


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ReachcostError(f"{name} is no text: send a name")
    return value


def _number(name: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max:
        raise ReachcostError(f"{name} is no number: send a finite one")
    return float(value)


def _whole(name: str, value: Any, limits: tuple[int, int]) -> int:
    low, high = limits
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ReachcostError(f"{name} must be a whole number from {low:,} to {high:,}: send such a one")
    return value


def _place(name: str, value: Any) -> Place:
    if not isinstance(value, list) or len(value) != 2:
        raise ReachcostError(f"{name} is no place: send [x, y]")
    x, y = (_number(f"a coordinate of {name}", part) for part in value)
    return x, y


def _layout(value: Any) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, Mapping):
        raise ReachcostError("layout is no object: send a value from 0 to 1 for each handle")
    return tuple(sorted((name, _number(f"the handle {name!r}", part)) for name, part in value.items()))
