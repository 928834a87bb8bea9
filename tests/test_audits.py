"""The small audits: probe rowspace, features, labels, coverage, dynamics; settings of coverage."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reachcost.audits.stages.coverage import uncovered
from reachcost.audits.stages.dynamics import logged_moves, skill
from reachcost.costs.latent import HeadCost
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError
from reachcost.heads.kinds import PairHead
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.oracle import OraclePairs, covered_latents, covered_rows, near_bottleneck, pair_groups
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_paper.tworoom.attribution import BLOCKS, FeaturesOnly, attribute, swap_consistency
from reachcost_paper.tworoom.labels import label_quality
from reachcost_paper.tworoom.probe import rowspace_share
from reachcost_paper.tworoom.settings import symmetrised

pytestmark = pytest.mark.processor


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 1000), st.integers(1, 4))
def test_the_rowspace_share_equals_that_of_an_orthonormal_basis(seed: int, targets: int) -> None:
    probe = LinearProbe(random(6, targets, seed=seed), torch.zeros(targets))
    terminal, goal = random(2, 5, 6, seed=seed + 1), random(2, 6, seed=seed + 2)
    basis = torch.linalg.qr(probe.weight).Q
    difference = terminal - goal[:, None]
    expected = (difference @ basis).square().sum((1, 2)) / difference.square().sum((1, 2))
    assert torch.allclose(rowspace_share(probe, terminal, goal), expected, atol=1e-4)


class FirstCoordinate:
    """A head that reads only the first number."""

    latent_dim = 4

    def __call__(self, z: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return (z - goal)[..., 0].square()


def test_attribution_finds_the_inputs_of_a_head() -> None:
    terminal, goal = random(3, 20, 4), random(3, 4, seed=1)
    first, second = (LinearProbe(torch.eye(4)[:, [axis]], torch.zeros(1)) for axis in (0, 1))
    for probe, share, part, rest in ((first, 1.0, "rowspace", "residual"), (second, 0.0, "residual", "rowspace")):
        rho, shares = attribute(FirstCoordinate(), probe, terminal, goal)
        assert torch.allclose(shares, torch.full((3,), share))
        assert torch.allclose(rho[part], rho["full"], atol=1e-5)
        assert torch.allclose(rho[rest], torch.zeros(3, 20), atol=1e-5)


def test_a_head_without_preferences_has_the_isotropic_gradient_share() -> None:
    """2 of 32 dimensions, on average over heads."""
    probe = LinearProbe(random(32, 2), torch.zeros(2))
    shares = []
    for seed in range(30):
        torch.manual_seed(seed)
        shares.append(attribute(PairHead(32, hidden=32), probe, random(4, 10, 32), random(4, 32))[1].mean())
    assert torch.stack(shares).mean().item() == pytest.approx(2 / 32, rel=0.35)


def test_all_features_together_are_the_head() -> None:
    head = PairHead(5, hidden=8, scale=10.0)
    terminal, goal = random(3, 7, 5), random(3, 5, seed=1)
    full = HeadCost(head)(terminal, goal)
    assert torch.allclose(FeaturesOnly(head, BLOCKS)(terminal, goal), full, atol=1e-4)
    for block in BLOCKS:
        kept = tuple(name for name in BLOCKS if name != block)
        assert not torch.allclose(FeaturesOnly(head, kept)(terminal, goal), full, atol=1e-4)
    assert (swap_consistency(head, terminal, goal)[0] > 0).all()
    both = symmetrised(head)
    assert (swap_consistency(both, terminal, goal)[0] < 1e-4).all()
    torch.testing.assert_close(both(goal, goal + 1), (head(goal, goal + 1) + head(goal + 1, goal)) / 2)
    assert not head.symmetric


def test_label_quality_by_band_and_group() -> None:
    rng = np.random.default_rng(0)
    gaps = rng.integers(1, 101, 1200).astype(float)
    distances = gaps + rng.normal(0, 10, 1200)
    far = gaps > 60
    quality = label_quality(gaps, distances, {"near": ~far, "far": far}, np.arange(1200) // 4)
    pairs = {name: count for name, (count, _, _) in quality.items()}
    pearson = {name: correlations["pearson"] for name, (_, correlations, _) in quality.items()}
    assert pairs["near"] + pairs["far"] == pairs["all"] == 1200
    assert pearson["far"] == pytest.approx(np.corrcoef(gaps[far], distances[far])[0, 1])
    assert pearson["all"] == pytest.approx(np.corrcoef(gaps, distances)[0, 1])
    assert pearson["gap 1-10"] < pearson["all"]
    for name, (_, _, intervals) in quality.items():
        low, high = intervals["pearson"]
        assert low < pearson[name] < high
    one_door = np.zeros(1200, bool)
    one_door[0] = True
    with pytest.raises(ReachcostError, match="across the wall"):
        label_quality(gaps, distances, {"across the wall": one_door}, np.arange(1200))


def test_places_away_from_the_logs_are_uncovered() -> None:
    logged, inside = (torch.rand(count, 2, generator=torch.Generator().manual_seed(count)) for count in (5000, 200))
    outside = inside + 3
    assert uncovered(inside, logged).float().mean() < 0.05
    assert uncovered(outside, logged).all()
    with pytest.raises(ReachcostError, match="1 logged latents"):
        uncovered(inside, logged[:1])


@given(st.floats(0, 1))
def test_skill_falls_with_the_error(error: float) -> None:
    start, true = torch.zeros(10, 3), torch.ones(10, 3)
    foreseen, change = skill(start, true + error * (start - true), true)
    assert foreseen / change == pytest.approx(1 - error**2, abs=1e-5)


def test_skill_on_logs_needs_actions_and_long_episodes(world: TwoRoom, lewm: JepaWorldModel) -> None:
    latents = encode_logs(lewm, world.generate_logs(20))
    foreseen, change = skill(*logged_moves(lewm, latents)[1:])
    assert foreseen.sum() / change.sum() > 0.9
    with pytest.raises(ReachcostError, match="501 rows"):
        logged_moves(lewm, latents, horizon=100)
    silent = Latents(latents.values, Logs({"state": latents.logs.columns["state"]}, latents.logs.lengths))
    with pytest.raises(ReachcostError, match="action"):
        logged_moves(lewm, silent)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_consecutive_kept_rows_stay_one_episode(lengths: list[int], data: st.DataObject) -> None:
    total = sum(lengths)
    logs = Logs({"state": np.arange(total)[:, None]}, np.array(lengths))
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, total - 1), min_size=1))))
    kept = logs.keep(rows)
    assert kept.columns["state"][:, 0].tolist() == rows.tolist()
    for number in range(len(kept)):
        part = kept.episode(number)["state"][:, 0]
        assert (np.diff(part) == 1).all()
        assert len(np.unique(logs.episode_of(part))) == 1
    assert len(kept) == 1 + sum(
        after != before + 1 or logs.episode_of(np.array([before])) != logs.episode_of(np.array([after]))
        for before, after in pairwise(rows)
    )


@pytest.mark.parametrize("rows", [[], [3, 2], [1, 1], [-1, 2], [5]])
def test_rows_that_cannot_be_kept_are_refused(rows: list[int]) -> None:
    with pytest.raises(ReachcostError, match="0 to 4"):
        Logs({"state": np.arange(5.0)[:, None]}, np.array([5])).keep(np.array(rows, int))


def states_as_latents(task: TwoRoom, episodes: int) -> Latents:
    logs = task.generate_logs(episodes)
    return Latents(torch.from_numpy(logs.columns["state"]), logs)


def test_coverage_settings_are_those_of_the_paper(world: TwoRoom) -> None:
    layout, goals = world.layout, world.evaluation_set("high-distance")
    latents = states_as_latents(world, 4_000).without(goals)
    banned = Exclusion(latents.logs, [goals])
    limited = covered_latents(latents, "limited", world, 10_000, seed=0)
    assert limited.logs.rows == 10_000
    assert layout.door_distance(limited.logs.columns["state"]).min() >= 95
    balanced = covered_latents(latents, "balanced", world, 10_000, seed=0)
    assert (layout.door_distance(balanced.logs.columns["state"]) <= 70).sum() == 5_000
    for part in (limited, balanced):
        assert not np.isin(part.logs.columns["episode_idx"], banned.episodes).any()
    options: dict[str, Any] = {"count": 5_000, "validation": 100}
    for setting, groups in (("balanced", 4), ("mixed", 2)):
        pairs = OraclePairs(balanced, world, **options, groups=pair_groups(setting, world)).train
        ends = [balanced.logs.columns["state"][rows.numpy()] for rows in (pairs.first, pairs.second)]
        near = np.minimum(*(layout.door_distance(end) for end in ends)) <= 70
        crosses = layout.room(ends[0]) != layout.room(ends[1])
        np.testing.assert_array_equal(near_bottleneck(world, *ends), near)
        kinds = np.bincount(2 * crosses + near if setting == "balanced" else crosses)
        assert kinds.tolist() == [5_000 // groups] * groups
    assert pair_groups("limited", world) is pair_groups("random", world) is None


@pytest.mark.parametrize(("setting", "kept"), [("limited", [1, 4]), ("mixed", range(5)), ("random", range(5))])
def test_rows_of_a_coverage_setting(setting: str, kept: list[int]) -> None:
    bottleneck, rng = np.array([2, 0, 1, 2, 0]), np.random.default_rng(0)
    assert covered_rows(bottleneck, setting, None, rng).tolist() == list(kept)
    assert set(covered_rows(bottleneck, setting, 2, rng).tolist()) <= set(kept)


def test_pairs_of_no_group_are_a_separate_group(task: TopoNav) -> None:
    """Neither a world without groups nor one whose groups leave pairs out mixes them with the first group."""

    class OneKind(TopoNav):
        def groups(self, starts: np.ndarray, goals: np.ndarray) -> dict[str, np.ndarray]:
            return {"to the right room": self.room(goals) == 2}

    ends = task.cells[:5], task.cells[[0, 1, 2, 675, 676]]
    for world, expected in ((task, [0, 0, 0, 0, 0]), (OneKind(), [0, 0, 0, 1, 1])):
        groups = pair_groups("mixed", world)
        assert groups is not None
        assert groups(*ends).tolist() == expected


def test_unknown_settings_and_rare_states_are_refused(world: TwoRoom) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ReachcostError, match="'none'"):
        covered_rows(np.zeros(3, int), "none", None, rng)
    with pytest.raises(ReachcostError, match="1 of 5 states"):
        covered_rows(np.array([2, 0, 0, 0, 0]), "balanced", 10, rng)
    with pytest.raises(ReachcostError, match="0 of 1 states"):
        covered_rows(np.full(3, 2), "limited", None, rng)

    def rare(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (np.arange(len(first)) == 0).astype(int)

    with pytest.raises(ReachcostError, match="50, 1 pairs"):
        OraclePairs(states_as_latents(world, 20), world, count=100, validation=100, groups=rare)
