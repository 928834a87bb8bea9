"""The suite: worlds keep the contract, have a floor below their ceiling, and can be broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import ExactModel, OracleGeodesic, exact_model
from reachcost.data.latents import encode_logs
from reachcost.data.probe import fit_probe, score_probe
from reachcost.errors import ReachcostError
from reachcost.fitting.directed import directed
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.temporal import TemporalPairs
from reachcost.planning.control import control
from reachcost.planning.random_policy import RandomPolicy
from reachcost.tasks.check import check_task
from reachcost.worldmodels.check import check_world_model
from reachcost.worlds import World, suite
from reachcost.worlds.momentum import FRAMES, Momentum, physics
from reachcost.worlds.sight import lose_number
from reachcost.worlds.world import PARTS, require

WORLDS = suite()
OURS = [name for name, world in WORLDS.items() if not world.packages and name != "obstacle"]


def here(name: str) -> World:
    """The world, with fewer logs."""
    if not WORLDS[name].available():
        pytest.skip("the extra `worlds` is not installed")
    return replace(WORLDS[name], logs={**WORLDS[name].logs, "episodes": 60})


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_keeps_the_contract(name: str) -> None:
    world = here(name)
    task = world.task()
    assert check_task(task).keys() & {"distance", "generate_logs", "evaluation_set"} == set()
    tune, report = (world.evaluation(task, part) for part in PARTS)
    assert (tune.name, report.name) == PARTS
    assert len(tune) == len(report) == 30
    pairs = [{(start.tobytes(), goal.tobytes()) for start, goal in zip(*ends, strict=True)} for ends in (
        (tune.starts, tune.goals), (report.starts, report.goals))]  # fmt: skip
    assert not pairs[0] & pairs[1]
    logs = world.generate_logs(task)
    away = world.region(np.asarray(logs.columns["state"]))
    assert away.dtype == bool
    assert 0.01 < away.mean() < 0.4


@pytest.mark.parametrize("name", OURS)
def test_the_floor_lies_below_the_ceiling(name: str) -> None:
    world = here(name)
    task = world.task()
    model, episodes = world.model(task, world.generate_logs(task)), world.evaluation(task, "tune").spread(5)
    exact = exact_model(task, model, episodes.starts)
    assert exact is model
    ceiling = control(task, exact, {"oracle": OracleGeodesic(exact)}, episodes, world.planner)
    actions = RandomPolicy(actions=task.discrete_actions or 2)
    floor = control(task, model, {"none": LatentMSE()}, episodes, actions)
    assert floor.success.mean() < 0.4
    assert ceiling.success.mean() == 1


@pytest.mark.parametrize("name", OURS)
def test_a_blind_encoder_loses_a_coordinate_and_is_not_exact(name: str) -> None:
    world = here(name)
    task = world.task()
    logs = world.generate_logs(task)
    model = world.model(task, logs)
    blind, states = world.blind(model), np.asarray(logs.columns["state"])
    width = (4, 8, 3, model.action_dim)
    drawn = torch.from_numpy(np.random.default_rng(0).integers(task.discrete_actions or 2, size=width))
    drawn = drawn if task.discrete_actions else drawn.float()
    for either in (model, blind):
        check_world_model(either, task.observe(states[:: len(states) // 4][:4]), drawn)
    assert not isinstance(blind, ExactModel)
    whole, left = (
        score_probe(fit_probe(latents, task.coordinates(states)), latents, task.coordinates(states)).r2
        for latents in (encode_logs(either, logs, cache=False).values for either in (model, blind))
    )
    assert whole > 0.99
    assert left < 0.8


def test_raw_latent_distance_is_right_in_the_open_and_wrong_among_rooms() -> None:
    reached = {}
    for name in ("open", "rooms"):
        world = here(name)
        task = world.task()
        model, episodes = world.model(task, world.generate_logs(task)), world.evaluation(task, "tune").spread(4)
        reached[name] = control(task, model, {"raw": LatentMSE()}, episodes, world.planner).success.mean()
    assert reached == {"open": 1, "rooms": 0}


def test_directed_pairs_tell_the_way_there_from_the_way_back() -> None:
    world = WORLDS["one-way"]
    task = world.task()
    logs = task.generate_logs(600)
    model = world.model(task, logs)
    head = replace(world, pairs=20_000, recipe=Recipe(head="pair", epochs=4)).repair(task, model, logs)
    assert head.record["pairs"]["directed"]
    ends = np.argwhere(task.distances - task.distances.T > 10)[::50]  # pyright: ignore[reportAttributeAccessIssue]
    one, other = (model.encode(task.observe(task.nodes[side])) for side in ends.T)  # pyright: ignore[reportAttributeAccessIssue]
    assert (head(one, other) > head(other, one)).float().mean() > 0.9


def test_shuffled_directed_pairs_stay_in_order() -> None:
    world = here("one-way")
    task = world.task()
    logs = world.generate_logs(task)
    shuffled = directed(TemporalPairs(encode_logs(world.model(task, logs), logs, cache=False), 500, 50)).shuffled()
    assert all((pairs.first < pairs.second).all() for pairs in (shuffled.train, shuffled.epoch(1)))


def test_momentum_is_the_physics_of_the_package() -> None:
    here("momentum")
    states = np.array([[-1.0, 1.0, 0.5, 0.2], [0.9, 0.3, 1.0, -2.0]], np.float32)
    force, point = np.array([0.7, -0.4]), physics().point_env
    for state, after in zip(states, Momentum().step(states, np.stack([force, force])), strict=True):
        point.set_state(*np.split(state.astype(np.float64), 2))
        frames = [point.step(force)[0] for _ in range(FRAMES)]
        np.testing.assert_allclose(frames[-1], after, rtol=1e-5, atol=1e-6)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ReachcostError, match="needs no_such_package: pip install"):
        require("no_such_package", "somewhere")
    world = here("obstacle")
    with pytest.raises(ReachcostError, match="has no `eye`"):
        lose_number(world.model(world.task(), world.generate_logs(world.task())), 0, 0.0)
