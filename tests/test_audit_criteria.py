"""Criteria compare what differs in one thing, and say so where nothing differs or nothing can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from reachcost.audits import criteria
from reachcost.audits.criteria import _judged, _larger_search, _shuffled
from reachcost.audits.planner import audit_planner
from reachcost.audits.subject import Subject
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.fitting.fit import fit
from reachcost.fitting.pairs import Pairs
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.temporal import TemporalPairs
from reachcost.heads.base import LearnedHead
from reachcost.heads.pair import PairHead
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.control import control
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import RouteProposal, TopoNav

SEARCH = CategoricalCEM(candidates=16, iterations=2, elites=3)


@pytest.fixture(scope="module")
def cells(evaluation: EvaluationSet) -> EvaluationSet:
    return evaluation.spread(6)


@pytest.mark.parametrize("learned", [True, False])
def test_searches_of_both_sizes_run_without_injected_candidates(
    task: TopoNav,
    model: ExactTopoNav,
    latents: Latents,
    head: PairHead,
    cells: EvaluationSet,
    learned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The injected route to the goal helped the small search alone."""
    monkeypatch.setattr(criteria, "LARGER", 4)
    cost = HeadCost(head) if learned else LatentMSE()
    offered = RouteProposal(task, iterations=SEARCH.iterations, horizon=SEARCH.horizon)
    parts = model, latents, cost, task, cells, SEARCH
    injected = _larger_search(Subject(*parts, proposal=offered))
    plain = _larger_search(Subject(*parts))
    assert "all without injected candidates" in injected.evidence
    assert "injected" not in plain.evidence
    np.testing.assert_array_equal(injected.rows, plain.rows)
    np.testing.assert_array_equal(injected.episodes, cells.spread(4).episodes)
    before = 100 * control(task, model, {"raw": LatentMSE()}, cells.spread(4), SEARCH).success.mean()
    assert f"success: 16 x 2 {before:.0f} %," in injected.evidence


class Weighted(LearnedHead):
    """A head of one's own, which is not registered."""

    def __init__(self, latent_dim: int) -> None:
        super().__init__(latent_dim, 10.0)
        self.weights = torch.nn.Parameter(torch.ones(latent_dim))

    def compare(self, z: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return (z - goal).square() @ self.weights


class Namesake(Weighted):
    """Another one, by the name of a registered head."""

    kind = "pair"


@pytest.mark.parametrize("own", [Weighted, Namesake])
def test_a_head_that_cannot_be_built_anew_leaves_one_criterion_unknown(
    task: TopoNav, model: ExactTopoNav, latents: Latents, cells: EvaluationSet, own: type[Weighted]
) -> None:
    pairs = TemporalPairs(latents, 200, validation=50, exclude=cells)
    head = fit(pairs, Recipe(epochs=1), head=own(model.latent_dim))
    audit = audit_planner(model, latents, HeadCost(head), task, cells.subset(slice(2)), SEARCH, criteria=True)
    assert len(audit.stages) == 6
    assert audit.criteria[2].outcome == "unknown"
    assert "the head cannot be built anew" in audit.criteria[2].evidence


@pytest.mark.parametrize("kept_out", [True, False])
def test_the_shuffled_control_keeps_a_set_out_only_if_the_head_did(
    task: TopoNav,
    model: ExactTopoNav,
    latents: Latents,
    cells: EvaluationSet,
    kept_out: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = Recipe(epochs=1, hidden=4)
    pairs = TemporalPairs(latents, 200, validation=50, exclude=cells if kept_out else None)
    drawn: list[Pairs] = []

    def remember(pairs: Pairs, *args: Any, **options: Any) -> LearnedHead:
        drawn.append(pairs)
        return fit(pairs, *args, **options)

    monkeypatch.setattr(criteria, "fit", remember)
    _shuffled(Subject(model, latents, HeadCost(fit(pairs, recipe)), task, cells, SEARCH))
    (control_pairs,) = drawn
    assert ("exclusion" in control_pairs.record) == kept_out
    assert torch.equal(control_pairs.train.first, pairs.train.first)
    assert not torch.equal(control_pairs.train.gap, pairs.train.gap)


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [([0, 0, 0], "undecided"), ([-1, 0, -1], "refuted"), ([2, 1, 1], "survives"), ([1, -1, 0], "undecided")],
)
def test_no_difference_anywhere_refutes_nothing(differences: list[float], outcome: str) -> None:
    assert _judged(np.array(differences), "", np.arange(3)).outcome == outcome
