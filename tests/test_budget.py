"""Reachability within budgets: probabilities and expected steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import reachcost as rc
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.peers.budget_and_inverse import reached_pairs

QUICK = rc.peers.BudgetRecipe(budgets=8, hidden=32, epochs=3, learning_rate=1e-2)


@pytest.fixture(scope="module")
def logs(task: rc.tasks.TopoNav) -> rc.Logs:
    return task.generate_logs(300)


@pytest.fixture(scope="module")
def budget_head(model: rc.tasks.ExactTopoNav, logs: rc.Logs, evaluation: rc.EvaluationSet) -> rc.heads.BudgetHead:
    return rc.peers.fit_budget(model, logs, exclude=evaluation, pairs=6000, recipe=QUICK)


def test_probabilities_grow_with_the_budget_and_their_complements_sum_to_the_expected_steps() -> None:
    head = rc.heads.BudgetHead(latent_dim=5, budgets=7, hidden=8, scale=3.0)
    z, goal = torch.randn(4, 6, 5), torch.randn(4, 1, 5)
    within = head.within(100 * z, goal)
    assert within.shape == (4, 6, 7)
    assert ((within >= 0) & (within <= 1)).all()
    assert (within.diff(dim=-1) >= 0).all()
    torch.testing.assert_close(head(z, goal), 3 * (1 - head.within(z, goal)).sum(-1))


def test_the_loss_is_the_cross_entropy_of_reached_or_not() -> None:
    head = rc.heads.BudgetHead(latent_dim=5, budgets=3, hidden=8, scale=10.0)
    z, goal, steps = torch.randn(4, 5), torch.randn(4, 5), torch.tensor([1.0, 20.0, 21.0, torch.inf])
    reached = torch.tensor([[1.0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    assert torch.equal(head.reached(steps), reached.bool())
    wanted = torch.nn.functional.binary_cross_entropy(head.within(z, goal), reached, reduction="none").mean(1)
    torch.testing.assert_close(head.losses(z, goal, steps), wanted)


def test_losses_of_sure_mistakes_stay_finite() -> None:
    head = rc.heads.BudgetHead(latent_dim=2, budgets=3, hidden=4)
    for certainty in (-1e4, 1e4):
        torch.nn.init.constant_(head.mlp[-1].bias, certainty)  # pyright: ignore[reportArgumentType]
        loss = head.losses(torch.zeros(2, 2), torch.ones(2, 2), torch.tensor([1.0, torch.inf])).sum()
        loss.backward()
        assert loss.isfinite()
        assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in head.parameters())


def test_a_trained_head_orders_states_by_their_distance(
    task: rc.tasks.TopoNav, model: rc.tasks.ExactTopoNav, logs: rc.Logs, budget_head: rc.heads.BudgetHead
) -> None:
    rows = np.random.default_rng(0).integers(logs.rows, size=(2, 500))
    states, goals = (logs.columns["state"][ends] for ends in rows)
    z, goal = (model.encode(task.observe(ends)) for ends in (states, goals))
    ranks: Any = spearmanr(budget_head(z, goal), task.distance(states, goals))
    assert ranks.statistic > 0.7
    few, planner = task.evaluation_set().spread(2), rc.CategoricalCEM(candidates=32, iterations=2, elites=4)
    runs = rc.control(task, model, {"budget": rc.HeadCost(budget_head)}, few, planner, budget=3)
    assert runs.final_distance.shape == (1, 2)


def test_training_is_deterministic_and_records_the_exclusion(
    model: rc.tasks.ExactTopoNav,
    logs: rc.Logs,
    evaluation: rc.EvaluationSet,
    budget_head: rc.heads.BudgetHead,
    tmp_path: Path,
) -> None:
    again = rc.peers.fit_budget(model, logs, exclude=evaluation, pairs=6000, recipe=QUICK)
    rc.save_head(budget_head, tmp_path / "head")
    loaded = rc.load_head(tmp_path / "head")
    for other in (again, loaded):
        assert other.record == budget_head.record
        for name, weight in budget_head.state_dict().items():
            assert torch.equal(weight, other.state_dict()[name])
    assert budget_head.record["pairs"]["exclusion"]["evaluation_sets_sha256"] == [evaluation.fingerprint]


def test_pairs_of_different_episodes_are_never_reached(latents: Latents, pairs: rc.labels.TemporalPairs) -> None:
    mixed = reached_pairs(latents, pairs, share=0.3)
    for part in (mixed.train, mixed.validation, mixed.epoch(1)):
        ends = [latents.logs.episode_of(rows.numpy()) for rows in (part.first, part.second)]
        assert np.array_equal(ends[0] != ends[1], part.gap.isinf().numpy())
        assert 0.25 < part.gap.isinf().float().mean() < 0.35
    held_out = [np.isin(latents.logs.episode_of(rows.numpy()), pairs.held_out) for rows in (part.first, part.second)]
    assert not np.any(held_out)
    assert mixed.record["exclusion"]["overlapping_pairs"] == 0


@pytest.mark.parametrize("wrong", [{"budgets": 0}, {"longest": 0}, {"unrelated": 1.0}])
def test_impossible_recipes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ReachcostError, match="|".join(wrong)):
        rc.peers.BudgetRecipe(**wrong)
