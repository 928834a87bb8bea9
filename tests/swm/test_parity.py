"""Our TwoRoom against the real `stable-worldmodel` 0.1.1: the same positions, frames and files."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from reachcost.data.logs_files import open_logs, write_logs
from reachcost.swm.evaluation import import_stable_worldmodel
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.tasks.tworoom.logs import expert_direction

VARIED = ("agent.radius", "agent.speed", "wall.thickness", "wall.axis", "door.number", "door.size", "door.position")


@pytest.fixture(scope="module")
def env() -> Any:
    import_stable_worldmodel()
    return gymnasium.make("swm/TwoRoom-v1").unwrapped


def layout_of(env: Any) -> Layout:
    agent = env.variation_space["agent"]
    return Layout(
        wall="vertical" if env.wall_axis == 1 else "horizontal",
        thickness=env.wall_thickness,
        doors=tuple((float(c), float(s)) for c, s in zip(env.door_positions, env.door_sizes, strict=True)),
        radius=float(agent["radius"].value.item()),
        speed=float(agent["speed"].value.item()),
    )


def test_the_default_layout_is_theirs(env: Any) -> None:
    env.reset(seed=0)
    assert layout_of(env) == Layout()


def test_200_000_transitions_and_hundreds_of_frames_are_equal(env: Any) -> None:
    import torch

    rng, transitions = np.random.default_rng(0), 0
    for seed in range(100):
        env.reset(seed=seed, options={"variation": ("agent.position", *VARIED)} if seed else None)
        task = TwoRoom(layout_of(env))
        states = rng.uniform(14, 209, (2000, 2)).astype(np.float32)
        actions = rng.normal(0, 1.2, (2000, 2)).astype(np.float32)
        # What `step` does, without its observation and info, which take most of its time.
        speed = float(env.variation_space["agent"]["speed"].value.item())
        positions = torch.from_numpy(states)
        aims = positions + torch.from_numpy(actions).clamp(-1.0, 1.0) * speed
        theirs = torch.stack([env._apply_collisions(*pair) for pair in zip(positions, aims, strict=True)]).numpy()
        np.testing.assert_allclose(task.step(states, actions), theirs, atol=1e-4)
        transitions += len(states)
        for row in range(4):
            env._set_state(states[row])
            env.step(actions[row])
            np.testing.assert_allclose(env.agent_position.numpy(), theirs[row], atol=1e-4)
            difference = np.abs(env.render().astype(int) - task.render(theirs[row : row + 1])[0])
            assert difference.max() <= 1
    assert transitions == 200_000


def test_the_expert_is_theirs(env: Any) -> None:
    from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy

    expert, rng = ExpertPolicy(), np.random.default_rng(1)
    expert.set_env(env)
    for seed in range(20):
        env.reset(seed=seed, options={"variation": ("agent.position", *VARIED)} if seed else None)
        layout = layout_of(env)
        for _ in range(20):
            state, goal = rng.uniform(14, 209, (2, 2)).astype(np.float32)
            theirs = expert.get_action({"state": state, "goal_state": goal})
            np.testing.assert_allclose(expert_direction(layout, state[None], goal[None])[0], theirs, atol=1e-5)


def test_our_files_are_read_by_their_package(tmp_path: Path) -> None:
    import_stable_worldmodel()
    from stable_worldmodel.data.formats.hdf5 import HDF5Dataset

    task = TwoRoom()
    logs = task.generate_logs(episodes=5)
    write_logs(logs, tmp_path / "logs.h5", render=task.render)
    dataset = HDF5Dataset(path=tmp_path / "logs.h5", num_steps=2)
    episode = dataset.load_episode(3)
    rows = slice(int(logs.offsets[3]), int(logs.offsets[3] + logs.lengths[3]))
    np.testing.assert_array_equal(episode["state"].numpy(), logs.columns["state"][rows])
    np.testing.assert_array_equal(
        episode["pixels"].permute(0, 2, 3, 1).numpy(), task.render(logs.columns["state"][rows])
    )


def test_what_their_package_collects_is_read_by_us_and_replays_here(tmp_path: Path) -> None:
    import_stable_worldmodel()
    import stable_worldmodel
    from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about its own observations
        world = stable_worldmodel.World("swm/TwoRoom-v1", num_envs=2, image_shape=(64, 64), max_episode_steps=20)
        world.set_policy(ExpertPolicy(action_noise=2.0, seed=0))
        world.collect(tmp_path / "collected.h5", episodes=4, seed=0, format="hdf5", progress=False)
        world.close()
    logs, task = open_logs(tmp_path / "collected.h5"), TwoRoom()
    assert len(logs) == 4
    for number in range(4):
        episode = logs.episode(number)
        assert episode["step_idx"][0] == 1  # it drops the reset row
        after = task.step(episode["state"][:-1], episode["action"][:-1])
        np.testing.assert_allclose(after, episode["state"][1:], atol=1e-4)
