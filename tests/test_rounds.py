"""The rounds of a planner can be watched."""

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


@pytest.fixture(scope="module")
def goals(world: rc.tasks.TwoRoom) -> EvaluationSet:
    return world.evaluation_set("high-distance").spread(2)


def watched_runs(*parts: Any, budget: int) -> tuple[rc.ControlRuns, list[Round]]:
    """Runs that are the same watched and unwatched, and their rounds."""
    seen: list[Round] = []
    alone = rc.control(*parts, budget=budget)
    watched = rc.control(*parts, budget=budget, watch=seen.append)
    np.testing.assert_array_equal(alone.paths, watched.paths)
    for one in seen:
        assert one.pool.shape[1] == 20
        assert one.costs.shape == one.pool.shape[:2]
        assert torch.equal(one.elites, lowest(one.costs, 4))
        assert one.plan.shape == (len(one.pool), *one.pool.shape[2:])
    return watched, seen


@pytest.mark.parametrize("planner", WATCHED)
def test_rounds_of_continuous_actions_are_watched(
    planner: rc.CEM, world: rc.tasks.TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet
) -> None:
    runs, seen = watched_runs(world, lewm, COSTS, goals, planner, budget=20)
    assert len(seen) == 2 * 3  # two plans of three rounds, all costs and episodes in one batch
    executed = lewm.actions.unroll(seen[2].plan[:1].numpy())
    state = goals.starts[:1]
    for step in range(10):
        state = world.step(state, executed[:, step])
    np.testing.assert_array_equal(state[0], runs.paths[0, 0, 10])


def test_rounds_of_discrete_actions_are_watched(
    task: rc.tasks.TopoNav, model: ExactTopoNav, evaluation: EvaluationSet
) -> None:
    _, seen = watched_runs(task, model, COSTS, evaluation.spread(2), CATEGORICAL, budget=4)
    assert len(seen) == 4 * 3
    for one in seen:
        assert torch.equal(one.plan, one.pool[torch.arange(len(one.pool)), one.elites[:, 0]].long())


def test_planners_without_rounds_cannot_be_watched(
    world: rc.tasks.TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet
) -> None:
    with pytest.raises(ReachcostError, match="RandomPolicy"):
        rc.control(world, lewm, COSTS, goals, rc.planning.RandomPolicy(), watch=print)
