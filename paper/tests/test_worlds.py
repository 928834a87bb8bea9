"""The suite: worlds satisfy the contract, random actions fail, the oracle succeeds, and faults break one stage."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch

from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import ExactModel, OracleGeodesic, exact_model
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.data.probe import fit_probe, score_probe
from reachcost.errors import ReachcostError
from reachcost.fitting.repair import LabelledRecipe
from reachcost.heads.recipe import Recipe
from reachcost.planning.control import control
from reachcost.planning.planner import RandomPolicy
from reachcost.tasks.check import check_task
from reachcost.worldmodels.custom import check_world_model
from reachcost_paper.suite.verdicts import FAULTS, intact
from reachcost_paper.worlds import World, models, suite
from reachcost_paper.worlds.hill import Hill
from reachcost_paper.worlds.models import Eye, Learned, Sight
from reachcost_paper.worlds.momentum import FRAMES, Momentum, physics
from reachcost_paper.worlds.tasks import SEEDS, FeatureTask, require, wander

WORLDS = suite()
OURS = [name for name, world in WORLDS.items() if not world.packages and name != "obstacle"]


def quick(names: Iterable[str]) -> list[Any]:
    """Worlds, those among the slow tests that take seconds to know their distances."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name == "hill" else []) for name in names]


@pytest.fixture(autouse=True)
def brief_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "UPDATES", 500)


def here(name: str) -> World:
    """The world, with fewer logs."""
    for package in WORLDS[name].packages:
        pytest.importorskip(package)
    return replace(WORLDS[name], logs={**WORLDS[name].logs, "episodes": 60})


@pytest.mark.parametrize("name", quick(WORLDS))
def test_a_world_satisfies_the_contract(name: str) -> None:
    world = here(name)
    task = world.task()
    assert check_task(task).keys() & {"distance", "generate_logs", "evaluation_set"} == set()
    tune, report = (world.evaluation(task, part) for part in SEEDS)
    assert (tune.name, report.name) == tuple(SEEDS)
    assert len(tune) == len(report) == 30
    ends = [np.stack([part.starts, part.goals], axis=1).reshape(30, -1) for part in (tune, report)]
    assert not {row.tobytes() for row in ends[0]} & {row.tobytes() for row in ends[1]}
    crossed = world.region(np.asarray(world.generate_logs(task).columns["state"]))
    assert crossed.dtype == bool
    assert 0.01 < crossed.mean() < 0.4


Made = tuple[World, FeatureTask, Logs, Any]


@pytest.fixture
def made(name: str) -> Made:
    """A world with its task, few logs and its model."""
    world = here(name)
    task = cast(FeatureTask, world.task())
    logs = world.generate_logs(task)
    return world, task, logs, world.model(task, logs)


@pytest.mark.parametrize("name", quick(OURS))
def test_random_actions_fail_and_the_oracle_succeeds(made: Made) -> None:
    world, task, _, model = made
    episodes = world.evaluation(task, "tune").spread(3)
    exact = exact_model(task, model, episodes.starts)
    assert (exact is model) == isinstance(model, Sight)
    ceiling = control(task, exact, {"oracle": OracleGeodesic(exact)}, episodes, world.planner)
    actions = RandomPolicy() if task.discrete_actions is None else RandomPolicy(task.discrete_actions)
    floor = control(task, model, {"none": LatentMSE()}, episodes, actions)
    assert floor.success.mean() < 0.4
    assert ceiling.success.mean() == 1


