"""Damaged files of every format that is read: the undisturbed result, or one sentence.

Where no checksum covers a file (those of others, and those that people edit), other values are right as well, as long
as they can be used: finite, of the right shape, and read to their end without anything else being raised.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from faults.attempt import Attempt
from faults.formats import FORMATS
from faults.isolated import Outcome, isolated
from faults.mutations import ANOTHER, mutate
from reachcost.base.seeding import generator

SECONDS = 60
"""After which reading a small file hangs."""


def tries(count: int, scratch: Path) -> Iterator[Attempt]:
    """Damage a file and read it, so many times; formats take turns."""
    whole = {name: scratch / "whole" / str(number) for number, name in enumerate(FORMATS)}
    files: dict[str, list[Path]] = {}
    with isolated(SECONDS, "faults.formats") as process:
        undisturbed: dict[str, Outcome] = {}
        for name, place in list(whole.items())[:count]:
            place.mkdir(parents=True)
            written = process.run(write, name, place)
            undisturbed[name] = process.run(read, name, place)
            if written.how != "returned" or undisturbed[name].how != "returned":
                raise RuntimeError(f"{name} cannot be read as it was written: {written} {undisturbed[name]}")
            found = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
            files[name] = [path for path in found if not str(path).endswith((*FORMATS[name].ignored, " "))]
        samples = [(whole[name] / some[0]).read_bytes() for name, some in files.items()]
        for number in range(count):
            name = [*FORMATS][number % len(FORMATS)]
            rng = generator(0, "mutated", number)
            damaged = scratch / "damaged"
            shutil.copytree(whole[name], damaged)
            file = files[name][rng.integers(len(files[name]))]
            how, data = mutate((damaged / file).read_bytes(), samples, rng)
            (damaged / file).write_bytes(data)
            outcome = process.run(read, name, damaged)
            shutil.rmtree(damaged)
            what = f"{name}, {file}: {how} (try {number})"
            sealed = FORMATS[name].sealed and how != ANOTHER  # which may be a whole file that is read as well
            yield Attempt(what, wrong(outcome, undisturbed[name], sealed))


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
