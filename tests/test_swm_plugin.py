"""The plug-in against the real stable-worldmodel 0.1.1: every solver of continuous actions, its policy, its world."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
import torch
from torch import Tensor

from reachcost.costs import HeadCost, HybridCost, LatentMSE
from reachcost.errors import ReachcostError
from reachcost.fitting import Recipe, fit
from reachcost.heads.base import LearnedHead
from reachcost.heads.pair import PairHead
from reachcost.latents import encode_logs
from reachcost.pairs import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.swm import ReachObjective, RepairedModel, SwmModel
from reachcost.swm.evaluation import evaluate_in_world, goals_dataset
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model

from .swm_shim import import_stable_worldmodel
from .test_public_checkpoints import SIZE, config_tree, real_model

import_stable_worldmodel()
from gymnasium.spaces import Box  # noqa: E402
from stable_worldmodel import solver as solvers  # noqa: E402
from stable_worldmodel.policy import PlanConfig  # noqa: E402

HORIZON = 5


@pytest.fixture(scope="module")
def lewm() -> JepaWorldModel:
    return load_world_model("lewm-tworoom-3072")


@pytest.fixture(scope="module")
def head(lewm: JepaWorldModel) -> LearnedHead:
    latents = encode_logs(lewm, TwoRoom().generate_logs(300))
    return fit(TemporalPairs(latents, 20_000, 1_000), Recipe(epochs=2))


def info(episodes: int, samples: int | None = None) -> dict[str, Tensor]:
    """What a solver is given, or, with samples, what it gives to a model."""
    task = TwoRoom()
    goals = task.evaluation_set("high-distance").spread(episodes)
    start, goal = (torch.from_numpy(task.render(states, 64))[:, None] for states in (goals.starts, goals.goals))
    found = {"pixels": start, "goal": goal, "action": torch.zeros(episodes, 1, 2)}
    if samples is None:
        return found
    return {key: value[:, None].expand(-1, samples, *value.shape[1:]) for key, value in found.items()}


def test_costs_are_those_of_our_own_planner(lewm: JepaWorldModel, head: LearnedHead) -> None:
    task = TwoRoom()
    goals = task.evaluation_set("high-distance").spread(3)
    pool = torch.randn(3, 7, HORIZON, 10, generator=torch.Generator().manual_seed(0))
    context, goal = (lewm.encode(task.observe(states)) for states in (goals.starts, goals.goals))
    terminal = lewm.rollout(context[:, None], pool)
    ours = {
        None: HeadCost(head)(terminal, goal),
        0.5: HybridCost(LatentMSE(), HeadCost(head), weight=0.5)(terminal, goal),
    }
    for weight, expected in ours.items():
        theirs = RepairedModel(SwmModel(lewm), head, weight).get_cost(info(3, 7), pool)
        assert torch.allclose(theirs, expected, rtol=1e-3, atol=1e-2)
    raw = SwmModel(lewm).get_cost(info(3, 7), pool)
    assert torch.allclose(raw, lewm.latent_dim * LatentMSE()(terminal, goal), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("samples", [3, 4])
def test_each_episode_meets_its_own_goal_even_when_there_are_as_many_candidates(
    lewm: JepaWorldModel, head: LearnedHead, samples: int
) -> None:
    pool = torch.randn(4, samples, HORIZON, 10, generator=torch.Generator().manual_seed(1))
    model = RepairedModel(SwmModel(lewm), head)
    together = model.get_cost(info(4, samples), pool)
    for episode in range(4):
        alone = {key: value[episode : episode + 1] for key, value in info(4, samples).items()}
        assert torch.allclose(model.get_cost(alone, pool[episode : episode + 1]), together[[episode]], rtol=1e-4)


def test_what_an_earlier_call_left_behind_is_not_used_and_nothing_is_left(
    lewm: JepaWorldModel, head: LearnedHead, capsys: pytest.CaptureFixture[str]
) -> None:
    given = info(2, 3)
    stale = {**given, "emb": torch.zeros(2, 3, 1, 192), "goal_emb": torch.zeros(2, 1, 192)}
    pool, model = torch.zeros(2, 3, HORIZON, 10), RepairedModel(SwmModel(lewm), head)
    keys = set(stale)
    assert torch.equal(model.get_cost(stale, pool), model.get_cost(given, pool))
    assert set(stale) == keys
    assert capsys.readouterr().out == ""


def test_statistics_of_the_hybrid_carry_no_gradient() -> None:
    head, goal = PairHead(4, hidden=8), torch.zeros(1, 1, 4)
    predicted = torch.randn(1, 3, 1, 4, requires_grad=True)
    cost = ReachObjective(head, weight=1.0)({"predicted_emb": predicted, "goal_emb": goal})
    (gradient,) = torch.autograd.grad(cost[0, 0], predicted)
    assert gradient[0, 0].abs().sum() > 0
    assert (gradient[0, 1:] == 0).all()  # a candidate's cost moves no other candidate


def test_mistakes_are_named(head: LearnedHead, lewm: JepaWorldModel) -> None:
    objective = ReachObjective(head)
    with pytest.raises(ReachcostError, match="predicted_emb is NoneType: roll the candidates out first"):
        objective({})
    with pytest.raises(ReachcostError, match="goal_emb is missing"):
        objective({"predicted_emb": torch.zeros(2, 3, 1, 192)})
    with pytest.raises(ReachcostError, match="has no 'goal' to reach"):
        RepairedModel(SwmModel(lewm), head).get_cost(
            {"pixels": torch.zeros(1, 1, 1, 64, 64, 3)}, torch.zeros(1, 1, 5, 10)
        )


SOLVERS: dict[str, dict[str, Any]] = {
    "CEMSolver": {"num_samples": 20, "n_steps": 2, "topk": 5},
    "ICEMSolver": {"num_samples": 20, "n_steps": 2, "topk": 5},
    "MPPISolver": {"num_samples": 20, "n_steps": 2, "topk": 5},
    "PredictiveSamplingSolver": {"num_samples": 20},
    "GradientSolver": {"num_samples": 3, "n_steps": 2},
    "LagrangianSolver": {"num_samples": 3, "n_steps": 2},
}


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("weight", [None, 1.0])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_plans_with_the_repaired_cost(
    name: str, weight: float | None, batch: int, lewm: JepaWorldModel, head: LearnedHead
) -> None:
    solver = getattr(solvers, name)(RepairedModel(SwmModel(lewm), head, weight), batch_size=batch, **SOLVERS[name])
    space = Box(-1, 1, (4, 2), np.float32)
    solver.configure(action_space=space, n_envs=4, config=PlanConfig(HORIZON, HORIZON, action_block=5))
    plan = solver.solve(info(4))["actions"]
    assert plan.shape == (4, HORIZON, 10)
    assert torch.isfinite(plan).all()
    assert plan.abs().sum() > 0


class TheirNumbers:
    """The random numbers of their CEM, for ours."""

    def __init__(self, seed: int, episodes: int) -> None:
        self.generator, self.episodes = torch.Generator().manual_seed(seed), episodes

    def normal(self, samples: int, horizon: int, size: int) -> np.ndarray:
        return torch.randn(self.episodes, samples, horizon, size, generator=self.generator).numpy()


def test_both_cems_choose_the_same_plan(lewm: JepaWorldModel, head: LearnedHead) -> None:
    task, planner = TwoRoom(), CEM(candidates=60, iterations=4, elites=10)
    goals = task.evaluation_set("high-distance").spread(3)
    context, goal = (lewm.encode(task.observe(states)) for states in (goals.starts, goals.goals))
    numbers: Any = TheirNumbers(7, len(goals))
    ours = planner.plan(lewm, HeadCost(head), context[:, None], goal, numbers)
    solver = solvers.CEMSolver(
        RepairedModel(SwmModel(lewm), head), batch_size=len(goals), num_samples=60, n_steps=4, topk=10, seed=7
    )
    space = Box(-1, 1, (len(goals), 2), np.float32)
    solver.configure(action_space=space, n_envs=len(goals), config=PlanConfig(HORIZON, HORIZON, action_block=5))
    theirs = solver.solve(info(len(goals)))["actions"]
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_their_policy_and_world_run_the_repaired_cost(lewm: JepaWorldModel, head: LearnedHead, tmp_path: Path) -> None:
    task = TwoRoom()
    goals = task.evaluation_set("high-distance").spread(4)
    dataset = goals_dataset(goals, task, tmp_path / "goals.h5")
    model, search = RepairedModel(SwmModel(lewm), head), CEM(candidates=100, iterations=5, elites=10)
    for episodes in (1, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their environment returns tensors where Gymnasium expects arrays
            success = evaluate_in_world(model, lewm.actions, dataset, episodes, search)
        assert success.shape == (episodes,)
    assert success.any()


class Objective(Protocol):
    """Their git main's protocol, as its text has it."""

    def __call__(self, info_dict: dict[str, Any]) -> Tensor: ...


