"""Files written to harm: pickles, bombs, links, traps of every parser. Nothing in them runs, and each gets a sentence.

A canary tells of code that ran. What atheris makes up for the pure parsers (`parsed.py`) is counted here, too.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from reachcost_tools.faults.attempt import Attempt
from reachcost_tools.faults.isolated import Here, Isolated, Outcome, isolated
from reachcost_tools.faults.mutated import is_sentence
from reachcost_tools.faults.traps import TRAPS
from reachcost_tools.faults.values import configured

SECONDS = 30
CANARY = "canary"
"""The file that a pickle would write."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Every trap once, then odd values behind valid checksums, and for the rest of the tries what atheris makes up."""
    with isolated(SECONDS, "reachcost_tools.faults.traps", "reachcost_tools.faults.values") as process:
        yield from tried(count // 2, scratch, process)
    rest = count - count // 2
    if importlib.util.find_spec("atheris"):
        from reachcost_tools.faults.parsed import fuzzed

        yield from fuzzed(rest, scratch / "fuzzed")
    else:
        with isolated(SECONDS, "reachcost_tools.faults.values") as process:
            yield from odd_values(count // 2, rest, scratch, process)


def tried(count: int, scratch: Path, process: Isolated | Here) -> Iterator[Attempt]:
    """Traps, then odd values, read by a certain process."""
    for number, name in enumerate([*TRAPS][:count]):
        place = scratch / f"trap-{number}"
        place.mkdir(parents=True)
        outcome = process.run(spring, name, place)
        yield Attempt(f"{name} (try {number})", wrong(outcome, place, TRAPS[name].harmless))
        shutil.rmtree(place, ignore_errors=True)
    yield from odd_values(0, count - len(TRAPS), scratch, process)


def odd_values(first: int, count: int, scratch: Path, process: Isolated | Here) -> Iterator[Attempt]:
    """Heads and world models whose configuration was changed and sealed anew."""
    for number in range(first, first + max(0, count)):
        place = scratch / f"odd-{number}"
        place.mkdir(parents=True)
        outcome = process.run(configured, number, place)
        what = f"odd value behind a checksum (try {number})"
        yield Attempt(what, wrong(outcome, place, harmless=True))
        shutil.rmtree(place, ignore_errors=True)


def spring(name: str, directory: Path) -> object:
    """Write a trap and read it."""
    TRAPS[name].write(directory)
    read: Callable[[Path], object] = TRAPS[name].read
    return repr(read(directory))[:200]


def wrong(outcome: Outcome, place: Path, harmless: bool) -> str:
    """What is wrong about an outcome."""
    if [*place.rglob(CANARY)]:
        return "it ran code"
    if outcome.how == "refused":
        return "" if is_sentence(outcome.what) else f"no sentence: {outcome.what!r}"
    if outcome.how == "returned" and harmless:
        return ""
    return f"{outcome.how}: {outcome.what}"
