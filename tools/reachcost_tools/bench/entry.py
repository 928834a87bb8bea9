"""A comparison: some work of ours, the same work of a peer, and how much faster ours has to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Against = Literal["swm"]
"""Extras that bring peers."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    work: Callable[[], object]
    """What is timed; what it returns is compared with the other side if they must agree."""
    amount: float = 1
    """How many units (plans, frames) it makes."""
    threads: int = 1
    """Threads that torch may use for it."""


@dataclass(frozen=True)
class Sides:
    """Both sides, ready to be timed."""

    ours: Side
    peer: Side | float
    """The peer; or, where there is none, the promised seconds per unit."""
    within: float | None = None
    """Largest difference between the tensors that both sides return; None compares nothing."""
    counted: bool = False
    """Whether ours is mostly matrix products, so that their share of the machine's peak says something."""


@dataclass(frozen=True)
class Entry:
    """A line of the record."""

    name: str
    """How `--only` and the record call it."""
    says: str
    """What is measured against what."""
    prepare: Callable[[], Sides]
    """Makes both sides: models, logs, frames. It is not timed."""
    unit: str
    """What the seconds are per."""
    target: float | None = None
    """How many times as fast as the peer ours has to be; None promises nothing."""
    repeats: int = 3
    """Times that each side is measured, in turn."""
    against: Against | None = None
    """The extra that brings the peer."""


def in_threads(threads: int) -> str:
    """How names tell the number of threads.

    >>> in_threads(1), in_threads(2)
    ('1 thread', '2 threads')
    """
    return f"{threads} thread{'s' if threads > 1 else ''}"
