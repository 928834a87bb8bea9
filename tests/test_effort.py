"""Multiply-adds, parameters and seconds per executed action."""

from __future__ import annotations

from dataclasses import replace

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


def test_computation_grows_with_candidates_and_iterations_and_falls_with_executed_blocks(
    world: TwoRoom, lewm: JepaWorldModel, goals: rc.EvaluationSet
) -> None:
    once, *others = (
        rc.planning.cost_per_action(world, lewm, rc.LatentMSE(), goals, planner).multiply_adds
        for planner in (FEW, replace(FEW, candidates=40), replace(FEW, iterations=4), replace(FEW, blocks=1))
    )
    assert others == [2 * once, 2 * once, 5 * once]


def test_a_policy_without_a_planner_costs_its_own_network_once_a_block(
    world: TwoRoom, lewm: JepaWorldModel, goals: rc.EvaluationSet
) -> None:
    network = rc.heads.InverseDynamics(lewm.latent_dim, lewm.action_dim, discrete=False, hidden=64)
    network.requires_grad_(False)
    found = rc.planning.cost_per_action(world, lewm, rc.LatentMSE(), goals, rc.planning.InversePolicy(network))
    assert found.parameters == sum(weight.numel() for weight in network.parameters())
    products = sum(weight.numel() for weight in network.parameters() if weight.ndim == 2)
    assert found.multiply_adds == round(products / lewm.actions.length)
    assert found.seconds > 0


def test_shared_weights_are_counted_once() -> None:
    layer = torch.nn.Linear(3, 2)
    assert _parameters([layer, layer]) == 8
    assert _parameters(rc.LatentMSE()) == 0
