"""Files written to harm: pickles, bombs, links, traps of every parser. Nothing in them runs, and each gets a sentence.

A canary tells of code that ran. What atheris makes up for the pure parsers (`parsed.py`) is counted here, too.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.attempt import Attempt
from faults.browser import Pages, pages
from faults.isolated import Here, Isolated, Outcome, isolated
from faults.mutated import is_sentence
from faults.traps import TRAPS
from faults.values import changed, configured

SECONDS = 30
CANARY = "canary"
"""The file that a pickle would write."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Every trap once, then odd values behind valid checksums, and for the rest of the tries what atheris makes up."""
    with isolated(SECONDS, "faults.traps", "faults.values") as process, pages() as opened:
        yield from tried(count // 2, scratch, process, opened)
    rest = count - count // 2
    if importlib.util.find_spec("atheris"):
        from faults.parsed import fuzzed

        yield from fuzzed(rest, scratch / "fuzzed")
    else:
        with isolated(SECONDS, "faults.values") as process, pages() as opened:
            yield from odd_values(count // 2, rest, scratch, process, opened)


def tried(count: int, scratch: Path, process: Isolated | Here, opened: Pages) -> Iterator[Attempt]:
    """Traps, then odd values, read by a certain process; pages of records are opened in a browser."""
    for number, name in enumerate([*TRAPS][:count]):
        place = scratch / f"trap-{number}"
        place.mkdir(parents=True)
        outcome = process.run(spring, name, place)
        wrongly = wrong(outcome, place, TRAPS[name].harmless) or opened.complaint(place)
        yield Attempt(f"{name} (try {number})", wrongly)
        shutil.rmtree(place, ignore_errors=True)
    yield from odd_values(0, count - len(TRAPS), scratch, process, opened)


def odd_values(first: int, count: int, scratch: Path, process: Isolated | Here, opened: Pages) -> Iterator[Attempt]:
    """Heads and world models whose configuration was changed and sealed anew, and records with other values."""
    for number in range(first, first + max(0, count)):
        place = scratch / f"odd-{number}"
        place.mkdir(parents=True)
        work, what = (changed, "other value in a record") if number % 2 else (configured, "odd value behind a checksum")
        outcome = process.run(work, number // 2, place)
        yield Attempt(f"{what} (try {number})", wrong(outcome, place, harmless=True) or opened.complaint(place))
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
