"""One fault that was tried, and whether what came of it was right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Attempt:
    """A fault and its outcome: right are the undisturbed bytes, or one clear sentence and a non-zero exit."""

    what: str
    """The fault, in words that let it be tried again."""
    wrong: str = ""
    """What was wrong about the outcome; empty if nothing was."""


Tries = Callable[[int, Path], Iterator[Attempt]]
"""Tries a class of faults so many times, in a directory of its own; what the n-th try is depends on n alone."""
