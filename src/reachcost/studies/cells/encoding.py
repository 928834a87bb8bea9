"""Latents that cells need are encoded by all workers, some rows each, and written by the driver, once.

A worker that comes to logs whose latents are not kept stops there and says so. The driver cuts their rows into shards
and asks workers for each: they begin the same cell, and encode when they come to the same logs. So no model and no logs
are sent; nobody holds more than a shard in memory; and rows are encoded in the batches of one process, to its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import numpy as np

from reachcost.base.cache import cache_directory
from reachcost.data.kept import CHECKED, KeptLatents
from reachcost.data.latents import batches, encoding_by

Made = TypeVar("Made")
Encode = Callable[[slice], np.ndarray]


class Wanted(NamedTuple):
    """Latents that a cell needs and that are not kept."""

    origin: dict[str, Any]
    """What they are made of."""
    batch: int
    """Rows that are encoded together."""


class Shard(NamedTuple):
    """Some rows of latents."""

    key: str
    """Which latents."""
    first: int
    stop: int
    batch: int
    """Rows that are encoded together."""


class Encoded(NamedTuple):
    """A shard, encoded."""

    shard: Shard
    latents: np.ndarray


Bring = Callable[[KeptLatents], bool]
"""Writes latents that others encoded to where they are kept here; False if there are none."""


def nothing_to_bring(kept: KeptLatents) -> bool:
    """Of workers that read what the driver wrote."""
    return False


class WorkersEncoder:
    """What a worker does about latents that are not kept.

    Args:
        bring: Fetches what others encoded.
    """

    def __init__(self, bring: Bring) -> None:
        self._bring = bring
        self._reached: dict[str, Encode] = {}

    def known(self, shard: Shard) -> Encoded | None:
        """A shard of the latents that a cell came to last: there is no need to begin it again."""
        encode = self._reached.get(shard.key)
        return None if encode is None else _encoded(shard, encode)

    def within(self, compute: Callable[[], Made], shard: Shard | None) -> Made | Wanted | Encoded:
        """What is computed; or the latents that are wanted for it; or the shard of these that is asked for."""

        def encoder(kept: KeptLatents, encode: Encode, batch: int) -> None:
            if self._bring(kept):
                return
            self._reached = {kept.key: encode}
            raise _Stop(_encoded(shard, encode) if shard and shard.key == kept.key else Wanted(kept.origin, batch))

        try:
            with encoding_by(encoder):
                return compute()
        except _Stop as stop:
            return stop.outcome


class _Stop(BaseException):
    """Leaves the computation of a cell; no code of a user's takes it for an error."""

    def __init__(self, outcome: Wanted | Encoded) -> None:
        super().__init__()
        self.outcome = outcome


def _encoded(shard: Shard, encode: Encode) -> Encoded:
    rows = batches(slice(shard.first, shard.stop), shard.batch)
    return Encoded(shard, np.concatenate([encode(some) for some in rows]))


class Encoding:
    """Latents that are being made: what is left to do, and where it is written.

    Args:
        wanted: Which latents.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.kept = KeptLatents(cache_directory() / "latents", wanted.origin)
        self._open = ExitStack()
        self.shards: list[Shard] = []
        """Those that nobody encodes yet."""
        if self.kept.missing():
            self._writer = self._open.enter_context(self.kept.writing())
            size = 4 * wanted.origin["shape"][1] * wanted.batch
            step = wanted.batch * max(1, CHECKED // size)
            rows = [some for gap in self._writer.missing for some in batches(gap, step)]
            self.shards = [Shard(self.kept.key, some.start, some.stop, wanted.batch) for some in rows]
        self._left = {*self.shards}

    @property
    def complete(self) -> bool:
        """Whether everything is written."""
        return not self._left

    def write(self, made: Encoded) -> None:
        """Keep a shard; one that was asked for before somebody gave up may come late, and twice."""
        if made.shard in self._left:
            with self.kept.or_refuse():
                self._writer.write(slice(made.shard.first, made.shard.stop), made.latents)
                self._writer.keep()
            self._left.remove(made.shard)

    def __str__(self) -> str:
        return f"latents: {len(self.shards) - len(self._left)} of {len(self.shards)} shards encoded"

    def close(self) -> None:
        """Let others write."""
        self._open.close()
