"""Comparison with a constant and a shuffled head, and the warning if there is no difference."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostWarning
from reachcost.fitting.fit import best_constant, evaluate, fit, shuffled_error, warning_for
from reachcost.fitting.repair import repair
from reachcost.heads.recipe import Recipe
from reachcost.heads.storage import load_head, save_head
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav

QUICK = Recipe(hidden=32, epochs=3)


def test_the_best_constant_has_the_lowest_loss() -> None:
    gap = torch.arange(1.0, 102)
    pairs = PairSet(torch.zeros(101, dtype=torch.long), torch.zeros(101, dtype=torch.long), gap)
    assert best_constant(pairs, Recipe(expectile=0.5), scale=1e3) == pytest.approx(51, abs=0.1)  # the mean
    for expectile in (0.05, 0.5):
        recipe = Recipe(expectile=expectile)
        found = best_constant(pairs, recipe, scale=10.0)
        losses = [recipe.losses(torch.full_like(gap, guess / 10), gap / 10).mean() for guess in (found, *gap.tolist())]
        assert losses[0] <= min(losses) + 1e-6
    assert best_constant(pairs, Recipe(loss="ranking"), scale=10.0) == pytest.approx(51)


def test_a_head_that_learned_leaves_less_than_a_constant_and_a_shuffled_one(
    latents: Latents, evaluation: EvaluationSet, tmp_path: Path
) -> None:
    head = repair(None, latents, exclude=evaluation, pairs=6000, recipe=QUICK)
    found = head.record["references"]
    assert found["episodes"] == 30
    assert found["held_out"]
    assert found["remaining"] == pytest.approx(head.record["validation_loss"] / found["constant"]["loss"], rel=1e-4)
    low, high = found["remaining_interval"]
    assert low < found["remaining"] < high < 1
    # With permuted labels there is nothing to learn but the constant.
    assert found["shuffled"]["loss"] == pytest.approx(found["constant"]["loss"], rel=0.2)
    assert warning_for(head.record) == ""
    save_head(head, tmp_path / "head")
    assert load_head(tmp_path / "head").record["references"] == found


def test_the_shuffled_reference_is_evaluated_on_true_labels(pairs: TemporalPairs) -> None:
    head = fit(pairs, QUICK)
    assert shuffled_error(pairs, QUICK)["rmse"] > 1.5 * evaluate(head, pairs.latents, pairs.validation)[1]


def test_too_few_episodes_are_reported(task: TopoNav, model: ExactTopoNav) -> None:
    with pytest.warns(ReachcostWarning, match="one held-out episode"):
        head = repair(model, task.generate_logs(3), pairs=500, recipe=QUICK)
    assert head.record["references"]["episodes"] == 1
    with pytest.warns(ReachcostWarning, match="2 held-out episodes"):
        repair(model, task.generate_logs(20), pairs=500, recipe=QUICK)


def test_too_few_pairs_are_reported(task: TopoNav, model: ExactTopoNav) -> None:
    with pytest.warns(ReachcostWarning, match="10 pairs an epoch"):
        head = repair(model, task.generate_logs(100), pairs=10, recipe=QUICK)
    pairs = TemporalPairs(encode_logs(model, task.generate_logs(100)), 10, holdout=0.1)
    constant = head.record["references"]["constant"]["value"]
    assert constant == pytest.approx(best_constant(pairs.validation, QUICK, head.scale), abs=1e-3)
    assert constant != pytest.approx(best_constant(pairs.train, QUICK, head.scale), abs=0.1)


def test_a_head_on_noise_is_no_better_than_a_constant() -> None:
    logs = Logs({"state": np.zeros((3000, 2))}, np.full(100, 30))
    noise = Latents(torch.randn(3000, 4, generator=torch.Generator().manual_seed(0)), logs)
    with pytest.warns(ReachcostWarning, match="10 held-out episodes"):
        repair(None, noise, pairs=2000, recipe=QUICK)


def test_shuffled_controls_cause_no_warning(task: TopoNav, model: ExactTopoNav, latents: Latents) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repair(model, task.generate_logs(3), pairs=500, recipe=QUICK, shuffled=True)
        head = fit(TemporalPairs(latents, 500, 100), QUICK)  # no episode is held out
    assert not head.record["references"]["held_out"]
    assert warning_for(head.record) == ""
    assert warning_for({}) == ""


def test_equal_labels_leave_nothing_to_learn(latents: Latents) -> None:
    head = fit(TemporalPairs(latents, 500, 100, max_gap=1, holdout=0.1), QUICK)
    assert np.isfinite([head.record["references"]["remaining"], *head.record["references"]["remaining_interval"]]).all()
