"""The choice of a recipe on held-out episodes, and the comparison of heads on unseen logs."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from reachcost.audits.comparison import best_recipe, choose_recipe, compare_heads
from reachcost.cli import main
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.repair import LabelledRecipe, default_recipes, repair
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs, directed
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav

DEAD = Recipe.paper(hidden=16, scale=1e9, epochs=1, learning_rate=0.3)  # its head is constant
GOOD = Recipe(hidden=64, epochs=4)


@pytest.mark.slow
def test_a_recipe_that_ranks_better_is_chosen_and_repair_takes_it(latents: Latents, evaluation: EvaluationSet) -> None:
    labelled = LabelledRecipe(GOOD, max_gap=25)
    found = choose_recipe(None, latents, recipes={"dead": DEAD, "good": labelled}, exclude=evaluation, pairs=6000)
    assert found.name == "good"
    assert found.best is labelled
    assert found.reason.startswith("good is better than dead in both halves")
    assert [row.cost for row in found.table.rows] == ["dead", "good", "raw", "shuffled", "constant"]
    ranks = {row.cost: row.ours["rho_logged"] for row in found.table.rows}
    assert ranks["good"] > 0.8
    assert ranks["constant"] == 0
    assert "minus dead" in found.table.markdown()
    head = repair(None, latents, recipe=found.best, pairs=1000, references=False)
    assert head.record["pairs"]["max_gap"] == 25
    assert head.record["recipe"]["hidden"] == 64


@pytest.mark.slow
def test_ties_go_to_the_first_recipe(latents: Latents) -> None:
    found = choose_recipe(None, latents, recipes={"one": GOOD, "same": replace(GOOD)}, pairs=6000)
    one, same = (row.ours for row in found.table.rows[:2])
    assert one["rho_logged"] == same["rho_logged"]
    assert (found.name, "no other recipe" in found.reason) == ("one", True)


def test_one_half_alone_does_not_choose() -> None:
    rng, gains = np.random.default_rng(0), {"lucky": (0.2, -0.01), "better": (0.05, 0.05), "best": (0.06, 0.08)}
    halves = []
    for half in range(2):
        values = rng.normal(0.8, 0.05, 60)
        gained = {name: values + rng.normal(gain[half], 0.02, 60) for name, gain in gains.items()}
        halves.append({"default": values, **gained})
    episodes = [np.arange(60) // 2, 100 + np.arange(60) // 2]
    names = ["default", *gains]
    assert best_recipe(names, halves, episodes)[0] == "best"
    assert best_recipe(names[:2], halves, episodes)[0] == "default"
    assert best_recipe(names[:1], halves, episodes)[0] == "default"


@pytest.mark.slow
def test_a_choice_no_better_than_a_baseline_is_reported(latents: Latents) -> None:
    with pytest.warns(ReachcostWarning, match="dead"):
        assert choose_recipe(None, latents, recipes={"dead": DEAD}, pairs=500).name == "dead"


def test_impossible_comparisons_are_refused(latents: Latents, model: ExactTopoNav, task: TopoNav) -> None:
    with pytest.raises(ReachcostError, match="goals"):
        choose_recipe(model, task.generate_logs(6), pairs=500)
    with pytest.raises(ReachcostError, match="recipes"):
        choose_recipe(None, latents, recipes={})
    with pytest.raises(ReachcostError, match="mine"):
        choose_recipe(None, latents, recipes={"mine": cast(Any, "paper")})
    with pytest.raises(ReachcostError, match="raw"):
        choose_recipe(None, latents, recipes={"raw": GOOD})


def test_frames_are_not_read(latents: Latents) -> None:
    class Unread:
        dtype, ndim, shape = np.dtype(np.uint8), 4, (latents.logs.rows, 8, 8, 3)

        def __len__(self) -> int:
            return self.shape[0]

        def __getitem__(self, rows: object) -> np.ndarray:
            raise AssertionError("frames were read")

    columns = {**latents.logs.columns, "pixels": Unread()}
    logs = Logs(cast(Any, columns), latents.logs.lengths)
    assert choose_recipe(None, Latents(latents.values, logs), recipes={"good": GOOD}, pairs=6000).name == "good"


def test_default_recipes_suit_the_length_of_episodes() -> None:
    recipes = default_recipes(np.array([40, 40, 40]))
    assert next(iter(recipes)) == "default"
    assert recipes["default"] == LabelledRecipe()
    assert recipes["paper"].recipe == Recipe.paper()
    assert (recipes["gap-10"].max_gap, recipes["gap-20"].max_gap) == (10, 20)
    assert recipes["asymmetric"].directed
    assert not [name for name in default_recipes(np.array([3])) if name.startswith("gap")]


def test_directed_pairs_go_forward_in_every_epoch(latents: Latents, evaluation: EvaluationSet) -> None:
    both = TemporalPairs(latents.without(evaluation), 500, 100, holdout=0.1)
    forward = directed(both)
    for one, other in ((forward.train, both.train), (forward.validation, both.validation)):
        assert (one.first < one.second).all()
        assert torch.equal(one.second - one.first, other.gap.long())
    fresh = forward.epoch(3)
    assert (fresh.first < fresh.second).all()
    assert forward.record["directed"]
    assert "directed" not in both.record
    assert (both.train.first > both.train.second).any()


def test_heads_are_compared_on_unseen_logs(latents: Latents, model: ExactTopoNav, task: TopoNav) -> None:
    good, shuffled = (repair(None, latents, recipe=GOOD, pairs=6000, shuffled=control) for control in (False, True))
    unseen = task.generate_logs(150, seed=8)
    table = compare_heads({"good": good, "shuffled": shuffled}, model, unseen)
    lines = {row.cost: row for row in table.rows}
    assert [*lines] == ["good", "shuffled", "raw", "mean-gap"]
    assert lines["good"].ours["rho_logged"] > lines["shuffled"].ours["rho_logged"]
    assert lines["good"].ours["validation_rmse"] < lines["mean-gap"].ours["validation_rmse"]
    assert "validation_rmse" not in lines["raw"].ours
    low, high = lines["good"].interval["validation_rmse"]
    assert low < lines["good"].ours["validation_rmse"] < high
    with pytest.raises(ReachcostError, match="good"):
        compare_heads({"good": good}, model, latents.logs)
    with pytest.raises(ReachcostError, match="goals"):
        compare_heads({"good": good}, model, task.generate_logs(1, seed=8))
    with pytest.raises(ReachcostError, match="no heads"):
        compare_heads({}, model, unseen)
    with pytest.raises(ReachcostError, match="give a fitted head"):
        compare_heads({"raw": good}, model, unseen)


def test_heads_of_another_model_are_refused(latents: Latents, model: ExactTopoNav, task: TopoNav) -> None:
    stranger = Latents(latents.values, latents.logs, {"name": "another", "sha256": "0" * 64})
    head = repair(None, stranger, recipe=GOOD, pairs=500, references=False)
    with pytest.raises(ReachcostError, match="another"):
        compare_heads({"stranger": head}, model, task.generate_logs(150, seed=8))


@pytest.mark.slow
def test_the_commands_fit_by_a_recipe_and_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"dead": LabelledRecipe(DEAD), "mean": LabelledRecipe(Recipe(expectile=0.5))}
    monkeypatch.setattr("reachcost.audits.comparison.default_recipes", lambda lengths: few)

    def path(name: str) -> str:
        return str(tmp_path / name)

    for name, episodes, seed in (("logs.h5", "120", "0"), ("unseen.h5", "120", "7"), ("three.h5", "3", "0")):
        logging = ["logs", "generate", "tworoom", "--episodes", episodes, "--seed", seed, "--out", path(name)]
        assert main(logging) == 0
    given = ["--model", "lewm-tworoom-3072", "--task", "tworoom"]
    capsys.readouterr()
    with pytest.warns(ReachcostWarning, match="held-out"):
        assert main(["fit", *given, "--logs", path("three.h5"), "--out", path("three"), "--pairs", "200"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("this head", "constant", "shuffled labels", "RMSE in steps"))
    learn = ["fit", *given, "--logs", path("logs.h5"), "--pairs", "4000"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachcostWarning)  # raw may be better than a head on few pairs
        assert main([*learn, "--out", path("auto"), "--recipe", "auto"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("dead", "raw", "shuffled", "constant", "recipe: mean, as mean is better"))
    unseen = [*given, "--logs", path("unseen.h5")]
    assert main(["compare", path("auto"), path("three"), *unseen, "--out", path("table")]) == 0
    assert "ρ logged" in capsys.readouterr().out
    assert (tmp_path / "table" / "tables" / "heads.md").exists()
    assert main(["compare", path("auto"), path("auto"), *unseen]) == 1
    assert "twice" in capsys.readouterr().err
    assert main(["compare", path("auto"), *unseen[2:], "--model", "lewm-tworoom-3073"]) == 1
    assert "trained on" in capsys.readouterr().err
