"""Damaged files of every format that is read: the undisturbed result, or one sentence.

Where no checksum covers a file (those of others, and those that people edit), other values are right as well, as long
as they can be used: finite, of the right shape, and read to their end without anything else being raised.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from faults.attempt import Attempt
from faults.browser import Pages, pages
from faults.formats import FORMATS
from faults.isolated import Here, Isolated, Outcome, isolated
from faults.mutations import ANOTHER, mutate
from reachcost.base.seeding import generator

SECONDS = 60
"""After which reading a small file hangs."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Damage a file and read it, so many times; formats take turns."""
    with isolated(SECONDS, "faults.formats") as process, pages() as opened:
        yield from tried(count, scratch, process, opened)


def tried(count: int, scratch: Path, process: Isolated | Here, opened: Pages) -> Iterator[Attempt]:
    """The same, read by a certain process; pages of damaged records are opened in a browser."""
    whole = {name: Whole(name, scratch / "whole" / str(number), process, opened) for number, name in enumerate(FORMATS)}
    samples = [(each.place / each.files[0]).read_bytes() for each in whole.values()]
    for number in range(count):
        name = [*FORMATS][number % len(FORMATS)]
        rng = generator(0, "mutated", number)
        damaged = scratch / "damaged"
        shutil.copytree(whole[name].place, damaged)
        file = whole[name].files[rng.integers(len(whole[name].files))]
        how, data = mutate((damaged / file).read_bytes(), samples, rng)
        (damaged / file).write_bytes(data)
        outcome = process.run(read, name, damaged)
        complaint = opened.complaint(damaged)
        shutil.rmtree(damaged)
        sealed = FORMATS[name].sealed and how != ANOTHER  # which may be a whole file that is read as well
        wrongly = wrong(outcome, whole[name].undisturbed, sealed) or complaint
        yield Attempt(f"{name}, {file}: {how} (try {number})", wrongly)


class Whole:
    """The files of a format as they were written, and what reading them gives."""

    def __init__(self, name: str, place: Path, process: Isolated | Here, opened: Pages) -> None:
        self.place = place
        place.mkdir(parents=True)
        written = process.run(write, name, place)
        found = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
        self.undisturbed = process.run(read, name, place)
        if written.how != "returned" or self.undisturbed.how != "returned":
            raise RuntimeError(f"{name} cannot be read as it was written: {written} {self.undisturbed}")
        if complaint := opened.complaint(place):
            raise RuntimeError(f"the page of {name} cannot be used as it was written: {complaint}")
        self.files = [path for path in found if not any(str(path).endswith(end) for end in FORMATS[name].ignored)]


def write(name: str, directory: Path) -> None:
    """Write what is to be damaged."""
    FORMATS[name].write(directory)


def read(name: str, directory: Path) -> str:
    """Read what was damaged."""
    return FORMATS[name].read(directory)


def wrong(outcome: Outcome, undisturbed: Outcome, sealed: bool) -> str:
    """What is wrong about an outcome."""
    if outcome.how == "refused":
        return "" if is_sentence(outcome.what) else f"no sentence: {outcome.what!r}"
    if outcome.how == "returned":
        return "other values behind a checksum" if sealed and outcome.what != undisturbed.what else ""
    return f"{outcome.how}: {outcome.what}"


def is_sentence(text: str) -> bool:
    """Whether a refusal is one line that says what is wrong and what to do, of a length that people read."""
    return "\n" not in text and 20 < len(text) < 1000
