"""A planner can be watched, round by round, and finds what it finds unwatched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import ReachcostError
from reachcost.planning.planner import Round, lowest
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.worldmodels.jepa import JepaWorldModel

pytestmark = pytest.mark.processor

SMALL = rc.CEM(horizon=2, candidates=20, iterations=3, elites=4)
WATCHED = [SMALL, replace(SMALL, execute="best", keep_elites=2), replace(SMALL, temperature=0.2)]
CATEGORICAL = rc.CategoricalCEM(horizon=4, candidates=20, iterations=3, elites=4, keep_elites=2)
COSTS: dict[str, Any] = {"raw": rc.LatentMSE(), "other": rc.LatentMSE()}


def require_rounds(rounds: list[Round], candidates: int, elites: int) -> None:
    for seen in rounds:
        assert seen.pool.shape[1] == candidates
        assert seen.costs.shape == seen.pool.shape[:2]
        assert torch.equal(seen.elites, lowest(seen.costs, elites))
        assert seen.plan.shape == (len(seen.pool), *seen.pool.shape[2:])


@pytest.mark.parametrize("planner", WATCHED)
def test_watching_changes_no_plan_of_continuous_actions(
    planner: rc.CEM, world: rc.tasks.TwoRoom, lewm: JepaWorldModel
) -> None:
    goals = world.evaluation_set("high-distance").spread(2)
    seen: list[Round] = []
    alone = rc.control(world, lewm, COSTS, goals, planner, budget=20)
    watched = rc.control(world, lewm, COSTS, goals, planner, budget=20, watch=seen.append)
    np.testing.assert_array_equal(alone.paths, watched.paths)
    assert len(seen) == 2 * 3  # two plans of three rounds, all costs and episodes in one batch
    require_rounds(seen, 20, 4)
    executed = lewm.actions.unroll(seen[2].plan[:1].numpy())
    state = goals.starts[:1]
    for step in range(10):
        state = world.step(state, executed[:, step])
    np.testing.assert_array_equal(state[0], watched.paths[0, 0, 10])


def test_watching_changes_no_plan_of_discrete_actions(
    task: rc.tasks.TopoNav, model: ExactTopoNav, evaluation: EvaluationSet
) -> None:
    seen: list[Round] = []
    goals = evaluation.spread(2)
    alone = rc.control(task, model, COSTS, goals, CATEGORICAL, budget=4)
    watched = rc.control(task, model, COSTS, goals, CATEGORICAL, budget=4, watch=seen.append)
    np.testing.assert_array_equal(alone.paths, watched.paths)
    assert len(seen) == 4 * 3
    require_rounds(seen, 20, 4)
    for seen_round in seen:
        rows = torch.arange(len(seen_round.pool))
        assert torch.equal(seen_round.plan, seen_round.pool[rows, seen_round.elites[:, 0]].long())


def test_planners_without_rounds_cannot_be_watched(world: rc.tasks.TwoRoom, lewm: JepaWorldModel) -> None:
    goals = world.evaluation_set("high-distance").spread(1)
    with pytest.raises(ReachcostError, match="RandomPolicy"):
        rc.control(world, lewm, COSTS, goals, rc.planning.RandomPolicy(), watch=print)
