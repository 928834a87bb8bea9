"""A graph of places and transitions, its shortest paths, and the checks of these.

A place (a node of the graph) is a latent with all latents that are nearer to it than to any other place. An edge leads
from one place to another if a transition did. The time between two places is the smallest number of edges between them,
times the steps of a transition. No single trajectory needs to have taken that path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.parallel import parallel_map

TOGETHER = 1024  # latents that are compared with all places at once, so that the products fit the cache
SOURCES = 1024  # places whose paths are extended at once
SHARPEST = 1000.0  # sharpness where places have no width
SHORTCUT = 1.5  # ratio from which a path counts as much shorter than in the reference
# Disagreement between two graphs, as the share of return paths that only one of them misses. Up to the first value, a
# path that both miss counts as truly absent; beyond the second, no asymmetry is measured.
DENSE, TOO_SPARSE = 0.03, 0.1


class Graph:
    """Places and the shortest times between them, over transitions that occur at least `least` times.

    Unless `directed`, the shorter time of both directions holds for both.

    Attributes:
        places: Latent of each place [K, D].
        times: Steps from each place to each other, inf without a path [K, K].
        ends: Whether transitions lead to a place and none leads out of it, because trajectories end there [K].
        record: Settings and size, as JSON values.
    """

    def __init__(self, places: Tensor, counted: TransitionCounts, stride: int, least: int, directed: bool) -> None:
        edges = counted.edges(least)
        self.places, self.times = places, shortest_times(edges, len(places), stride, directed)
        self.ends = np.isin(np.arange(len(places)), np.setdiff1d(edges[1], edges[0]))
        self.record: dict[str, Any] = {"places": len(places), "stride": stride, "least": least, "directed": directed}
        self.record |= {"transitions": counted.transitions, "edges": edges.shape[1]}
        self.record["unreachable"] = round(float(np.isinf(self.times).mean()), 6)


def sharpness(before: Tensor, after: Tensor, places: Tensor) -> float:
    """Length of a transition divided by the width of a place: medians over latents [N, D], [N, D].

    Near 1, a path can cross a place from side to side without a step.
    """
    width = (before - places[torch.from_numpy(nearest(before, places)).long()]).norm(dim=1).median()
    moved = (after - before).norm(dim=1).median()
    return min(float(moved / width), SHARPEST) if width > 0 else SHARPEST


@torch.no_grad()
def nearest(latents: Tensor, places: Tensor, rows: np.ndarray | None = None) -> np.ndarray:
    """The nearest place [K, D] of each latent [N, D], or of some rows of them -> int32 [N], read in groups."""
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
    """Number of transitions from each place to each other, counted in any number of parts."""

    def __init__(self, places: int) -> None:
        self.transitions, self._counts = 0, csr_array((places, places), dtype=np.int64)

    def add(self, before: np.ndarray, after: np.ndarray, times: int = 1) -> None:
        """Count transitions from places [M] to places [M], each `times` times."""
        self.transitions += len(before)
        self._counts += csr_array((np.full(len(before), times), (before, after)), self._counts.shape)

    def edges(self, least: int = 1) -> np.ndarray:
        """Pairs of different places with at least `least` transitions, sorted [2, edges]."""
        counted = self._counts.tocoo()
        kept = (counted.data >= least) & (counted.row != counted.col)
        return np.stack([counted.row, counted.col])[:, kept]


def shortest_times(edges: np.ndarray, places: int, stride: int, directed: bool) -> np.ndarray:
    """Steps from every place to every other over edges [2, E]; unless `directed`, the shorter of both directions."""
    times = stride * fewest_edges(edges, places)
    return times if directed else np.minimum(times, times.T)


def fewest_edges(edges: np.ndarray, places: int) -> np.ndarray:
    """The fewest edges from every place to every other: edges [2, E], sorted, -> float32 [K, K]; inf without a path.

    Computed for all places at once. The set of places within n + 1 edges of a place is the union of the sets within n
    edges of its successors. Sets are stored as bits.
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


def shortcuts(times: np.ndarray, reference: np.ndarray) -> float:
    """Share of pairs [P] with a much shorter time than in the reference, relative to the median ratio of both times.

    The median ratio allows for a graph that is faster everywhere. Pairs without a path in either graph do not count.
    """
    known = np.isfinite(times) & np.isfinite(reference) & (times > 0) & (reference > 0)
    if not known.any():
        return 0.0
    ratio = times[known] / reference[known]
    return float((ratio * SHORTCUT < np.median(ratio)).mean())


def asymmetry(one: np.ndarray, other: np.ndarray) -> float:
    """Relative difference between the times of both directions, as far as two graphs of the same places agree on it.

    Both arguments are directed times [K, K], over the transitions of different episodes. The result is the root of the
    mean product of both differences divided by the mean product of both times. It is 0 for differences by chance, which
    two graphs do not share, and 0.2 if the return path is a fifth longer or shorter. A path without a return path in
    either graph counts as fully asymmetric if the graphs are dense enough. The result is 0 if they are too sparse.
    """
    there = np.isfinite(one) & np.isfinite(other) & ~np.eye(len(one), dtype=bool)
    both, never_back = there & there.T, there & np.isinf(one.T) & np.isinf(other.T)
    known, once = int(both.sum()), int(there.sum() - both.sum() - never_back.sum())
    missed = once / (2 * known + once) if once else 0.0
    if missed > TOO_SPARSE or not there.any():
        return 0.0
    (path, back), (others, others_back) = ((times[both], times.T[both]) for times in (one, other))
    certain = (one[never_back] * other[never_back]).sum() if missed <= DENSE else 0.0
    total = (path * others).sum() + certain
    return float(max(((path - back) * (others - others_back)).sum() + certain, 0.0) / total) ** 0.5 if total else 0.0
