"""Heads that learn from transitions alone, without labelled pairs: QRL and HILP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.heads.base import LearnedHead
from reachcost.peers.qrl_and_hilp import Transitions
from reachcost_paper.worlds import suite
from reachcost_paper.worlds.graph import GATE, WALL
from tests.test_stitched import corridor, latents_of

Fit = Callable[..., LearnedHead]
BOTH = pytest.mark.parametrize(("fit", "kind"), [(rc.peers.fit_qrl, "mrn"), (rc.peers.fit_hilp, "euclidean")])
LINE = 30


def quick(kind: str, epochs: int = 1) -> rc.Recipe:
    return rc.Recipe(head=kind, hidden=32, epochs=epochs, learning_rate=1e-2)


def halves() -> rc.Latents:
    """Walks along a corridor, none of which passes more than two thirds of it; a latent is a place from -1 to 1."""
    walks = [corridor(0, 19), corridor(10, LINE - 1), corridor(0, 19)[::-1], corridor(10, LINE - 1)[::-1]] * 10
    return latents_of(*(2 * walk.copy() / (LINE - 1) - 1 for walk in walks))


@BOTH
def test_distances_grow_beyond_single_episodes(fit: Fit, kind: str) -> None:
    head = fit(halves(), quick(kind, epochs=4), count=10_000, stride=2)
    places = torch.linspace(-1, 1, LINE)[:, None]
    from_the_end = head(places[:1], places)
    assert (from_the_end.diff() > 0).float().mean() > 0.9
    assert 15 < from_the_end[-1] < 40
    assert head.record["validation_rho"] > 0.95


@BOTH
def test_heads_are_frozen_recorded_and_saved(fit: Fit, kind: str, tmp_path: Path) -> None:
    head = fit(halves(), quick(kind), count=500, seed=3)
    assert not head.training
    assert not any(weight.requires_grad for weight in head.parameters())
    assert head.record["pairs"]["labels"] == head.record["objective"]["name"] == fit.__name__.removeprefix("fit_")
    assert head.record["pairs"]["held_out_episodes"] == 4
    assert head.record["recipe"]["head"] == kind
    assert json.loads(json.dumps(head.record)) == head.record
    rc.save_head(head, tmp_path / "head")
    assert rc.load_head(tmp_path / "head").record == head.record


@BOTH
def test_learning_is_deterministic_whatever_the_threads(fit: Fit, kind: str) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads, found = torch.get_num_threads(), list[LearnedHead]()
    for seed, number in ((1, 1), (1, 2), (2, 1)):
        torch.set_num_threads(number)
        found.append(fit(halves(), quick(kind), count=1000, seed=seed))
        assert torch.get_num_threads() == number
    torch.set_num_threads(threads)
    one, same, other = (torch.cat([weight.flatten() for weight in head.parameters()]) for head in found)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@BOTH
def test_evaluation_episodes_are_excluded(fit: Fit, kind: str) -> None:
    latents = latents_of(*[corridor(0, 20) + 100 * number for number in range(10)])
    goals = rc.data.logged_goals(latents.logs, offset=9, count=2)
    head = fit(latents, quick(kind), count=300, exclude=goals)
    proof = head.record["pairs"]["exclusion"]
    assert proof["evaluation_sets_sha256"] == [goals.fingerprint]
    assert proof["excluded_episodes"] == 2
    assert proof["overlapping_episodes"] == proof["overlapping_rows"] == proof["overlapping_pairs"] == 0


def test_goals_of_an_evaluation_pair_are_resampled() -> None:
    """A set that was not sampled from logs excludes no episode, but its pairs of start and goal."""
    latents = latents_of(*[corridor(0, 4)] * 30)
    goals = rc.EvaluationSet(np.array([[0.0]], np.float32), np.array([[3.0]], np.float32))
    transitions = Transitions(latents.without(goals), future=0.5)
    sampled = transitions.epoch(0, count=2000)
    ends = set(zip(*(latents.values[rows, 0].tolist() for rows in (sampled[0], sampled[2])), strict=True))
    assert (0.0, 2.0) in ends
    assert not {(0.0, 3.0), (3.0, 0.0)} & ends


def test_transitions_and_later_goals_stay_in_their_episode() -> None:
    latents = latents_of(*[corridor(0, 9) + 100 * number for number in range(20)])
    sampled = Transitions(latents, stride=3, future=1.0, holdout=0.25).epoch(0, count=500)
    before, after, goal = (latents.values[rows, 0] for rows in sampled)
    assert (after - before == 3).all()
    assert (goal >= after).all()
    assert (goal // 100 == before // 100).all()


def test_held_out_episodes_are_only_for_validation() -> None:
    latents = latents_of(*[corridor(0, 9) + 100 * number for number in range(20)])
    transitions = Transitions(latents, holdout=0.25)
    fitted = {row // 10 for rows in transitions.epoch(0, count=2000) for row in rows.tolist()}
    validated = {row // 10 for rows in transitions.validation for row in rows.tolist()}
    assert len(validated) == 5
    assert not fitted & validated


def test_quasimetric_learning_finds_that_a_gate_opens_one_way() -> None:
    world = suite()["one-way"]
    task = world.task()
    logs = task.generate_logs(300, seed=0)
    latents = rc.encode_logs(world.model(task, logs), logs, cache=False)
    head = rc.peers.fit_qrl(latents, quick("mrn", epochs=2), count=25_000, exclude=world.evaluation(task, "tune"))
    rows = [int(np.flatnonzero((logs.columns["state"] == (x, GATE)).all(1))[0]) for x in (WALL - 1, WALL + 1)]
    here, there = latents.values[rows]
    assert head(here, there) < 6
    assert head(there, here) > 10
    assert head.record["curve"][-1]["excess"] < 0.6


@BOTH
def test_impossible_requests_are_refused(fit: Fit, kind: str) -> None:
    latents: Any = halves()
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("'pair'", (latents, rc.Recipe(head="pair")), {}),
        ("ranked", (latents, rc.Recipe(head=kind, loss="ranking")), {}),
        ("40 too short", (latents,), {"stride": 50}),
        ("stride is 0", (latents,), {"stride": 0}),
        ("count is 0", (latents,), {"count": 0}),
        ("latents", (latents.logs,), {}),
        ("recipe", (latents, "iqe"), {}),
        ("discount|far", (latents,), {"discount": 1.0} if kind == "euclidean" else {"far": -1}),
        ("learning rate", (latents, rc.Recipe(head=kind, epochs=2, learning_rate=1e30)), {"count": 2000}),
    ]
    for message, given, settings in cases:
        with pytest.raises(rc.ReachcostError, match=message):
            fit(*given, **settings)
