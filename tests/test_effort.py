"""Multiply-adds, parameters and seconds per executed action."""

from __future__ import annotations

import pytest
import torch

import reachcost as rc
from reachcost.planning.measurements import _parameters
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel

pytestmark = pytest.mark.processor

FEW = rc.CEM(candidates=20, iterations=2, elites=4)


@pytest.fixture(scope="module")
def goals(world: TwoRoom) -> rc.EvaluationSet:
    return world.evaluation_set("high-distance").spread(2)


def test_twice_the_candidates_or_iterations_cost_twice_as_much(
    world: TwoRoom, lewm: JepaWorldModel, goals: rc.EvaluationSet
) -> None:
    once, wide, long = (
        rc.planning.cost_per_action(world, lewm, rc.LatentMSE(), goals, planner).multiply_adds
        for planner in (
            FEW,
            rc.CEM(candidates=40, iterations=2, elites=4),
            rc.CEM(candidates=20, iterations=4, elites=4),
        )
    )
    assert wide == long == 2 * once > 0


def test_a_partly_executed_plan_costs_more_per_action(
    world: TwoRoom, lewm: JepaWorldModel, goals: rc.EvaluationSet
) -> None:
    one_block = rc.CEM(candidates=20, iterations=2, elites=4, blocks=1)
    whole, part = (
        rc.planning.cost_per_action(world, lewm, rc.LatentMSE(), goals, planner) for planner in (FEW, one_block)
    )
    assert part.multiply_adds == 5 * whole.multiply_adds


def test_a_policy_without_a_planner_costs_its_own_network_once_a_block(
    world: TwoRoom, lewm: JepaWorldModel, goals: rc.EvaluationSet
) -> None:
    network = rc.heads.InverseDynamics(lewm.latent_dim, lewm.action_dim, discrete=False, hidden=64).requires_grad_(
        False
    )
    found = rc.planning.cost_per_action(world, lewm, rc.LatentMSE(), goals, rc.planning.InversePolicy(network))
    assert found.parameters == sum(weight.numel() for weight in network.parameters())
    products = sum(weight.numel() for weight in network.parameters() if weight.ndim == 2)
    assert found.multiply_adds == round(products / lewm.actions.length)
    assert found.seconds > 0


def test_shared_weights_are_counted_once() -> None:
    layer = torch.nn.Linear(3, 2)
    assert _parameters([layer, layer]) == 8
    assert _parameters(rc.LatentMSE()) == 0
