"""Every curve, in the order of the record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reachcost_tools.bench.growth.curve import Curve
from reachcost_tools.bench.growth.learning import learning_curves
from reachcost_tools.bench.growth.plans import plan_curves


def all_curves() -> list[Curve]:
    """All of them; a new curve is listed here."""
    return [*plan_curves(), *learning_curves()]


def idle(_: int, __: Path) -> Callable[[], object]:
    """Nothing to do: what a process holds that has merely imported what all curves need."""
    return lambda: None
