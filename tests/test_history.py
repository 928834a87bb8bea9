"""World models that read several frames: a point mass whose velocity no single frame shows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import reachcost as rc
from reachcost.audits.stages.dynamics import logged_moves, skill
from reachcost.core.seeding import EpisodeStreams
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture, PublicParts

pytestmark = pytest.mark.processor

PLANNER = rc.CEM(horizon=4, candidates=100, iterations=4, elites=12, blocks=1)


class Sliding(rc.Task):
    """A state is (position, velocity), two numbers each; an action is an acceleration. Frames show the position."""

    name, action_budget, action_dim = "sliding", 16, 2

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        velocity = states[:, 2:] + np.clip(actions, -0.3, 0.3)
        return np.concatenate([states[:, :2] + velocity, velocity], axis=1).astype(np.float32)

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states, "seen": states[:, :2]}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        still = np.abs(states[:, 2:]).max(1) < 0.15
        return still & (np.abs(states[:, :2] - goals[:, :2]).max(1) < 0.15)

    def generate_logs(self, episodes: int, seed: int = 0) -> rc.Logs:
        actions = np.random.default_rng(seed).uniform(-0.3, 0.3, (episodes * 10, 2))
        return rc.Logs({"state": np.zeros((episodes * 10, 4)), "action": actions}, np.full(episodes, 10), self.observe)


class Glide:
    """Knows the motion; takes the velocity from the last two frames, and for zero where there is only one."""

    latent_dim = 2

    def __init__(self, history: int, length: int = 1) -> None:
        self.history, self.length, self.action_dim = history, length, 2 * length
        self.seen: list[tuple[Tensor, Tensor]] = []

    def encode(self, observations: Observations) -> Tensor:
        return torch.as_tensor(observations["seen"])

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        self.seen.append((context, actions))
        frames = context.shape[1]
        assert 1 <= frames <= self.history
        here = context[:, -1, None]
        velocity = torch.zeros_like(here)
        if frames > 1:
            past = actions[:, :, frames - 2].unflatten(-1, (self.length, 2))
            # Between two frames a block is executed: its accelerations are in the change of position.
            parts = torch.arange(self.length, 0, -1)[:, None]
            mean = (here - context[:, -2, None] - (past * parts).sum(2)) / self.length
            velocity = mean + past.sum(2)
        for block in actions[:, :, frames - 1 :].unbind(2):
            for action in block.unflatten(-1, (self.length, 2)).unbind(2):
                velocity = velocity + action
                here = here + velocity
        return here.expand(-1, actions.shape[1], -1)


def glide(history: int, length: int = 1) -> rc.WorldModel:
    return rc.with_actions(Glide(history, length), Sliding().generate_logs(20), length, units="environment")


def some_goals(episodes: int = 24) -> rc.EvaluationSet:
    rng = np.random.default_rng(1)
    starts = np.concatenate([rng.uniform(-1, 1, (episodes, 2)), rng.uniform(-0.5, 0.5, (episodes, 2))], axis=1)
    goals = np.concatenate([rng.uniform(-1, 1, (episodes, 2)), np.zeros((episodes, 2))], axis=1)
    return rc.EvaluationSet(
        name="sliding",
        starts=starts.astype(np.float32),
        goals=goals.astype(np.float32),
        seed=1,
        episodes=np.arange(episodes),
        world="sliding",
    )


@pytest.mark.parametrize("length", [1, 2])
def test_a_second_frame_shows_the_velocity(length: int) -> None:
    planner = replace(PLANNER, horizon=PLANNER.horizon // length)
    rates = [
        rc.control(Sliding(), glide(history, length), {"raw": rc.LatentMSE()}, some_goals(), planner).success.mean()
        for history in (1, 2)
    ]
    assert rates[0] < 0.3
    assert rates[1] > 0.8


def test_the_context_grows_to_the_history() -> None:
    task, goals, model = Sliding(), some_goals(3), Glide(3, length=2)
    planner = replace(PLANNER, horizon=2, iterations=1, blocks=None)  # two blocks of two steps between plans
    ready = rc.with_actions(model, task.generate_logs(20), 2, units="environment", clamp=False)
    runs = rc.control(task, ready, {"raw": rc.LatentMSE()}, goals, planner)
    assert [context.shape[1] for context, _ in model.seen] == [1, 3, 3, 3]
    assert [actions.shape[2] for _, actions in model.seen] == [2, 4, 4, 4]
    for plan, (context, actions) in enumerate(model.seen):
        frames = context.shape[1]
        times = 4 * plan - 2 * np.arange(frames)[::-1]
        np.testing.assert_array_equal(context, runs.paths[0][:, times, :2])
        assert (actions[:, :, : frames - 1] == actions[:, :1, : frames - 1]).all()
        for number in range(frames - 1):
            here = runs.paths[0][:, times[number]]
            for action in actions[:, 0, number].unflatten(-1, (2, 2)).unbind(1):
                here = task.step(here, action.numpy())
            np.testing.assert_allclose(here, runs.paths[0][:, times[number + 1]], atol=1e-5)


def test_an_episode_with_a_history_is_the_same_alone() -> None:
    costs, goals = {"raw": rc.LatentMSE(), "far": lambda end, goal: -rc.LatentMSE()(end, goal)}, some_goals(4)
    planner = replace(PLANNER, warm_start=True, keep_elites=4, bounds="logs")
    full = rc.control(Sliding(), glide(2), costs, goals, planner)
    for number, name in enumerate(costs):
        alone = rc.control(Sliding(), glide(2), {name: costs[name]}, goals.subset(slice(2, 3)), planner)
        np.testing.assert_array_equal(alone.paths[0, 0], full.paths[number, 2])


def test_candidates_start_after_past_actions() -> None:
    model, past = Glide(2), torch.tensor([[[0.1, 0.0]]])
    streams = EpisodeStreams(0, "plan", [0], 0)
    context = rc.PlanContext(model, rc.LatentMSE(), torch.zeros(1, 2, 2), torch.zeros(1, 2), streams, past=past)
    assert context.costs(torch.zeros(1, 3, 4, 2)).shape == (1, 3)
    assert model.seen[0][1].shape == (1, 3, 5, 2)
    assert model.seen[0][1][0, :, 0].tolist() == [pytest.approx([0.1, 0.0])] * 3


def test_public_architectures_get_their_history(world: TwoRoom) -> None:
    seen: list[int] = []

    class Watched(PublicParts):
        def predict(self, window: Sequence[Tensor], actions: Sequence[Tensor], kept: Any = None) -> Any:
            seen.append(len(window))
            return super().predict(window, actions, kept)

    torch.manual_seed(0)
    sizes = PublicArchitecture(image_size=28, encoder_depth=1, depth=1, history=3)
    model = JepaWorldModel(Watched(sizes), rc.ActionBlocks.of(world.generate_logs(5), 5))
    few = world.evaluation_set("balanced").subset(slice(0, 1))
    planner = rc.CEM(horizon=1, candidates=4, iterations=1, elites=2)
    rc.control(world, model, {"raw": rc.LatentMSE()}, few, planner, budget=25)
    assert [*dict.fromkeys(seen)] == [1, 2, 3]  # later rollouts of these shapes are replayed


FRAMES = {"seen": np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)}
BLOCKS = torch.randn(3, 5, 4, 2, generator=torch.Generator().manual_seed(0))


def test_the_check_uses_one_frame_and_the_full_history() -> None:
    for history in (1, 2, 5):
        model = Glide(history)
        rc.check_world_model(model, FRAMES, BLOCKS)
        assert {context.shape[1] for context, _ in model.seen} == {1, history}
        assert {actions.shape[2] for _, actions in model.seen} == {4, 3 + history}

    class Demanding(Glide):
        def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
            return super().rollout(context[:, [0, 1]], actions)

    with pytest.raises(ReachcostError, match="IndexError"):
        rc.check_world_model(Demanding(2), FRAMES, BLOCKS)

    class Mixing(Glide):
        def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
            return super().rollout(context, actions) + (context[:1, :1] if context.shape[1] > 1 else 0)

    with pytest.raises(ReachcostError, match="2 frames"):
        rc.check_world_model(Mixing(2), FRAMES, BLOCKS)


@pytest.mark.parametrize("history", [0, -1, 1.5, "2", True, None])
def test_a_history_is_a_positive_int(history: object) -> None:
    model = Glide(2)
    model.history = history  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ReachcostError, match="history"):
        rc.check_world_model(model, FRAMES, BLOCKS)


def test_logged_windows_provide_the_history() -> None:
    """Two frames and the block between them tell the velocity that logged starts have; one frame does not."""
    task, rng = Sliding(), np.random.default_rng(1)
    states, actions = [rng.normal(size=(30, 4)).astype(np.float32)], rng.uniform(-0.3, 0.3, (12, 30, 2))
    for taken in actions[:-1]:
        states.append(task.step(states[-1], taken))
    columns = {"state": np.stack(states, 1).reshape(-1, 4), "action": np.swapaxes(actions, 0, 1).reshape(-1, 2)}
    logs = rc.Logs(columns, np.full(30, 12), task.observe)
    for length in (1, 2):
        ratios = []
        for history in (1, 2):
            model = rc.with_actions(Glide(history, length), logs, length, units="environment")
            foreseen, change = skill(*logged_moves(model, rc.encode_logs(model, logs, cache=False), horizon=3)[1:])
            ratios.append(foreseen.sum() / change.sum())
        assert ratios[0] < 0.5 < 0.999 < ratios[1]
