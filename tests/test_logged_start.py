"""Plans that begin with logged actions from states like the current one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import reachcost as rc
from reachcost.core.seeding import EpisodeStreams
from reachcost.planning.logged_actions import LoggedActions
from reachcost.worldmodels.jepa import JepaWorldModel
from tests.test_cem import Summing

pytestmark = pytest.mark.processor

BLOCKS = rc.ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length=2)
HERE, GOAL = torch.zeros(1, 1, 2), torch.ones(1, 2)


class Adding(Summing):
    """The latent moves by both actions of a block."""

    action_dim, actions = 4, BLOCKS

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        self.pools.append(actions.clone())
        return context[:, -1, None] + actions.unflatten(-1, (2, 2)).sum((2, 3))


def walks(episodes: int = 6, steps: int = 10) -> rc.Latents:
    """Random walks whose actions encode the episode and the step."""
    rng = np.random.default_rng(0)
    logged = []
    for number in range(episodes):
        actions = np.stack([np.full(steps, 0.1 * number), np.arange(steps) / 100], axis=1)
        logged.append({"state": rng.normal(size=(steps, 2)).astype(np.float32), "action": actions})
    logs = rc.Logs.of_episodes(logged)
    return rc.Latents(torch.from_numpy(logs.columns["state"]), logs)


def test_the_nearest_long_enough_sequences_are_found() -> None:
    latents = walks()
    known, here = LoggedActions(latents, BLOCKS), torch.tensor([[0.3, -0.2], [1.0, 1.0], [-1.0, 0.5]])
    found = known.near(here, horizon=3, count=4)
    assert found.shape == (3, 4, 3, 4)
    starts = [10 * episode + step for episode in range(6) for step in (0, 2)]  # a block apart, six actions to go
    for row, place in enumerate(here):
        order = (latents.values[starts] - place).norm(dim=1).argsort()[:4]
        firsts = latents.logs.columns["action"][np.array(starts)[order]]
        np.testing.assert_allclose(found[row, :, 0, :2], firsts, rtol=1e-6)
        assert torch.equal(known.near(here[row : row + 1], 3, 4)[0], found[row])
    assert known.near(here, horizon=4, count=100).shape[1] == 6  # only the first rows go on for four blocks


def test_non_finite_actions_are_not_candidates() -> None:
    latents = walks()
    actions = latents.logs.columns["action"]
    actions[9::10] = np.nan  # last rows
    actions[13] = np.nan
    found = LoggedActions(latents, BLOCKS).near(torch.zeros(1, 2), horizon=1, count=100)
    assert found.shape[1] == 6 * 4 - 1
    assert found.isfinite().all()


def test_source_episodes_of_the_evaluation_set_are_not_used() -> None:
    latents = walks()
    goals = rc.data.logged_goals(latents.logs, offset=4, count=2)
    assert goals.source_episodes is not None
    for logged in (LoggedActions(latents, BLOCKS, goals), LoggedActions(latents.without(goals), BLOCKS)):
        found = logged.near(torch.zeros(1, 2), horizon=1, count=100)
        episodes = (10 * found[0, :, 0, 0]).round().int().unique().tolist()
        assert episodes == sorted(set(range(6)) - set(np.unique(goals.source_episodes).tolist()))


def test_the_first_pool_is_logged_and_later_ones_have_the_minimum_deviation() -> None:
    planner = rc.CEM(horizon=2, candidates=8, iterations=3, elites=4, from_logs=True, least_deviation=0.4)
    planner = replace(planner, blocks=1, warm_start=True)
    model, latents, start = Adding(), walks(), torch.full((1, 1, 4), 0.5)
    logged = LoggedActions(latents, BLOCKS)
    context = rc.PlanContext(model, rc.LatentMSE(), HERE, GOAL, EpisodeStreams(0, "plan", [0], 0), logged=logged)
    plan = planner.plan(replace(context, left=start))
    first, second, _ = model.pools
    assert plan.shape == (1, 2, 4)
    torch.testing.assert_close(first[:, :1, :1], start[:, None])
    torch.testing.assert_close(first[:, 1:], logged.near(torch.zeros(1, 2), 2, 7))
    assert first[:, 1:].std() < 0.3
    assert (second[0, 1:].std(0) > 0.15).all()


def test_the_best_are_the_nearest_sequences_with_the_best_ends() -> None:
    latents, goal = walks(), torch.tensor([[0.5, 0.5], [-1.0, 0.0]])
    known, here = LoggedActions(latents, BLOCKS), torch.tensor([[0.3, -0.2], [1.0, 1.0]])
    found = known.best(rc.LatentMSE(), here, goal, horizon=3, count=2, among=5)
    starts = torch.tensor([10 * episode + step for episode in range(6) for step in (0, 2)])
    for row, place in enumerate(here):
        near = starts[(latents.values[starts] - place).norm(dim=1).argsort()[:5]]
        best = near[(latents.values[near + 6] - goal[row]).norm(dim=1).argsort()[:2]]
        np.testing.assert_allclose(found[row, :, 0, :2], latents.logs.columns["action"][best], rtol=1e-6)
        alone = known.best(rc.LatentMSE(), here[row : row + 1], goal[row : row + 1], horizon=3, count=2, among=5)
        assert torch.equal(alone[0], found[row])
    all_near = known.best(rc.LatentMSE(), here, goal, 3, count=2, among=2)
    assert torch.equal(all_near[0].sort(0).values, known.near(here, 3, 2)[0].sort(0).values)


def test_an_experienced_planner_begins_with_the_best_without_a_rollout() -> None:
    planner = rc.CEM.experienced(horizon=2, candidates=6, elites=4, iterations=2, logged_among=8, correlation=0.0)
    model, logged = Adding(), LoggedActions(walks(), BLOCKS)
    planner.plan(rc.PlanContext(model, rc.LatentMSE(), HERE, GOAL, EpisodeStreams(0, "plan", [0], 0), logged=logged))
    assert len(model.pools) == 2
    best = logged.best(rc.LatentMSE(), HERE[:, 0], GOAL, 2, count=5, among=8)
    torch.testing.assert_close(model.pools[0][:, 1:], best)


def test_unknown_discrete_actions_are_not_candidates() -> None:
    latents = walks()
    actions = np.tile(np.arange(10) % 4, 6)[:, None]
    actions[[3, 17], 0] = -1, 9
    discrete = rc.Latents(latents.values, rc.Logs({**latents.logs.columns, "action": actions}, latents.logs.lengths))
    found = LoggedActions(discrete, 4).near(torch.zeros(1, 2), horizon=1, count=100)
    assert found.shape == (1, 6 * 9 - 2, 1, 1)
    assert set(found.unique().tolist()) == {0, 1, 2, 3}
    coded = rc.Logs({**latents.logs.columns, "action": np.eye(4, dtype=int)[actions[:, 0] % 4]}, latents.logs.lengths)
    with pytest.raises(rc.ReachcostError, match="no discrete actions"):
        LoggedActions(rc.Latents(latents.values, coded), 4)


def test_presets_adapt_to_given_sizes() -> None:
    assert (rc.CEM.experienced(elites=3).keep_elites, rc.CEM.experienced(candidates=6).elites) == (1, 2)
    assert (rc.CEM.improved(candidates=37).elites, rc.CEM.improved(elites=4).keep_elites) == (3, 2)
    assert rc.CategoricalCEM.experienced(3, elites=2).keep_elites == 1


def test_the_default_planner_begins_with_logs() -> None:
    room, grid = rc.make_task("tworoom"), rc.make_task("toponav")
    lewm, exact = rc.load_world_model("lewm-tworoom-3072"), rc.tasks.ExactTopoNav()
    frames, features = rc.encode_logs(lewm, room.generate_logs(50)), rc.encode_logs(exact, grid.generate_logs(50))
    high = room.evaluation_set("high-distance")
    for task, model, goals, logs, planner in (
        (room, lewm, high, frames, rc.CEM.experienced()),
        (grid, exact, grid.evaluation_set(), features, rc.CategoricalCEM.experienced()),
        (grid, exact, grid.evaluation_set(), None, rc.CategoricalCEM()),
    ):
        default, named = (
            rc.control(task, model, {"raw": rc.LatentMSE()}, goals.spread(2), chosen, logs=logs, budget=3)
            for chosen in (None, planner)
        )
        assert np.array_equal(default.paths, named.paths)


def test_missing_and_wrong_logs_are_refused() -> None:
    task, model = rc.make_task("tworoom"), rc.load_world_model("lewm-tworoom-3072")
    goals, planner = task.evaluation_set("high-distance").spread(1), rc.CEM(from_logs=True)
    foreign = rc.Latents(torch.zeros(3, 2), rc.Logs({"state": np.zeros((3, 2))}, np.array([3])), {"sha256": "other"})
    for chosen, logs, message in (
        (planner, None, "encode_logs"),
        (planner, foreign, "another model"),
        (rc.CEM(), foreign, "logs="),
    ):
        with pytest.raises(rc.ReachcostError, match=message):
            rc.control(task, model, {"raw": rc.LatentMSE()}, goals, chosen, logs=logs)
    with pytest.raises(rc.ReachcostError, match="2 numbers"):
        LoggedActions(foreign, BLOCKS)
    with pytest.raises(rc.ReachcostError, match="50 action blocks"):
        LoggedActions(walks(), BLOCKS).near(torch.zeros(1, 2), horizon=50, count=3)
    latents = rc.encode_logs(model, task.generate_logs(20))
    with pytest.raises(rc.ReachcostError, match="from_logs"):
        rc.audit_planner(model, latents, task=task, evaluation=goals, planner=planner)


def test_an_episode_from_logs_is_the_same_alone_and_among_others() -> None:
    task = rc.make_task("tworoom")
    model: JepaWorldModel = rc.load_world_model("lewm-tworoom-3072")
    latents, goals = rc.encode_logs(model, task.generate_logs(60, seed=3)), task.evaluation_set("high-distance")
    planner = rc.CEM(candidates=12, iterations=2, elites=4, from_logs=True)
    together, alone = (
        rc.control(task, model, {"raw": rc.LatentMSE()}, some, planner, logs=latents, budget=10)
        for some in (goals.spread(3), goals.spread(3).spread(1))
    )
    row = together.episodes.tolist().index(alone.episodes[0])
    np.testing.assert_array_equal(together.paths[0, row], alone.paths[0, 0])


def test_a_planner_declares_its_requirements() -> None:
    task, model = rc.make_task("toponav"), rc.tasks.ExactTopoNav()
    few, costs = task.evaluation_set().spread(2), {"raw": rc.LatentMSE()}
    latents = rc.encode_logs(model, task.generate_logs(20))

    class Repeating(rc.Planner):
        """Repeats the action of the nearest logged state."""

        discrete, actions, from_logs = True, 5, True

        def plan(self, context: rc.PlanContext) -> Tensor:
            assert context.logged is not None
            return context.logged.near(context.latents[:, -1], horizon=1, count=1)[:, 0]

    assert rc.control(task, model, costs, few, Repeating(), logs=latents, budget=3).paths.shape[2] == 4
    with pytest.raises(rc.ReachcostError, match="encode_logs"):
        rc.control(task, model, costs, few, Repeating())
    rooms, lewm = rc.make_task("tworoom"), rc.load_world_model("lewm-tworoom-3072")
    with pytest.raises(rc.ReachcostError, match="Repeating"):
        rc.control(rooms, lewm, costs, rooms.evaluation_set("high-distance").spread(2), Repeating())
    with pytest.raises(rc.ReachcostError, match="logs="):
        rc.control(task, model, costs, few, rc.planning.RandomPolicy(), logs=latents)
    unfit: Any = type("Unfit", (), {"executed": 1, "plan": Repeating.plan})()
    with pytest.raises(rc.ReachcostError, match=r"inherit from rc\.Planner"):
        rc.control(task, model, costs, few, unfit)
