"""The plug-in against the real stable-worldmodel 0.1.1: every solver of continuous actions, its policy, its world."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import pytest
import stable_worldmodel
import torch
from gymnasium.spaces import Box
from stable_worldmodel import solver as solvers
from stable_worldmodel.policy import PlanConfig, WorldModelPolicy
from torch import Tensor

from reachcost.costs.latent import HeadCost, HybridCost, LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import PairHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.planning.planner import PlanContext
from reachcost.swm import ReachObjective, RepairedModel, Standardiser, SwmModel
from reachcost.swm.evaluation import evaluate_in_world, goals_dataset, public_environment, silence
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.worldmodels.checkpoints import load_checkpoint
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model
from tests.swm.test_public_checkpoints import ACTIONS, BLOCKS, FRAMES, SIZE, config_tree, real_model, save

HORIZON = 5
PICTURES = ("pixels", "goal")


@pytest.fixture(scope="module")
def head(lewm: JepaWorldModel) -> LearnedHead:
    latents = encode_logs(lewm, TwoRoom().generate_logs(300))
    return fit(TemporalPairs(latents, 20_000, 1_000), Recipe(epochs=2))


def four_goals() -> EvaluationSet:
    return TwoRoom().evaluation_set("high-distance").spread(4)


def info(episodes: int, samples: int | None = None) -> dict[str, Tensor]:
    """What a solver is given, or, with samples, what it gives to a model."""
    task = TwoRoom()
    goals = task.evaluation_set("high-distance").spread(episodes)
    start, goal = (torch.from_numpy(task.render(states, 64))[:, None] for states in (goals.starts, goals.goals))
    found = {"pixels": start, "goal": goal, "action": torch.zeros(episodes, 1, 2)}
    if samples is None:
        return found
    return {key: value[:, None].expand(-1, samples, *value.shape[1:]) for key, value in found.items()}


def configured(solver: Any, episodes: int, horizon: int = HORIZON) -> Any:
    """A solver for TwoRoom with blocks of five actions."""
    space = Box(-1, 1, (episodes, 2), np.float32)
    solver.configure(action_space=space, n_envs=episodes, config=PlanConfig(horizon, horizon, action_block=5))
    return solver


def test_costs_are_those_of_our_own_planner(lewm: JepaWorldModel, head: LearnedHead) -> None:
    task = TwoRoom()
    goals = task.evaluation_set("high-distance").spread(3)
    pool = torch.randn(3, 7, HORIZON, 10, generator=torch.Generator().manual_seed(0))
    context, goal = (lewm.encode(task.observe(states)) for states in (goals.starts, goals.goals))
    terminal = lewm.rollout(context[:, None], pool)
    for weight, cost in ((None, HeadCost(head)), (0.5, HybridCost(LatentMSE(), HeadCost(head), weight=0.5))):
        theirs = RepairedModel(SwmModel(lewm), head, weight).get_cost(info(3, 7), pool)
        assert torch.allclose(theirs, cost(terminal, goal), rtol=1e-3, atol=1e-2)
    raw = SwmModel(lewm).get_cost(info(3, 7), pool)
    assert torch.allclose(raw, lewm.latent_dim * LatentMSE()(terminal, goal), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("samples", [3, 4])
def test_each_episode_is_scored_against_its_own_goal(lewm: JepaWorldModel, head: LearnedHead, samples: int) -> None:
    pool = torch.randn(4, samples, HORIZON, 10, generator=torch.Generator().manual_seed(1))
    model, given = RepairedModel(SwmModel(lewm), head), info(4, samples)
    together = model.get_cost(given, pool)
    for episode in range(4):
        alone = {key: value[[episode]] for key, value in given.items()}
        assert torch.allclose(model.get_cost(alone, pool[[episode]]), together[[episode]], rtol=1e-4)


def test_the_dictionary_is_not_changed_and_stale_latents_are_ignored(
    lewm: JepaWorldModel, head: LearnedHead, capsys: pytest.CaptureFixture[str]
) -> None:
    given, pool, model = info(2, 3), torch.zeros(2, 3, HORIZON, 10), RepairedModel(SwmModel(lewm), head)
    stale = {**given, "emb": torch.zeros(2, 3, 1, 192), "goal_emb": torch.zeros(2, 1, 192)}
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
    assert (gradient[0, 1:] == 0).all()


def test_wrong_arguments_are_refused(head: LearnedHead, lewm: JepaWorldModel) -> None:
    objective, raw = ReachObjective(head), SwmModel(lewm)
    repaired, wrong = RepairedModel(raw, head), cast(Any, "lewm-tworoom-3072")
    frames = torch.zeros(1, 1, 1, 64, 64, 3, dtype=torch.uint8)
    given, pool = {"pixels": frames, "goal": frames}, torch.zeros(1, 1, 5, 10)
    floats = {name: frame.float() for name, frame in given.items()}
    cases: list[tuple[str, Callable[[], object]]] = [
        ("predicted_emb is NoneType", lambda: objective({})),
        ("D = 192", lambda: objective({"predicted_emb": torch.zeros(2, 3, 1, 24)})),
        ("goal_emb is missing", lambda: objective({"predicted_emb": torch.zeros(2, 3, 1, 192)})),
        ("weight is nan", lambda: ReachObjective(head, weight=float("nan"))),
        ("dimension 24", lambda: RepairedModel(raw, PairHead(24, hidden=8))),
        ("HeadCost", lambda: RepairedModel(raw, cast(Any, HeadCost(head)))),
        ("SwmModel", lambda: RepairedModel(cast(Any, lewm), head)),
        ("SwmModel", lambda: RepairedModel(repaired, head)),
        ("lewm-tworoom-3072", lambda: SwmModel(wrong)),
        ("uint8", lambda: raw.get_cost(floats, pool)),
        ("float32", lambda: SwmModel(lewm).half().get_cost(given, pool)),
        *(("'goal'", lambda model=model: model.get_cost({"pixels": frames}, pool)) for model in (raw, repaired)),
        *(("action_block=5", lambda model=model: model.get_cost(given, pool[..., :2])) for model in (raw, repaired)),
    ]
    for named, call in cases:
        with pytest.raises(ReachcostError, match=named):
            call()


SOLVERS: dict[str, dict[str, Any]] = {
    "CEMSolver": {"num_samples": 20, "n_steps": 2, "topk": 5},
    "ICEMSolver": {"num_samples": 20, "n_steps": 2, "topk": 5},
    "MPPISolver": {"num_samples": 20, "n_steps": 2, "topk": 5},
    "PredictiveSamplingSolver": {"num_samples": 20},
    "GradientSolver": {"num_samples": 3, "n_steps": 2},
    "LagrangianSolver": {"num_samples": 3, "n_steps": 2},
}


@pytest.fixture(scope="module")
def in_world(lewm: JepaWorldModel, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, int], np.ndarray]:
    """Function from a solver to the approach of each of four episodes to its goal [4], by their policy and world."""
    task, goals = TwoRoom(), four_goals()
    public = public_environment(task)
    dataset = goals_dataset(task, goals, tmp_path_factory.mktemp("goals") / "goals.h5")
    process: Any = {"action": Standardiser(lewm.actions)}

    def evaluate(solver: Any, budget: int) -> np.ndarray:
        with silence():
            world = stable_worldmodel.World(public.name, num_envs=4, image_shape=(public.pixels, public.pixels))
            world.set_policy(WorldModelPolicy(solver, PlanConfig(HORIZON, 3, action_block=5), process=process))
            found = world.evaluate(
                dataset=dataset,
                episodes_idx=[0, 1, 2, 3],
                start_steps=[0] * 4,
                goal_offset=1,
                eval_budget=budget,
                callables=[dict(one) for one in public.callables],
            )
            reached = np.stack([np.asarray(env.unwrapped.agent_position) for env in world.envs.envs])
            world.close()
        left = task.distance(reached, goals.goals)
        assert ((left < 16) == found["episode_successes"]).all()
        return task.distance(goals.starts, goals.goals) - left

    return evaluate


@pytest.mark.parametrize("declared", [2, None])
def test_actions_of_a_goals_dataset_have_the_size_of_the_task(
    declared: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TwoRoom, "action_dim", declared)
    dataset = goals_dataset(TwoRoom(), four_goals(), tmp_path / "goals.h5")
    start = dataset.load_chunk(np.array([0]), np.array([0]), np.array([2]))[0]
    assert (start["action"].shape, start["state"].shape) == ((2, 2), (2, 2))


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("weight", [None, 1.0])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_plans_with_the_repaired_cost(
    name: str, weight: float | None, batch: int, lewm: JepaWorldModel, head: LearnedHead
) -> None:
    model = RepairedModel(SwmModel(lewm), head, weight)
    solver = getattr(solvers, name)(model, batch_size=batch, **SOLVERS[name])
    plan = configured(solver, 4).solve(info(4))["actions"]
    assert plan.shape == (4, HORIZON, 10)
    others = torch.randn(4, 20, HORIZON, 10, generator=torch.Generator().manual_seed(3))  # a hybrid needs a pool
    pool = torch.cat([plan[:, None], torch.zeros_like(plan)[:, None], others], dim=1)
    costs = model.get_cost(info(4, 22), pool)
    assert (costs[:, 0] < costs[:, 1]).float().mean() > 0.5  # better than to stand still


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_drives_their_world(
    name: str, batch: int, lewm: JepaWorldModel, head: LearnedHead, in_world: Callable[[Any, int], np.ndarray]
) -> None:
    solver = getattr(solvers, name)(RepairedModel(SwmModel(lewm), head), batch_size=batch, **SOLVERS[name])
    # Several plans with warm starts, and for fewer episodes once some have ended, which their Lagrangian cannot.
    nearer = in_world(solver, 15 if name == "LagrangianSolver" else 45)
    assert nearer.mean() > 10  # pixels of the way


def test_a_hybrid_of_one_candidate_is_refused(lewm: JepaWorldModel, head: LearnedHead) -> None:
    """The deviation of one candidate is 0; gradient solvers sample one by default."""
    solver = solvers.GradientSolver(RepairedModel(SwmModel(lewm), head, weight=1.0), n_steps=2)
    with pytest.raises(ReachcostError, match="num_samples"):
        configured(solver, 1).solve(info(1))


def test_plans_use_a_frozen_copy_of_the_model(lewm: JepaWorldModel, head: LearnedHead) -> None:
    model, pool = RepairedModel(SwmModel(lewm), head), torch.randn(2, 3, HORIZON, 10)
    before = model.get_cost(info(2, 3), pool)
    assert torch.equal(model.train().get_cost(info(2, 3), pool), before)
    model.to("meta")
    assert lewm.encode(TwoRoom().observe(four_goals().starts)).isfinite().all()


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
    ours = planner.plan(PlanContext(lewm, HeadCost(head), context[:, None], goal, numbers))
    solver = solvers.CEMSolver(
        RepairedModel(SwmModel(lewm), head), batch_size=len(goals), num_samples=60, n_steps=4, topk=10, seed=7
    )
    theirs = configured(solver, len(goals)).solve(info(len(goals)))["actions"]
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_an_episode_in_their_world_does_not_depend_on_the_others(
    lewm: JepaWorldModel, head: LearnedHead, capsys: pytest.CaptureFixture[str]
) -> None:
    model, goals = RepairedModel(SwmModel(lewm), head), four_goals()
    search = CEM(candidates=100, iterations=5, elites=10)
    task, blocks = TwoRoom(), lewm.actions
    together = evaluate_in_world(task, model, blocks, goals, search)
    assert together.any()
    alone = [evaluate_in_world(task, model, blocks, goals.subset(slice(row, row + 1)), search) for row in range(4)]
    assert np.concatenate(alone).tolist() == together.tolist()
    assert not evaluate_in_world(task, None, blocks, goals).any()  # random actions
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("own", "expected"), [(None, 50), (7, 7)])
def test_episodes_have_the_budget_of_the_set_or_of_the_task(
    own: int | None, expected: int, lewm: JepaWorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[int] = []

    def watched(world: Any, eval_budget: int, **_: Any) -> Any:
        budgets.append(eval_budget)
        return {"episode_successes": [True]}

    monkeypatch.setattr(stable_worldmodel.World, "evaluate", watched)
    evaluate_in_world(TwoRoom(), None, lewm.actions, replace(four_goals(), budget=own).spread(1))
    assert budgets == [expected]


def test_unsupported_worlds_and_options_are_refused(lewm: JepaWorldModel) -> None:
    grid, moved = TopoNav(), TwoRoom(Layout(doors=((150.0, 14.0),)))
    for task, goals, planner, named in (
        (grid, grid.evaluation_set(), None, "toponav"),
        (moved, four_goals(), None, r"49.0.*150.0"),
        (TwoRoom(), four_goals(), CEM(execute="best"), "execute='best'"),
        (TwoRoom(), four_goals(), CEM(correlation=0.5), "correlation=0.5"),
    ):
        with pytest.raises(ReachcostError, match=named):
            evaluate_in_world(task, SwmModel(lewm), lewm.actions, goals, planner)


@runtime_checkable
class Dynamics(Protocol):
    """The protocol of a world model in git main."""

    def encode(self, x: dict) -> dict: ...

    def rollout(self, info_dict: dict, action_candidates: Tensor) -> dict: ...


def test_objective_and_model_fit_the_protocols_of_git_main(lewm: JepaWorldModel, head: LearnedHead) -> None:
    """Its evaluator stores the goal without candidate axis, rolls out, adds the candidates, and asks the objective."""
    model, objective = SwmModel(lewm), ReachObjective(head)
    assert isinstance(model, Dynamics)
    given, pool = info(4, 4), torch.randn(4, 4, HORIZON, 10, generator=torch.Generator().manual_seed(2))
    given["goal_emb"] = model.encode({"pixels": given["goal"][:, 0]})["emb"]
    rolled = model.rollout(given, pool)
    assert rolled["predicted_emb"].shape == (4, 4, 1 + HORIZON, 192)
    assert rolled["goal_emb"].shape == (4, 1, 192)
    costs = objective({**rolled, "action_candidates": pool})
    assert torch.equal(costs, RepairedModel(model, head).get_cost(info(4, 4), pool))
    assert torch.allclose(ReachObjective(head, weight=1.0)(rolled).mean(1), torch.zeros(4), atol=1e-4)


class Constrained(SwmModel):
    asked = 0

    def get_constraints(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        self.asked += 1
        return action_candidates.square().mean((2, 3))[..., None] - 1


def test_constraints_of_the_model_are_used(lewm: JepaWorldModel, head: LearnedHead) -> None:
    model = Constrained(lewm)
    solver = solvers.LagrangianSolver(RepairedModel(model, head), num_samples=2, n_steps=1)
    configured(solver, 2).solve(info(2))
    assert model.asked > 0
    assert not hasattr(RepairedModel(SwmModel(lewm), head), "get_constraints")


@pytest.mark.parametrize("family", ["lewm", "pldm"])
def test_a_model_of_theirs_is_repaired(family: str) -> None:
    """Small LeWM and PLDM of theirs: their cost crashes with several episodes, ours does not."""
    theirs, pool = real_model(config_tree(family)), torch.randn(3, 5, 4, 10)
    frames = torch.rand(2, 3, 1, 1, 3, SIZE, SIZE).expand(2, 3, 5, 1, 3, SIZE, SIZE)
    given = {"pixels": frames[0], "goal": frames[1], "action": torch.zeros(3, 5, 1, 10)}
    with pytest.raises(RuntimeError):
        theirs.get_cost(dict(given), pool)
    model = RepairedModel(theirs, PairHead(24, hidden=8), weight=1.0)
    costs = model.get_cost(given, pool)
    assert set(given) == {"pixels", "goal", "action"}
    for episode in range(3):
        alone = {key: value[episode : episode + 1] for key, value in given.items()}
        assert torch.allclose(model.get_cost(alone, pool[episode : episode + 1]), costs[[episode]], atol=1e-4)
    longer = {**given, "pixels": torch.cat([torch.rand_like(frames[0]), frames[0]], dim=2)}
    assert torch.allclose(model.get_cost(longer, pool), costs, atol=1e-4)  # plans from the newest of several frames


def test_a_model_of_theirs_is_evaluated_in_their_world() -> None:
    theirs, blocks = real_model(config_tree()), load_world_model("lewm-tworoom-3072").actions
    for cost in (theirs, RepairedModel(theirs, PairHead(24, hidden=8))):
        found = evaluate_in_world(
            TwoRoom(),
            cost,
            blocks,
            four_goals().subset(slice(0, 1)),
            CEM(candidates=4, iterations=1, elites=2),
            transform={name: lambda frame: frame.float()[..., ::4, ::4] / 255 for name in PICTURES},
        )
        assert found.shape == (1,)


def test_past_frames_and_actions_are_read_as_git_main_gives_them(tmp_path: Path) -> None:
    model = load_checkpoint(save(config_tree(history=3), tmp_path)[1], actions=BLOCKS)
    frames = torch.from_numpy(FRAMES)  # [3, 3, height, width, 3]
    context = model.encode({"pixels": FRAMES.reshape(-1, *FRAMES.shape[2:])}).unflatten(0, (3, 3))
    expected = model.rollout(context, ACTIONS)  # the first two of six blocks lie between the frames
    given = {"pixels": frames[:, None].expand(-1, 4, *frames.shape[1:]), "action_history": ACTIONS[:, :, :2]}
    predicted = SwmModel(model).rollout(given, ACTIONS[:, :, 2:])["predicted_emb"]
    assert predicted.shape == (3, 4, 3 + 4, 24)
    assert torch.allclose(predicted[:, 0, :3], context, atol=1e-4)
    assert torch.allclose(predicted[:, :, -1], expected, atol=1e-4)


def test_costs_are_on_the_device_of_the_predictions(lewm: JepaWorldModel) -> None:
    objective, goal = ReachObjective(PairHead(192, hidden=8), weight=1.0), torch.zeros(2, 1, 192)
    predicted = torch.zeros(2, 3, 1, 192, device="meta", requires_grad=True)
    with torch.inference_mode():  # in which CEM may move the head, before a gradient solver uses it
        assert objective({"predicted_emb": predicted, "goal_emb": goal}).device.type == "meta"
    objective({"predicted_emb": predicted, "goal_emb": goal}).sum().backward()
    assert predicted.grad is not None
    half = ReachObjective(PairHead(192, hidden=8))(
        {"predicted_emb": torch.zeros(2, 3, 1, 192).half(), "goal_emb": goal}
    )
    assert half.dtype == torch.float32
    moved = RepairedModel(SwmModel(load_world_model("lewm-tworoom-3072")), PairHead(192, hidden=8)).to("meta")
    assert {tensor.device.type for tensor in (*moved.parameters(), *moved.buffers())} == {"meta"}
