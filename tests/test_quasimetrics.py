"""Directed and metric heads: what holds for every pair of latents, whatever the weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import reachcost as rc
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import IntervalHead, ResidualHead, union_length
from reachcost_paper.worlds import suite
from reachcost_paper.worlds.graph import GATE, WALL

DIRECTED = ("iqe", "mrn")
METRIC = (*DIRECTED, "euclidean")
ROUNDING = 1e-4  # of float32, as a share of distances
FEW = settings(max_examples=30)


def random_head(kind: str, seed: int, spread: float, count: int = 60) -> tuple[LearnedHead, Tensor]:
    """A head with weights larger than initial ones, and some latents."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = rc.Recipe(head=kind, hidden=12).build(5).requires_grad_(False)
        for weight in head.parameters():
            weight.normal_().mul_(0.7)
        return head, spread * torch.randn(count, 5)


@FEW
@given(st.sampled_from(METRIC), st.integers(0, 2**20), st.sampled_from([0.01, 1.0, 5.0]))
def test_no_detour_is_shorter_than_the_direct_route(kind: str, seed: int, spread: float) -> None:
    head, latents = random_head(kind, seed, spread)
    first, via, last = latents.split(20)
    direct = head(first[:, None, None], last)  # [20, 1, 20]
    detour = head(first[:, None, None], via[:, None]) + head(via[:, None], last)
    assert (direct <= detour * (1 + ROUNDING) + ROUNDING).all()


@FEW
@given(st.sampled_from(METRIC), st.integers(0, 2**20))
def test_distances_are_never_negative_and_zero_to_the_same_latent(kind: str, seed: int) -> None:
    head, latents = random_head(kind, seed, 1.0)
    assert (head(latents[:, None], latents) >= 0).all()
    assert head(latents, latents).abs().max() == 0


@pytest.mark.parametrize("kind", DIRECTED)
def test_the_return_path_may_be_longer(kind: str) -> None:
    head, latents = random_head(kind, 0, 1.0)
    there, back = head(latents[:30], latents[30:]), head(latents[30:], latents[:30])
    assert ((there - back).abs() > 0.1 * there).float().mean() > 0.5


@pytest.mark.parametrize("kind", METRIC)
def test_a_distance_of_zero_has_a_gradient(kind: str) -> None:
    head, latents = random_head(kind, 2, 1.0)
    head.requires_grad_(True)
    head(latents, latents).sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in head.parameters())


@given(st.lists(st.tuples(*[st.integers(-20, 20)] * 2), min_size=1, max_size=9))
def test_a_component_is_the_length_of_a_union(intervals: list[tuple[int, int]]) -> None:
    covered = {cell for start, end in intervals for cell in range(start, end)}
    start, end = torch.tensor(intervals, dtype=torch.float32).T
    assert union_length(start, end) == len(covered)


def test_options_set_the_size_of_quasimetric_heads(tmp_path: Path) -> None:
    head = rc.Recipe(head="iqe", options={"components": 3, "intervals": 5}, hidden=8).build(4)
    assert isinstance(head, IntervalHead)
    assert head.embed[-1].out_features == 15
    rc.save_head(head, tmp_path / "head")
    assert rc.load_head(tmp_path / "head").config == head.config
    assert ResidualHead(4, embedding=7).config["embedding"] == 7


@pytest.mark.parametrize("kind", DIRECTED)
def test_directed_labels_teach_that_a_gate_opens_one_way(kind: str) -> None:
    """The gate of the world takes 2 steps in one direction and 30 in the other."""
    world = suite()["one-way"]
    task = world.task()
    logs = task.generate_logs(300, seed=0)
    latents = rc.encode_logs(world.model(task, logs), logs, cache=False)
    pairs = rc.labels.StitchedPairs(latents, count=8000, validation=500, directed=True)
    head = rc.fit(pairs, rc.Recipe(head=kind, hidden=48, epochs=5, expectile=0.5))
    rows = [int(np.flatnonzero((logs.columns["state"] == (x, GATE)).all(1))[0]) for x in (WALL - 1, WALL + 1)]
    here, there = latents.values[rows]
    assert head.record["references"]["remaining"] < 0.4
    assert head(there, here) > head(here, there) + 10
