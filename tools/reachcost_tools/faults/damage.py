"""Damaged files of every format that is read: the undisturbed result, or one sentence.

If no checksum covers a file (files of other programs, and files that people edit), other values are right, too, if they
can be used: finite, of the right shape, and read to their end without another exception.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost_tools.faults.browser import Browser, optional_browser, page_errors
from reachcost_tools.faults.classes import Attempt
from reachcost_tools.faults.formats import Format
from reachcost_tools.faults.formats.logs import LOGS
from reachcost_tools.faults.formats.models import MODELS
from reachcost_tools.faults.formats.records import RECORDS
from reachcost_tools.faults.isolation import Here, Isolated

FORMATS: dict[str, Format] = {each.name: each for each in (*LOGS, *MODELS, *RECORDS)}
SECONDS = 60
"""After which reading a small file counts as hanging."""
LONGEST = 64
"""Maximum bytes of a damaged range, unless it is a block."""


def mutated(count: int, scratch: Path) -> Iterator[Attempt]:
    """Damage a file and read it, this number of times; formats take turns."""
    with closing(Isolated(SECONDS, __name__)) as process, optional_browser() as browser:
        yield from attempts(count, scratch, process, browser)


def attempts(count: int, scratch: Path, process: Isolated | Here, browser: Browser | None) -> Iterator[Attempt]:
    """Make attempts in a given process; pages of damaged records are opened in a browser."""
    intact = {name: _Intact(name, scratch / "intact" / str(k), process, browser) for k, name in enumerate(FORMATS)}
    samples = [(each.directory / each.files[0]).read_bytes() for each in intact.values()]
    for number in range(count):
        name = [*FORMATS][number % len(FORMATS)]
        rng = generator(0, "mutated", number)
        damaged = scratch / "damaged"
        shutil.copytree(intact[name].directory, damaged)
        file = intact[name].files[rng.integers(len(intact[name].files))]
        how, data = mutate((damaged / file).read_bytes(), samples, rng)
        (damaged / file).write_bytes(data)
        outcome = process.run(_read, name, damaged)
        errors = page_errors(browser, damaged)
        shutil.rmtree(damaged)
        sealed = FORMATS[name].sealed and how != ANOTHER  # another format may be a complete file that can be read
        other_values = outcome.how == "returned" and outcome.what != intact[name].undisturbed.what
        wrong = "other values in spite of a checksum" if sealed and other_values else outcome.error() or errors
        yield Attempt(f"{name}, {file}: {how} (try {number})", wrong)


class _Intact:
    """The undamaged files of a format, and the outcome of reading them."""

    def __init__(self, name: str, directory: Path, process: Isolated | Here, browser: Browser | None) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        written = process.run(_write, name, directory)
        found = sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
        self.undisturbed = process.run(_read, name, directory)
        errors = page_errors(browser, directory)
        assert written.how == self.undisturbed.how == "returned", f"{name}: {written} {self.undisturbed}"
        assert not errors, f"{name}: {errors}"
        self.files = [path for path in found if not str(path).endswith(FORMATS[name].ignored)]


def _write(name: str, directory: Path) -> None:
    FORMATS[name].write(directory)


def _read(name: str, directory: Path) -> str:
    return FORMATS[name].read(directory)


def _flip_bits(data: bytearray, rng: Generator) -> bytearray:
    for place in rng.integers(len(data), size=rng.integers(1, 5)):
        data[place] ^= 1 << int(rng.integers(8))
    return data


def _truncate(data: bytearray, rng: Generator) -> bytearray:
    return data[: rng.integers(1, len(data))]


def _extend(data: bytearray, rng: Generator) -> bytearray:
    return data + rng.bytes(int(rng.integers(1, 2000)))


def _swap_blocks(data: bytearray, rng: Generator) -> bytearray:
    size = int(rng.integers(1, max(2, len(data) // 4)))
    one, other = sorted(rng.integers(0, max(1, len(data) - 2 * size + 1), size=2).tolist())
    other += size
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
    return data


def _zero_range(data: bytearray, rng: Generator) -> bytearray:
    """Zero a range, or all to the end, as after a disk failure."""
    start = int(rng.integers(len(data)))
    stop = len(data) if rng.random() < 0.3 else min(len(data), start + int(rng.integers(1, 4096)))
    data[start:stop] = bytes(stop - start)
    return data


def _set_extremes(data: bytearray, rng: Generator) -> bytearray:
    """Set a few bytes to values that sizes and offsets rarely have."""
    size = min(int(rng.choice([1, 2, 4, 8])), len(data))
    start = int(rng.integers(len(data) - size + 1))
    data[start : start + size] = bytes([int(rng.choice((0, 1, 0x7F, 0x80, 0xFF)))]) * size
    return data


def _randomise(data: bytearray, rng: Generator) -> bytearray:
    start, stop = _range(data, rng)
    data[start:stop] = rng.bytes(stop - start)
    return data


def _repeat(data: bytearray, rng: Generator) -> bytearray:
    start, stop = _range(data, rng)
    return data[:stop] + data[start:]


def _remove(data: bytearray, rng: Generator) -> bytearray:
    start, stop = _range(data, rng)
    return data[:start] + data[stop:]


def _range(data: bytearray, rng: Generator) -> tuple[int, int]:
    start = int(rng.integers(len(data)))
    return start, min(len(data), start + int(rng.integers(1, LONGEST)))


MUTATIONS: dict[str, tuple[Callable[[bytearray, Generator], bytearray], float]] = {
    "flipped bits": (_flip_bits, 5),
    "truncated": (_truncate, 2),
    "extended": (_extend, 1),
    "swapped blocks": (_swap_blocks, 2),
    "zeroed range": (_zero_range, 2),
    "extreme bytes": (_set_extremes, 5),
    "noise": (_randomise, 2),
    "repeated range": (_repeat, 1),
    "removed range": (_remove, 1),
    "emptied": (lambda data, rng: bytearray(), 0.3),
}
"""Each with the weight of its choice."""
ANOTHER = "replaced by another format"


def mutate(data: bytes, others: Sequence[bytes], rng: Generator) -> tuple[str, bytes]:
    """Damage some bytes: the kind of damage, and the damaged bytes."""
    if rng.random() < 0.02:
        return ANOTHER, others[int(rng.integers(len(others)))]
    if not data:
        return "extended", rng.bytes(100)
    weights = np.array([weight for _, weight in MUTATIONS.values()])
    name = str(rng.choice([*MUTATIONS], p=weights / weights.sum()))
    return name, bytes(MUTATIONS[name][0](bytearray(data), rng))
