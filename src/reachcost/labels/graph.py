"""Places and the times between them: a graph of what follows what, and its shortest ways.

Latents that are near each other become one place. An edge leads from one place to another where a transition of so
many steps did; the fewest edges between two places, times those steps, are how far apart they are, though no single
trajectory ever went that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.parallel import parallel_map
from reachcost.core.progress import Progress, Rate, as_progress

TOGETHER = 1024
"""Latents that are compared with all places at once: the products then stay in the processor's cache."""
SOURCES = 1024
"""Places whose ways are followed at once."""
SHARPEST = 1000.0
"""What is said where places have no width."""


@dataclass(frozen=True)
class Graph:
    """Places and the shortest times between them.

    Attributes:
        places: Latents that stand for all others [K, D].
        times: Steps from each place to each other, inf without a way [K, K].
        ends: Whether transitions lead to each place and none out of it [K]: trajectories ended there.
        record: How it came about, as JSON values.
    """

    places: Tensor
    times: np.ndarray
    ends: np.ndarray
    record: dict[str, Any]

    @classmethod
    def of(
        cls,
        places: Tensor,
        counted: TransitionCounts,
        stride: int,
        least: int,
        directed: bool,
        progress: Progress | None = None,
    ) -> Graph:
        """The shortest ways over transitions of `stride` steps that were seen at least so often.

        Unless `directed`, the shorter time of there and back holds for both. `progress` is told of the edges a second.
        """
        edges, times, progress = counted.edges(least), np.empty(0), as_progress(progress)
        rate = Rate(progress, "edges")
        for _ in progress.track(range(1), "graph"):
            times = shortest_times(edges, len(places), stride, directed)
            rate.add(edges.shape[1])
        record = {"places": len(places), "stride": stride, "least": least, "directed": directed}
        record |= {"transitions": counted.transitions, "edges": edges.shape[1]}
        record["unreachable"] = round(float(np.isinf(times).mean()), 6)
        ends = np.setdiff1d(edges[1], edges[0])
        return cls(places, times, np.isin(np.arange(len(places)), ends), record)


def sharpness(before: Tensor, after: Tensor, places: Tensor) -> float:
    """How many times as long as a place is wide a transition is: medians over latents [N, D], [N, D].

    Little more than 1, and a way enters a place on one side and leaves it on the other for nothing.
    """
    width = (before - places[torch.from_numpy(nearest(before, places)).long()]).norm(dim=1).median()
    moved = (after - before).norm(dim=1).median()
    return min(float(moved / width), SHARPEST) if width > 0 else SHARPEST


@torch.no_grad()
def nearest(latents: Tensor, places: Tensor, rows: np.ndarray | None = None) -> np.ndarray:
    """The place that each latent [N, D], or each of some rows of them, is nearest to, of places [K, D] -> int32 [N].

    Rows are read a group at a time: latents that lie in a file, however many, need not fit into memory.

    >>> nearest(torch.tensor([[0.1], [0.9]]), torch.tensor([[0.0], [1.0]])).tolist()
    [0, 1]
    """
    half, read = places.square().sum(1) / 2, row_reader(latents)
    wanted = torch.arange(len(latents)) if rows is None else torch.from_numpy(rows)
    found = torch.empty(len(wanted), dtype=torch.int32)

    def find(group: tuple[Tensor, Tensor]) -> None:
        part, members = group
        products = read(members) @ places.T
        part.copy_(torch.sub(half, products, out=products).argmin(1))

    parallel_map(find, zip(found.split(TOGETHER), wanted.split(TOGETHER), strict=True))
    return found.numpy()


class TransitionCounts:
    """How often one place followed another; transitions may come in any number of parts.

    Args:
        places: K.

    >>> counts = TransitionCounts(3)
    >>> counts.add(np.array([0, 0, 1]), np.array([1, 1, 2]))
    >>> counts.edges(least=2).tolist()
    [[0], [1]]
    """

    def __init__(self, places: int) -> None:
        self.places, self.transitions = places, 0
        self._keys, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)

    def add(self, before: np.ndarray, after: np.ndarray, times: int = 1) -> None:
        """Count transitions from places [M] to places [M], each so many times."""
        self.transitions += len(before)
        keys = np.concatenate([self._keys, before.astype(np.int64) * self.places + after])
        counts = np.concatenate([self._counts, np.full(len(before), times)])
        self._keys, where = np.unique(keys, return_inverse=True)
        self._counts = np.bincount(where, weights=counts).astype(np.int64)

    def edges(self, least: int = 1) -> np.ndarray:
        """Pairs of different places that were seen at least so often, sorted [2, edges]."""
        before, after = divmod(self._keys[self._counts >= least], self.places)
        return np.stack([before, after])[:, before != after]


def shortest_times(edges: np.ndarray, places: int, stride: int, directed: bool) -> np.ndarray:
    """Steps from every place to every other over edges [2, E] of so many; unless `directed`, the shorter of both."""
    times = stride * fewest_edges(edges, places)
    return times if directed else np.minimum(times, times.T)


def fewest_edges(edges: np.ndarray, places: int) -> np.ndarray:
    """The fewest edges from every place to every other: edges [2, E], sorted, -> float32 [K, K]; inf without a way.

    All places at once: the set of those that a place reaches within n + 1 edges is the union of what its successors
    reach within n, and sets are bits.

    >>> fewest_edges(np.array([[0, 1], [1, 2]]), 3).tolist()
    [[0.0, 1.0, 2.0], [inf, 0.0, 1.0], [inf, inf, 0.0]]
    """
    every = np.arange(places)
    before, after = np.concatenate([edges, np.stack([every, every])], axis=1)
    order = np.argsort(before, kind="stable")
    after, first = after[order], np.searchsorted(before[order], np.arange(places + 1))
    reached = np.zeros((places, -(-places // 64) * 8), np.uint8)
    reached[every, every // 8] = 128 >> (every % 8)
    reached, distance = reached.view(np.uint64), np.zeros((places, places), np.int16)
    while True:
        beyond = np.unpackbits(~reached.view(np.uint8), axis=1, count=places)
        distance += beyond
        wider = np.empty_like(reached)
        for low in range(0, places, SOURCES):
            high = min(low + SOURCES, places)
            successors = reached[after[first[low] : first[high]]]
            wider[low:high] = np.bitwise_or.reduceat(successors, first[low:high] - first[low], axis=0)
        if np.array_equal(wider, reached):
            return np.where(beyond, np.float32(np.inf), distance.astype(np.float32))
        reached = wider