@pytest.mark.parametrize("name", quick(OURS))
def test_a_blind_encoder_loses_a_coordinate_and_is_not_exact(made: Made) -> None:
    world, task, logs, model = made
    blind, states = world.blind(model), np.asarray(logs.columns["state"])
    actions = torch.from_numpy(
        np.random.default_rng(0).integers(task.discrete_actions or 2, size=(4, 8, 3, model.action_dim))
    )
    actions = actions if task.discrete_actions else actions.float()
    for either in (model, blind):
        check_world_model(either, task.observe(states[:: len(states) // 4][:4]), actions)
    assert not isinstance(blind, ExactModel)
    intact_r2, blind_r2 = (
        score_probe(fit_probe(latents, task.coordinates(states)), latents, task.coordinates(states)).r2
        for latents in (encode_logs(either, logs, cache=False).values for either in (model, blind))
    )
    assert intact_r2 > 0.99
    assert blind_r2 < 0.8


@pytest.mark.parametrize(("name", "reached"), [("open", 1), ("rooms", 0)])
def test_raw_latent_distance_suffices_in_the_open_only(made: Made, reached: int) -> None:
    world, task, _, model = made
    episodes = world.evaluation(task, "tune").spread(2)
    assert control(task, model, {"raw": LatentMSE()}, episodes, world.planner).success.mean() == reached


def test_a_directed_head_distinguishes_both_directions() -> None:
    world = WORLDS["one-way"]
    task = world.task()
    logs = task.generate_logs(600)
    model = world.model(task, logs)
    quick = LabelledRecipe(Recipe(head="pair", epochs=4), directed=True)
    head = replace(world, pairs=20_000, recipe=quick).repair(task, model, logs)
    assert head.record["pairs"]["directed"]
    ends = np.argwhere(task.distances - task.distances.T > 10)[::50]  # pyright: ignore[reportAttributeAccessIssue]
    one, other = (model.encode(task.observe(task.nodes[side])) for side in ends.T)  # pyright: ignore[reportAttributeAccessIssue]
    assert (head(one, other) > head(other, one)).float().mean() > 0.9


def test_momentum_is_the_physics_of_the_package() -> None:
    here("momentum")
    states = np.array([[-1.0, 1.0, 0.5, 0.2], [0.9, 0.3, 1.0, -2.0]], np.float32)
    force, point = np.array([0.7, -0.4]), physics().point_env
    for state, after in zip(states, Momentum().step(states, np.stack([force, force])), strict=True):
        point.set_state(*np.split(state.astype(np.float64), 2))
        frames = [point.step(force)[0] for _ in range(FRAMES)]
        np.testing.assert_allclose(frames[-1], after, rtol=1e-5, atol=1e-6)


class Sled(FeatureTask):
    """Slides along a line; a frame shows where, not how fast."""

    name, action_budget = "sled", 20

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        speed = 0.9 * states[:, 1:] + 0.1 * np.clip(actions, -1, 1)
        return np.concatenate([states[:, :1] + speed, speed], axis=1).astype(np.float32)

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.abs(states - goals)[:, 0] < 0.1

    def features(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states)[:, :1] / 5

    def place(self, features: np.ndarray) -> np.ndarray:
        return np.concatenate([5 * features, 0 * features], axis=1).astype(np.float32)

    def generate_logs(self, episodes: int, seed: int = 0) -> Logs:
        return wander(self, np.zeros((episodes, 2), np.float32), 1, 30, np.random.default_rng(seed))


def test_a_model_of_two_frames_knows_the_speed() -> None:
    task = Sled()
    logs = task.generate_logs(200)
    one, two = (Learned(task, logs, length=2, history=history) for history in (1, 2))
    assert two.error < one.error / 4
    check_world_model(two, task.observe(np.eye(2, dtype=np.float32)), torch.randn(2, 4, 3, 2))
    there, back = two.encode(task.observe(np.array([[1.0, 0.3], [1.0, -0.3]], np.float32)))
    assert (there == back).all()
    block = two.actions.standardise(np.zeros((1, 2, 1)))
    before, push = np.array([[0.0, 0.3 / 0.9]], np.float32), torch.from_numpy(block).view(1, 1, 1, 2)
    path = [before]
    for _ in range(4):
        path.append(task.step(path[-1], np.zeros((1, 1))))
    seen, here, after = (two.encode(task.observe(path[row])) for row in (0, 2, 4))
    context = torch.stack([seen, here], 1)
    predicted = two.rollout(context, push.expand(1, 1, 2, 2))[:, 0]
    assert (predicted - after).norm() < 0.3 * (here - after).norm()
    alone = two.rollout(here[:, None], push)[:, 0]  # with one frame the state is at rest
    assert (alone - here).norm() < 0.3 * (here - after).norm()


def test_a_frame_of_momentum_shows_the_place_only() -> None:
    here("momentum")
    eye, states = Eye(Momentum()), np.array([[0.5, 1.0, 2.0, -1.0], [0.5, 1.0, 0.0, 0.0]], np.float32)
    assert (eye.see(states)[0] == eye.see(states)[1]).all()
    np.testing.assert_allclose(eye.states(eye.see(states)), states[[1, 1]], atol=1e-6)


def test_the_hill_is_climbed_by_following_the_distance_and_not_by_force() -> None:
    task, push = Hill(), {force: np.full((1, 1), force, np.float32) for force in (-1.0, 1.0)}
    start, goal = np.array([[-0.45, 0.0]], np.float32), np.array([[0.45, 0.0]], np.float32)

    def pushed(states: np.ndarray, force: float, steps: int) -> np.ndarray:
        for _ in range(steps):
            states = task.step(states, push[force])
        return states

    assert not task.success(pushed(start, 1.0, 100), goal)[0]
    here, steps = start, 0
    while not task.success(here, goal)[0] and steps < 120:
        force = min(push, key=lambda force: task.distance(pushed(here, force, 3), goal)[0])
        here, steps = task.step(here, push[force]), steps + 1
    assert task.distance(start, goal)[0] <= steps < 1.2 * task.distance(start, goal)[0]


def test_every_fault_changes_one_stage() -> None:
    quick = {"pairs": 2000, "recipe": LabelledRecipe(Recipe(epochs=1))}
    planner = intact(replace(here("one-way"), cost="raw", **quick), "tune")
    links = {
        "shuffled-head": {"cost"},
        "blind-encoder": {"model", "cost"},
        "noisy-predictions": {"model"},
        "few-candidates": {"search"},
        "gap-in-logs": {"logs", "cost"},
        "far-goals": {"evaluation"},
        "wandering-logs": {"world", "logs", "cost"},
    }
    assert links.keys() == FAULTS.keys()
    for name, fault in FAULTS.items():
        broken = vars(fault.plant(planner))
        assert {part for part, value in vars(planner).items() if broken[part] is not value} == links[name], name
    assert not FAULTS["wandering-logs"].fits(WORLDS["open"])


def test_missing_packages_are_refused() -> None:
    with pytest.raises(ReachcostError, match="no_such_package"):
        require("no_such_package", "somewhere")
