"""Ways in which a file gets damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator

EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)
LONGEST = 64
"""Bytes of a damaged stretch, at most, unless it is a block."""


def flip_bits(data: bytearray, rng: Generator) -> bytearray:
    """One to four bits."""
    for place in rng.integers(len(data), size=rng.integers(1, 5)):
        data[place] ^= 1 << int(rng.integers(8))
    return data


def truncate(data: bytearray, rng: Generator) -> bytearray:
    """Cut somewhere."""
    return data[: rng.integers(1, len(data))]


def extend(data: bytearray, rng: Generator) -> bytearray:
    """Bytes behind the end."""
    return data + rng.bytes(int(rng.integers(1, 2000)))


def swap_blocks(data: bytearray, rng: Generator) -> bytearray:
    """Two stretches of one length in each other's place."""
    size = int(rng.integers(1, max(2, len(data) // 4)))
    one, other = sorted(rng.integers(0, max(1, len(data) - 2 * size + 1), size=2).tolist())
    other += size
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
    return data


def zero_range(data: bytearray, rng: Generator) -> bytearray:
    """A stretch, or all to the end, as after a disk failed."""
    start = int(rng.integers(len(data)))
    stop = len(data) if rng.random() < 0.3 else min(len(data), start + int(rng.integers(1, 4096)))
    data[start:stop] = bytes(stop - start)
    return data


def set_extremes(data: bytearray, rng: Generator) -> bytearray:
    """A few bytes, side by side, as numbers that sizes and offsets are not."""
    size = min(int(rng.choice([1, 2, 4, 8])), len(data))
    start = int(rng.integers(len(data) - size + 1))
    data[start : start + size] = bytes([int(rng.choice(EXTREMES))]) * size
    return data


def randomise(data: bytearray, rng: Generator) -> bytearray:
    """A stretch of noise."""
    start = int(rng.integers(len(data)))
    size = min(int(rng.integers(1, LONGEST)), len(data) - start)
    data[start : start + size] = rng.bytes(size)
    return data


def repeat(data: bytearray, rng: Generator) -> bytearray:
    """A stretch twice, so that all behind it moves."""
    start = int(rng.integers(len(data)))
    stop = min(len(data), start + int(rng.integers(1, LONGEST)))
    return data[:stop] + data[start:]


def remove(data: bytearray, rng: Generator) -> bytearray:
    """A stretch left out."""
    start = int(rng.integers(len(data)))
    return data[:start] + data[start + int(rng.integers(1, LONGEST)) :]


def empty(data: bytearray, rng: Generator) -> bytearray:
    """Nothing."""
    return bytearray()


MUTATIONS: dict[str, tuple[Callable[[bytearray, Generator], bytearray], float]] = {
    "flipped bits": (flip_bits, 5),
    "truncated": (truncate, 2),
    "extended": (extend, 1),
    "swapped blocks": (swap_blocks, 2),
    "zeroed range": (zero_range, 2),
    "extreme bytes": (set_extremes, 5),
    "noise": (randomise, 2),
    "repeated range": (repeat, 1),
    "removed range": (remove, 1),
    "emptied": (empty, 0.3),
}
"""Each with how often it is chosen."""
ANOTHER = "replaced by another format"


def mutate(data: bytes, others: Sequence[bytes], rng: Generator) -> tuple[str, bytes]:
    """Damage some bytes: how, and what they become."""
    if rng.random() < 0.02:
        return ANOTHER, others[int(rng.integers(len(others)))]
    if not data:
        return "extended", rng.bytes(100)
    weights = np.array([weight for _, weight in MUTATIONS.values()])
    name = str(rng.choice([*MUTATIONS], p=weights / weights.sum()))
    return name, bytes(MUTATIONS[name][0](bytearray(data), rng))
