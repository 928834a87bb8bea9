"""Solvers of the real stable-worldmodel 0.1.1 that begin with logged actions."""

from typing import Any

import numpy as np
import pytest
import torch
from stable_worldmodel import solver as solvers
from torch import Tensor

from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.actions import ActionBlocks
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import PairHead
from reachcost.planning.cem import CEM
from reachcost.planning.logged_actions import AMONG, LoggedActions
from reachcost.swm import FromLogs, RepairedModel, SwmModel
from reachcost.swm.evaluation import evaluate_in_world, silence
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from tests.swm.test_plugin import HORIZON, SOLVERS, configured, four_goals, info
from tests.swm.test_public_checkpoints import config_tree, real_model


@pytest.fixture(scope="module")
def latents(lewm: JepaWorldModel) -> Latents:
    return encode_logs(lewm, TwoRoom().generate_logs(200))


@pytest.fixture(scope="module")
def head() -> LearnedHead:
    torch.manual_seed(0)
    return PairHead(192, hidden=8).eval()


@pytest.fixture
def repaired(lewm: JepaWorldModel, head: LearnedHead, latents: Latents) -> FromLogs:
    return FromLogs(RepairedModel(SwmModel(lewm), head), latents, lewm.actions)


def test_the_best_logged_sequence_is_offered(
    lewm: JepaWorldModel, head: LearnedHead, latents: Latents, repaired: FromLogs
) -> None:
    frames, logged = info(4), LoggedActions(latents, lewm.actions)
    here, goal = (lewm.encode({"pixels": frames[name][:, 0].numpy()}) for name in ("pixels", "goal"))
    for model, cost in ((repaired, HeadCost(head)), (FromLogs(SwmModel(lewm), latents, lewm.actions), LatentMSE())):
        offered = model.get_action(frames, horizon=HORIZON)
        assert torch.equal(offered, logged.best(cost, here, goal, HORIZON, 1, AMONG)[:, 0])
    prefix = torch.randn(4, 2, 10, generator=torch.Generator().manual_seed(0))
    led = lewm.rollout(here[:, None], prefix[:, None])[:, 0]
    best = logged.best(HeadCost(head), led, goal, HORIZON - 2, 1, AMONG)[:, 0]
    assert torch.equal(repaired.get_action(frames, HORIZON - 2, prefix), best)  # begins where the prefix ends


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_begins_with_logs(name: str, repaired: FromLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tensor] = []
    offer = repaired.get_action

    def remember(*given: Any, **named: Any) -> Tensor:
        asked.append(offer(*given, **named))
        return asked[-1]

    monkeypatch.setattr(repaired, "get_action", remember)
    solver = getattr(solvers, name)(repaired, batch_size=4, **SOLVERS[name])
    with silence():
        plan = configured(solver, 4).solve(info(4))["actions"]
    assert plan.shape == (4, HORIZON, 10)
    if name != "PredictiveSamplingSolver":  # which asks no model
        assert asked[0].shape == (4, HORIZON, 10)


def test_a_model_of_theirs_begins_with_logs_too() -> None:
    theirs = real_model(config_tree())
    frames = torch.randn(2, 1, 3, 32, 32)
    offered = {"pixels": frames, "goal": frames.flip(0)}
    with torch.no_grad():
        values = theirs.encode({"pixels": torch.randn(40, 1, 3, 32, 32)})["emb"][:, 0]
    blocks = ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length=2)
    actions = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    latents = Latents(values, Logs({"action": actions}, np.array([20, 20])))
    model = FromLogs(theirs, latents, blocks)
    found = model.get_action(offered, horizon=3)
    assert found.shape == (2, 3, 4)
    alone = model.get_action({key: value[1:] for key, value in offered.items()}, horizon=3)
    assert torch.equal(found[1:], alone)


def test_their_world_is_evaluated_from_logs_without_the_episodes_of_the_goals(
    lewm: JepaWorldModel, head: LearnedHead
) -> None:
    latents, goals = encode_logs(lewm, TwoRoom().generate_logs(300)), four_goals().spread(1)
    planner = CEM(candidates=6, iterations=1, elites=2, deviation=0.1)
    found = evaluate_in_world(TwoRoom(), SwmModel(lewm), lewm.actions, goals, planner, logs=latents)
    assert found.shape == (1,)
    with pytest.raises(ReachcostError, match="PairHead"):
        FromLogs(head, latents, lewm.actions)
