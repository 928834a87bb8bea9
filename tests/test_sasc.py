"""SASC against scipy, by hand, and on TopoNav."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import spearmanr
from torch import Tensor

from reachcost.audits.sasc import draw_pools, sasc
from reachcost.costs.latent import HeadCost, HybridCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import ReachcostError
from reachcost.heads.kinds import PairHead
from reachcost.results.stats import compare_rankings
from reachcost.tasks.contract import Task
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel

pytestmark = pytest.mark.processor


class CountingHead(PairHead):
    asked = 0

    def compare(self, z: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        self.asked += 1
        return super().compare(z, goal)


COSTS = arrays.arrays(np.float64, (4, 12), elements=st.integers(0, 6))


@given(COSTS, COSTS)
def test_spearman_averages_ties_as_scipy_does(cost: np.ndarray, diagnostic: np.ndarray) -> None:
    found = compare_rankings({"cost": cost}, diagnostic)["cost"].spearman
    for episode in range(4):
        constant = np.ptp(cost[episode]) == 0 or np.ptp(diagnostic[episode]) == 0
        expected = 0.0 if constant else np.asarray(spearmanr(cost[episode], diagnostic[episode]))[0]
        assert found[episode] == pytest.approx(expected, abs=1e-12)


@given(COSTS, st.floats(0.1, 10), st.floats(-3, 3))
def test_only_the_order_of_a_cost_counts(diagnostic: np.ndarray, scale: float, shift: float) -> None:
    result = compare_rankings({"same": diagnostic, "monotone": np.exp(scale * diagnostic / 10) + shift}, diagnostic)
    for field in ("spearman", "oracle_best_rank", "selected_distance", "top_k"):
        np.testing.assert_array_equal(getattr(result["same"], field), getattr(result["monotone"], field))


def test_quantities_by_hand() -> None:
    diagnostic = np.array([[5.0, 1.0, 9.0, 2.0, 7.0]])
    cost = np.array([[0.3, 0.4, 0.1, 0.2, 0.9]])
    result = compare_rankings({"cost": cost}, diagnostic, top_k=3)["cost"]
    assert result.oracle_best_rank.tolist() == [75.0]  # three of the four others lie before candidate 1
    assert result.selected_distance.tolist() == [9.0]
    assert result.top_k.tolist() == [[9.0, 2.0, 5.0]]


def test_rank_counts_only_strictly_lower_costs() -> None:
    result = compare_rankings({"tied": np.zeros((1, 5))}, np.array([[3.0, 2.0, 1.0, 4.0, 5.0]]))["tied"]
    assert result.oracle_best_rank.tolist() == [0.0]
    assert result.spearman.tolist() == [0.0]


def test_toponav_pools_are_rolled_out_once_and_the_oracle_is_perfect(
    task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet
) -> None:
    few = evaluation.subset(slice(0, 10))
    pools = draw_pools(task, model, few, horizon=12, candidates=256)
    rollouts = []

    class Counting(ExactTopoNav):
        def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            rollouts.append(actions.shape)
            return super().rollout(context, actions)

    costs = {"raw": LatentMSE(), "oracle": OracleGeodesic(model)}
    audit = sasc(task, Counting(task), costs, few, pools)
    assert rollouts == [(10, 256, 12, 1)]
    np.testing.assert_array_equal(audit.scores["oracle"], audit.diagnostic)
    np.testing.assert_allclose(audit.rankings["oracle"].spearman, 1)
    assert (audit.rankings["oracle"].oracle_best_rank == 0).all()
    assert audit.rankings["raw"].spearman.mean() < 0.8


def test_pools_of_another_shape_are_refused(task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    with pytest.raises(ReachcostError, match=r"give \[E = 120, S, H, A\]"):
        sasc(task, model, {"raw": LatentMSE()}, evaluation, draw_pools(task, model, evaluation)[:5])


def test_pools_are_sampled_per_episode_in_actions_of_the_model(
    task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet, world: TwoRoom, lewm: JepaWorldModel
) -> None:
    discrete = draw_pools(task, model, evaluation, horizon=12, candidates=50)
    assert discrete.shape == (120, 50, 12, 1)
    assert np.bincount(discrete.ravel()) / discrete.size == pytest.approx([0.2] * 5, abs=0.01)
    few = evaluation.subset(np.array([7, 3]))
    np.testing.assert_array_equal(draw_pools(task, model, few, horizon=12, candidates=50), discrete[[7, 3]])
    sampled, given = (
        sasc(task, model, {"raw": LatentMSE()}, few, pools) for pools in (None, draw_pools(task, model, few))
    )
    np.testing.assert_array_equal(sampled.scores["raw"], given.scores["raw"])
    goals = world.evaluation_set("high-distance").subset(slice(0, 20))
    blocks = draw_pools(world, lewm, goals)
    assert blocks.shape == (20, 300, 5, lewm.action_dim)
    assert (blocks.mean(), blocks.std()) == pytest.approx((0, 1), abs=0.01)
    with pytest.raises(ReachcostError, match="with_actions"):
        draw_pools(world, model, goals)


def test_a_world_without_distance_is_refused(model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    class Unmeasured(TopoNav):
        distance = Task.distance

    few = evaluation.subset(slice(0, 2))
    with pytest.raises(ReachcostError, match="distance"):
        sasc(Unmeasured(), model, {"raw": LatentMSE()}, few)


def test_wrong_scores_are_named() -> None:
    good = np.arange(6.0).reshape(2, 3)
    with pytest.raises(ReachcostError, match=r"cost 'raw' has shape \(2, 2\)"):
        compare_rankings({"raw": good[:, :2]}, good)
    bad = good.copy()
    bad[1, 2] = np.nan
    with pytest.raises(ReachcostError, match="candidate 2"):
        compare_rankings({"raw": bad}, good)
    with pytest.raises(ReachcostError, match="candidates >= 2"):
        compare_rankings({}, good[:, :1])


def test_a_head_of_several_costs_runs_once(task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    head, few = CountingHead(model.latent_dim), evaluation.spread(3)
    costs = {
        "head": HeadCost(head),
        "hybrid": HybridCost(LatentMSE(), HeadCost(head)),
        "heavy": HybridCost(LatentMSE(), HeadCost(head), weight=3.0),
    }
    together = sasc(task, model, costs, few).scores
    pieces = head.asked
    sasc(task, model, {"head": costs["head"]}, few)
    assert head.asked == 2 * pieces  # as often for all three costs as for one
    for name, cost in costs.items():
        np.testing.assert_array_equal(together[name], sasc(task, model, {name: cost}, few).scores[name])

    class Opposite(HeadCost):
        def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
            return -super().__call__(terminal, goal)

    apart = sasc(task, model, {"head": HeadCost(head), "opposite": Opposite(head)}, few).scores
    np.testing.assert_array_equal(apart["opposite"], -apart["head"])
