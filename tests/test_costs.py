"""Terminal costs, in shapes [B, S, D] x [B, D] -> [B, S], also through a linear probe."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reachcost.costs.checks import GroupedCost, score
from reachcost.costs.latent import (
    DecodedDistance,
    HeadCost,
    HybridCost,
    LatentMSE,
    StandardisedL2,
    SubspaceCost,
    standardise,
)
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.probe import LinearProbe, fit_probe, score_probe
from reachcost.errors import ReachcostError
from reachcost.heads.kinds import PairHead
from reachcost.protocols import TerminalCost
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.tworoom import Layout

pytestmark = pytest.mark.processor

TERMINAL = torch.randn(4, 30, 10, generator=torch.Generator().manual_seed(0))
GOAL = torch.randn(4, 10, generator=torch.Generator().manual_seed(1))


def test_raw_cost_is_the_squared_latent_distance() -> None:
    expected = torch.cdist(TERMINAL, GOAL[:, None]).squeeze(-1).square() / 10
    torch.testing.assert_close(LatentMSE()(TERMINAL, GOAL), expected)
    assert isinstance(LatentMSE(), TerminalCost)


def test_replacement_cost_is_the_head(head: PairHead) -> None:
    costs = HeadCost(head)(TERMINAL, GOAL)
    torch.testing.assert_close(costs[2, 7], head(TERMINAL[2, 7], GOAL[2]))


@given(st.floats(0.1, 100), st.floats(-50, 50))
def test_standardised_costs_ignore_scale_and_shift(scale: float, shift: float) -> None:
    costs = LatentMSE()(TERMINAL, GOAL)
    found = standardise(costs)
    torch.testing.assert_close(standardise(scale * costs + shift), found, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found.mean(1), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std(1, correction=0), torch.ones(4), atol=1e-4, rtol=0)
    assert torch.equal(standardise(torch.ones(2, 5)), torch.zeros(2, 5))


def test_hybrid_weighs_the_two_standardised_costs(head: PairHead) -> None:
    raw, learned = LatentMSE(), HeadCost(head)
    expected = standardise(raw(TERMINAL, GOAL)) + 0.75 * standardise(learned(TERMINAL, GOAL))
    torch.testing.assert_close(HybridCost(raw, learned, weight=0.75)(TERMINAL, GOAL), expected)
    torch.testing.assert_close(HybridCost(raw, learned, weight=0)(TERMINAL, GOAL), standardise(raw(TERMINAL, GOAL)))


def test_grouped_cost_scores_each_group_with_its_own(head: PairHead) -> None:
    raw, learned = LatentMSE(), HeadCost(head)
    grouped = GroupedCost(
        {"raw": raw, "learned": learned, "done": raw}, [np.array([7]), np.array([2, 3, 5]), np.array([], int)]
    )(TERMINAL, GOAL)
    torch.testing.assert_close(grouped[:1], raw(TERMINAL[:1], GOAL[:1]))
    torch.testing.assert_close(grouped[1:], learned(TERMINAL[1:], GOAL[1:]))


def test_costs_that_cannot_be_ranked_are_refused() -> None:
    episodes = np.array([10, 20, 30, 40])
    with pytest.raises(ReachcostError, match=r"\(4, 30, 10\)"):
        score("mine", lambda terminal, goal: terminal - goal[:, None], TERMINAL, GOAL, episodes)
    with pytest.raises(ReachcostError, match="list"):
        score("mine", lambda terminal, goal: [1.0], TERMINAL, GOAL, episodes)  # pyright: ignore[reportArgumentType]
    bad = LatentMSE()(TERMINAL, GOAL)
    bad[2, 7] = torch.inf
    with pytest.raises(ReachcostError, match="candidate 7"):
        score("mine", lambda terminal, goal: bad, TERMINAL, GOAL, episodes)
    with pytest.raises(ReachcostError, match=r"goal\[:, None\]"):  # torch cannot broadcast these shapes
        score("mine", lambda terminal, goal: (terminal - goal).sum(-1), TERMINAL, GOAL, episodes)
    with pytest.raises(ReachcostError, match="other episodes"):  # it can where there are as many candidates
        score("mine", lambda terminal, goal: (terminal - goal).sum(-1), TERMINAL[:, :4], GOAL, episodes)
    with pytest.raises(ReachcostError, match="LatentMSE"):
        LatentMSE()(TERMINAL, GOAL[:, :1])


def test_oracle_is_the_graph_distance(model: ExactTopoNav) -> None:
    costs = OracleGeodesic(model)(model.latents[None], model.latents[[400]])
    assert costs[0].tolist() == model.task.distances[:, 400].tolist()


@pytest.fixture
def probe() -> LinearProbe:
    random = torch.Generator().manual_seed(1)
    return LinearProbe(torch.randn(12, 2, generator=random), torch.tensor([112.0, 112.0]))


def test_rowspace_and_residual_split_the_latent_distance(probe: LinearProbe) -> None:
    terminal, goal = torch.randn(3, 5, 12), torch.randn(3, 12)
    rowspace, residual = (SubspaceCost(probe, rest)(terminal, goal) for rest in (False, True))
    assert torch.allclose(rowspace + residual, 12 * LatentMSE()(terminal, goal), rtol=1e-4)
    projector = SubspaceCost(probe).projector
    assert torch.allclose(projector @ projector, projector, atol=1e-5)
    assert torch.linalg.matrix_rank(projector) == 2
    kept = goal[:, None] + (terminal - goal[:, None]) @ projector
    assert torch.allclose(probe(kept), probe(terminal), atol=1e-3)  # the rowspace is all that the probe reads


def test_decoded_distances_are_those_of_the_decoded_states(probe: LinearProbe) -> None:
    states = np.array([[60.0, 170.0], [90.0, 49.0]])
    inverse = torch.linalg.pinv(probe.weight)
    latents = ((torch.from_numpy(states).float() - probe.bias) @ inverse)[None]
    goal = (torch.tensor([[160.0, 170.0]]) - probe.bias) @ inverse
    straight = DecodedDistance(probe)(latents, goal)[0]
    assert straight.tolist() == pytest.approx([100.0, np.hypot(70, 121)], rel=1e-3)
    around = DecodedDistance(probe, Layout().geodesic)(latents, goal)[0]
    expected = Layout().geodesic(states, np.array([[160.0, 170.0]]))
    assert around.tolist() == pytest.approx(expected.tolist(), rel=1e-3)
    assert around[0] > 200


def test_standardised_distance_ignores_the_scale_of_components() -> None:
    latents = torch.randn(500, 4)
    scale = torch.tensor([1.0, 10.0, 0.1, 3.0])
    terminal, goal = latents[:6].view(2, 3, 4), latents[6:8]
    plain = StandardisedL2.of(latents)(terminal, goal)
    assert torch.allclose(StandardisedL2.of(latents * scale)(terminal * scale, goal * scale), plain, rtol=1e-4)
    with pytest.raises(ReachcostError, match="positive standard deviation"):
        StandardisedL2(torch.zeros(3))


def test_a_probe_reads_what_is_linear_and_only_that() -> None:
    latents = torch.randn(2000, 6, generator=torch.Generator().manual_seed(0))
    linear, square = latents[:, :1].numpy() * 3 + 5, latents[:, :1].square().numpy()
    train, test = slice(0, 1500), slice(1500, None)
    score = score_probe(fit_probe(latents[train], linear[train]), latents[test], linear[test])
    assert score.r2 > 0.9999
    assert score.rmse < 0.01
    assert score_probe(fit_probe(latents[train], square[train]), latents[test], square[test]).r2 < 0.1
    with pytest.raises(ReachcostError, match="two or more of both"):
        fit_probe(latents, linear[:10])