def test_the_objective_fits_their_next_release(head: LearnedHead) -> None:
    """There an evaluator stores `predicted_emb` [B, S, H + T, D] and `goal_emb` [B, G, D] without candidate axis."""
    objective: Objective = ReachObjective(head, weight=1.0)
    info_dict = {
        "predicted_emb": torch.randn(4, 4, 6, 192),
        "goal_emb": torch.randn(4, 2, 192),
        "action_candidates": torch.zeros(4, 4, 5, 10),
    }
    costs = objective(info_dict)
    assert costs.shape == (4, 4)
    assert torch.allclose(costs.mean(1), torch.zeros(4), atol=1e-4)
    assert next(ReachObjective(head).parameters()).dtype == torch.float32  # solvers read it


@pytest.mark.parametrize("family", ["lewm", "pldm"])
def test_a_model_of_theirs_is_repaired(family: str) -> None:
    """Their own LeWM and PLDM, small: with several episodes its own cost crashes, ours does not."""
    theirs, pool = real_model(config_tree(family)), torch.randn(3, 5, 4, 10, requires_grad=True)
    frames = torch.rand(2, 3, 1, 1, 3, SIZE, SIZE).expand(2, 3, 5, 1, 3, SIZE, SIZE)
    given = {"pixels": frames[0], "goal": frames[1], "action": torch.zeros(3, 5, 1, 10)}
    with pytest.raises(RuntimeError):
        theirs.get_cost(dict(given), pool)
    model = RepairedModel(theirs, PairHead(24, hidden=8), weight=1.0)
    costs = model.get_cost(given, pool)
    assert costs.shape == (3, 5)
    assert costs.requires_grad
    assert set(given) == {"pixels", "goal", "action"}
    for episode in range(3):
        alone = {key: value[episode : episode + 1] for key, value in given.items()}
        assert torch.allclose(model.get_cost(alone, pool[episode : episode + 1]), costs[[episode]], atol=1e-4)
