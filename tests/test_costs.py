"""Terminal costs, in shapes [B, S, D] x [B, D] -> [B, S]."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reachcost.costs.checks import GroupedCost, score
from reachcost.costs.latent import HeadCost, HybridCost, LatentMSE, standardise
from reachcost.costs.oracle import OracleGeodesic
from reachcost.errors import ReachcostError
from reachcost.heads.regression import PairHead
from reachcost.protocols import TerminalCost
from reachcost.tasks.toponav.features import ExactTopoNav

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
def test_standardised_costs_do_not_see_scale_or_shift(scale: float, shift: float) -> None:
    costs = LatentMSE()(TERMINAL, GOAL)
    torch.testing.assert_close(standardise(scale * costs + shift), standardise(costs), rtol=1e-2, atol=1e-2)


def test_standardised_costs_have_mean_zero_and_deviation_one_in_each_pool() -> None:
    costs = standardise(LatentMSE()(TERMINAL, GOAL))
    torch.testing.assert_close(costs.mean(1), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(costs.std(1, correction=0), torch.ones(4), atol=1e-4, rtol=0)
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
    with pytest.raises(ReachcostError, match="candidate 7 in episode 30"):
        score("mine", lambda terminal, goal: bad, TERMINAL, GOAL, episodes)
    with pytest.raises(ReachcostError, match="LatentMSE"):
        LatentMSE()(TERMINAL, GOAL[:, :1])


def test_oracle_is_the_graph_distance(model: ExactTopoNav) -> None:
    costs = OracleGeodesic(model)(model.latents[None], model.latents[[400]])
    assert costs[0].tolist() == model.task.distances[:, 400].tolist()
