"""The default repair: one call from a world model and its logs to a head."""

import pytest
import torch

from reachcost.core.progress import Progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.fitting.fit import fit, shuffled_error
from reachcost.fitting.repair import HOLDOUT, repair
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.tasks.toponav.features import ExactTopoNav

QUICK = Recipe(hidden=64, epochs=3)


def equal(one: LearnedHead, other: LearnedHead) -> bool:
    same = all(torch.equal(weight, other.state_dict()[name]) for name, weight in one.state_dict().items())
    return same and one.record == other.record


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_repair_encodes_samples_pairs_and_fits(
    shuffled: bool, model: ExactTopoNav, latents: Latents, evaluation: EvaluationSet
) -> None:
    pairs = TemporalPairs(latents.without(evaluation), 4000, holdout=HOLDOUT, seed=3)
    expected = fit(pairs.shuffled() if shuffled else pairs, QUICK, seed=3)
    settings = {"exclude": evaluation, "pairs": 4000, "recipe": QUICK, "seed": 3, "shuffled": shuffled}
    assert equal(repair(None, latents, **settings, references=False), expected)
    if not shuffled:
        expected.record["references"]["shuffled"] = shuffled_error(pairs, QUICK, seed=3)
    assert equal(repair(model, latents.logs, **settings), expected)
    assert expected.record["pairs"]["holdout"] == 0.1
    assert expected.record["pairs"]["labels"] == ("shuffled" if shuffled else "temporal")


def test_labels_are_chosen_by_default_and_are_logged_times_for_a_plain_recipe(
    latents: Latents, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}
    monkeypatch.setattr(
        "reachcost.fitting.repair.fit", lambda pairs, recipe, **_: seen.update(pairs=pairs, recipe=recipe)
    )
    monkeypatch.setattr("reachcost.fitting.repair.arguments_for_logged_times", lambda *_, **__: [])
    repair(None, latents, references=False)
    assert seen["pairs"].record["labels"] == "stitched"
    assert "chosen" in seen["pairs"].record
    assert seen["recipe"] == seen["pairs"].default_recipe
    assert len(seen["pairs"].train) == 100_000
    repair(None, latents, recipe=Recipe(), references=False)
    assert seen["pairs"].record["labels"] == "temporal"
    assert seen["recipe"] == Recipe()


def test_progress_is_shown_step_by_step(model: ExactTopoNav, latents: Latents) -> None:
    class Steps(Progress):
        def __init__(self) -> None:
            self.titles: list[str] = []

        def step(self, title: str) -> None:
            self.titles.append(title)

    steps = Steps()
    repair(model, latents.logs, pairs=8000, recipe=QUICK, progress=steps)
    assert steps.titles == ["latents", "labels", "head"]
