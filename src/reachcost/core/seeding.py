"""Random streams, one per (seed, purpose, indices).

Results therefore never depend on batch size, order, number of workers, or the point where a run was resumed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator, Philox
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike

from reachcost.errors import ReachcostError


def generator(seed: int, purpose: str, *indices: int) -> Generator:
    """Return the random stream that belongs to `(seed, purpose, *indices)`.

    >>> float(generator(0, "cem", 3, 1).random()) == float(generator(0, "cem", 3, 1).random())
    True
    """
    if seed < 0:
        raise ReachcostError(f"the seed is {seed}: give 0 or more")
    name = "/".join([str(seed), purpose, *map(str, indices)])
    return Generator(Philox(_Digest(name)))  # pyright: ignore[reportArgumentType] (the stub omits ISeedSequence)


class _Digest(ISeedSequence):
    """Seeds a bit generator with the hash of a name, three times as fast as `Philox(key=...)` with the same key."""

    def __init__(self, name: str) -> None:
        self._digest = hashlib.blake2b(name.encode(), digest_size=16).digest()

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint32) -> np.ndarray:
        """Return the digest as `n_words` words; Philox asks for its key, two of 64 bits."""
        return np.frombuffer(self._digest, dtype, n_words)


def torch_seed(seed: int, purpose: str, *indices: int) -> int:
    """Return the integer that seeds torch for `(seed, purpose, *indices)`."""
    return int(generator(seed, purpose, *indices).integers(2**63))


class EpisodeStreams:
    """The streams of a batch of episodes at one replan; rows of the same episode share their numbers.

    Comparisons between costs are therefore paired: every cost scores the same candidates.
    """

    def __init__(self, seed: int, purpose: str, episodes: Sequence[int] | np.ndarray, replan: int) -> None:
        unique, self.row_to_stream = np.unique(np.asarray(episodes), return_inverse=True)
        self._streams = [generator(seed, purpose, episode, replan) for episode in unique.tolist()]

    def uniform16(self, *shape: int) -> np.ndarray:
        """Sample uint16 numbers, uniform over their range, of shape [rows, *shape], four times as fast as float32."""
        size = math.prod(shape)
        words = np.stack([stream.bit_generator.random_raw(-(-size // 4)) for stream in self._streams])
        return words.view(np.uint16)[:, :size].reshape(-1, *shape)[self.row_to_stream]

    def normal(self, *shape: int) -> np.ndarray:
        """Sample standard normal float32 numbers of shape [rows, *shape]."""
        from reachcost.core.parallel import parallel_map  # it needs torch, which simulators do not

        samples = np.empty((len(self._streams), *shape), np.float32)

        def fill(number: int) -> None:  # numpy samples outside the interpreter's lock
            self._streams[number].standard_normal(dtype=np.float32, out=samples[number])

        parallel_map(fill, range(len(samples)))
        return samples[self.row_to_stream]

    def integers(self, high: int, *shape: int) -> np.ndarray:
        """Sample int64 numbers in [0, high) of shape [rows, *shape]."""
        return np.stack([stream.integers(high, size=shape) for stream in self._streams])[self.row_to_stream]
