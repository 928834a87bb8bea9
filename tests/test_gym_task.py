"""A task of any Gymnasium environment: steps, workers, logs and refused environments."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import reachcost as rc
from reachcost.errors import ReachcostError
from reachcost.tasks.contract import LOST
from reachcost.tasks.workers import Workers
from tests.processes import Desk

SIZE = 8.0


class Cart(gymnasium.Env[np.ndarray, np.ndarray]):
    """A cart on a rail: place and speed; the end of the rail terminates an episode."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (Gymnasium's interface)

    def __init__(self, render_mode: str | None = None, noise: float = 0.0) -> None:
        self.render_mode, self.noise = render_mode, noise
        self.action_space: spaces.Space[Any] = spaces.Box(-1, 1, (1,), np.float64)
        self.observation_space = spaces.Box(-SIZE, SIZE, (2,), np.float64)
        self.state = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(1, 3), 0.0])
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.state[1] = 0.9 * self.state[1] + 0.3 * action[0] + self.noise * self.np_random.normal()
        self.state[0] = np.clip(self.state[0] + self.state[1], 0, SIZE)  # in place, as many environments do
        return self.state, 0.0, bool(self.state[0] == SIZE), False, {}

    def render(self) -> np.ndarray:
        frame = np.zeros((4, int(SIZE) + 1, 3), np.uint8)
        frame[:, round(self.state[0])] = 255
        return frame


def get(env: Any) -> np.ndarray:
    return env.unwrapped.state


def put(env: Any, state: np.ndarray) -> None:
    env.unwrapped.state = state


RAIL = rc.tasks.Plane(
    (-SIZE, -1.0), (SIZE, 1.0), 0.5, lambda s: s * (1, 0), lambda p: p * (1, 0), lambda p: abs(p[:, 1]) < 0.5
)


def near(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return np.abs(states - goals)[:, 0] < 0.3


def apart(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return np.abs(states - goals)[:, 0]


def make(make_env: Callable[[], Any] = Cart, get_state: Any = get, set_state: Any = put, **options: Any) -> rc.GymTask:
    defaults: dict[str, Any] = {"success": near, "distance": apart, "budget": 20}
    return rc.GymTask(make_env, get_state, set_state, **{**defaults, **options})


@pytest.fixture(scope="module")
def task() -> rc.GymTask:
    return make(clip=True)


def test_steps_are_those_of_the_environment(task: rc.GymTask) -> None:
    logs = task.generate_logs(5)
    env, number = Cart(), 3
    episode = logs.episode(number)
    env.reset(seed=0)
    env.state = episode["state"][0].copy()
    for state, action in zip(episode["state"], episode["action"], strict=True):
        np.testing.assert_array_equal(env.state, state)
        env.step(action)
    assert episode["state"].dtype == np.float64
    assert task.name == task.world == "Cart"
    assert (task.action_budget, task.discrete_actions, task.action_dim) == (20, None, 1)


@pytest.mark.parametrize("workers", [2, 3])
def test_results_do_not_depend_on_the_number_of_workers(task: rc.GymTask, workers: int) -> None:
    several = make(clip=True, workers=workers)
    assert several.generate_logs(7, seed=3).fingerprint == task.generate_logs(7, seed=3).fingerprint
    assert several.evaluation_set("logged").fingerprint == task.evaluation_set("logged").fingerprint
    states, actions = np.random.default_rng(0).uniform(0, 3, (2, 11, 2))
    for count in (11, 2, 1, 0):
        moved = [world.step(states[:count], actions[:count, :1]) for world in (task, several)]
        np.testing.assert_array_equal(moved[0], moved[1])
        assert moved[1].shape == (count, 2)
    several.close()
    assert several.step(states, actions[:, :1]).shape == (11, 2)  # it starts again


def test_a_gymnasium_environment_keeps_the_contract_and_is_planned_in(task: rc.GymTask) -> None:
    assert {*rc.check_task(task)} == {"render", "coordinates", "groups", "category", "bottleneck", "plane", "handles"}
    goals, logs = task.evaluation_set("logged").spread(6), task.generate_logs(40)
    model = rc.tasks.ExactDynamics(task, rc.ActionBlocks.of(logs, 2))
    planner = rc.CEM(horizon=4, candidates=30, iterations=3, elites=5)
    runs = rc.control(task, model, {"oracle": rc.costs.OracleGeodesic(model)}, goals, planner)
    assert runs.success.mean() > 0.8
    found = rc.sasc(task, model, {"oracle": rc.costs.OracleGeodesic(model)}, goals)
    assert (found.rankings["oracle"].spearman > 0.999).all()


def test_discrete_actions_of_classic_control() -> None:
    balanced = make(
        lambda: gymnasium.make("CartPole-v1"),
        set_state=lambda env, state: env.unwrapped.__dict__.update(state=state, steps_beyond_terminated=None),
    )
    assert (balanced.name, balanced.discrete_actions, balanced.action_dim) == ("CartPole-v1", 2, None)
    rc.check_task(balanced)
    logs = balanced.generate_logs(30, length=60)
    assert len(set(logs.lengths.tolist())) > 1  # an episode ends where the pole has fallen, with that state
    fallen = logs.columns["state"][logs.offsets + logs.lengths - 1][logs.lengths < 60]
    assert (np.abs(fallen[:, 2]) > 0.2).all()
    assert logs.columns["action"].dtype == np.int64


def test_given_parts_are_offered() -> None:
    bare = make(distance=None, sets={})
    assert {*rc.check_task(bare)} == {*LOST} - {"generate_logs"}
    state = np.zeros((1, 2))
    for part, arguments in (("distance", (state, state)), ("render", (state,)), ("evaluation_set", ("far",))):
        with pytest.raises(ReachcostError, match=f"`{part}`"):
            getattr(bare, part)(*arguments)
    full = make(
        lambda: Cart("rgb_array"),
        coordinates=lambda states: states[:, :1],
        groups=lambda starts, goals: {"right": goals[:, 0] > starts[:, 0]},
        category=lambda starts, states, goals: np.where(near(states, goals), "success", "late"),
        bottleneck=lambda states: np.full(len(states), 2),
        plane=RAIL,
        sets={"near": 5, "ends": rc.EvaluationSet(np.zeros((2, 2)), np.array([[8.0, 0], [4.0, 0]]))},
        name="rail",
    )
    assert {*rc.check_task(full)} == {"handles"}  # an environment has one layout
    assert full.sets == ("near", "ends")
    assert full.evaluation_set("ends").world == full.name == "rail"
    assert full.evaluation_set("near").name == "near"


def test_frames_are_rendered_when_read() -> None:
    task = make(lambda: Cart("rgb_array"), workers=2)
    logs = task.generate_logs(2)
    assert sorted(logs.columns) == ["action", "state"]
    pixels = task.observe(logs.columns["state"][:5])["pixels"]
    assert pixels.shape == (5, 4, 9, 3)
    np.testing.assert_array_equal(logs.observations(slice(0, 5))["pixels"], pixels)
    own = make(observe=lambda states: {"speed": states[:, 1:]})
    assert sorted(own.observe(np.zeros((3, 2)))) == ["speed", "state"]


def test_logs_follow_a_policy() -> None:
    def home(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.clip(-states[:, :1] + rng.normal(0, 0.01, (len(states), 1)), -1, 1)

    task = make(policy=home, length=15)
    logs, again, other = (task.generate_logs(4, seed) for seed in (1, 1, 2))
    assert logs.lengths.tolist() == [15] * 4
    assert logs.fingerprint == again.fingerprint != other.fingerprint
    assert np.abs(task.generate_logs(4, length=30).columns["state"][29::30, 0]).max() < 1
    for episodes, length in ((0, 15), (1, 1)):
        with pytest.raises(ReachcostError, match=f"{episodes} episodes of {length} rows"):
            task.generate_logs(episodes, length=length)


class Slippery(Cart):
    """Reset samples how slippery the rail is, and the state does not hold it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        found = super().reset(seed=seed)
        self.slip = self.np_random.uniform(0.5, 1)
        return found

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return super().step(self.slip * action)


class Other(Cart):
    """A cart with another action space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        super().__init__()
        self.action_space = space


class Growing(Cart):
    """Frames of different sizes."""

    def render(self) -> np.ndarray:
        return np.zeros((4, 4 + round(10 * self.state[0]), 3), np.uint8)


class Different(Cart):
    """No two environments are equal."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Different.made += 1
        self.push = float(self.made)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return super().step(self.push * action)


def failing(*arguments: Any) -> Any:
    raise AttributeError("no such thing")


HALF = {"get_state": lambda env: env.state[:1], "set_state": lambda env, state: setattr(env, "state", state)}
SPEEDLESS = {"get_state": lambda env: env.state[:1], "set_state": lambda env, state: env.state.__setitem__(0, state[0])}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no environment": ({"make_env": failing}, r"make_env failed \(AttributeError: no such thing\)"),
    "another thing": ({"make_env": dict}, "make_env returned dict"),
    "many actions": ({"make_env": partial(Other, spaces.MultiDiscrete([2, 2]))}, "MultiDiscrete"),
    "unbounded actions": ({"make_env": partial(Other, spaces.Box(-np.inf, np.inf, (1,)))}, "bounded"),
    "cannot be set": ({"set_state": failing}, "set_state failed"),
    "is not set": ({"set_state": lambda env, state: None}, "set_state"),
    "cannot be read": ({"get_state": failing}, "get_state failed"),
    "a constant state": ({"get_state": lambda env: [1.0, 2.0]}, "step changes nothing"),
    "noise": ({"make_env": partial(Cart, noise=0.1)}, "noise"),
    "hidden speed": (SPEEDLESS, "an episode went on"),
    "half a state": (HALF, "step failed .*IndexError"),
    "hidden slip": ({"make_env": Slippery}, "an episode went on"),
    "different ones": ({"make_env": Different}, "two environments of make_env"),
    "frames that grow": ({"make_env": lambda: Growing("rgb_array")}, "render returned"),
    "success of one": ({"success": lambda s, g: True}, r"success returned bool \(\)"),
    "distance below zero": ({"distance": lambda s, g: (s - g)[:, 0]}, "non-negative"),
    "no budget": ({"budget": 0}, "budget of 0"),
    "set too far": ({"budget": 9, "sets": {"far": 10}}, "'far' is 10"),
    "set of words": ({"sets": {"far": "away"}}, "'far' is 'away'"),
}


@pytest.mark.parametrize(("options", "message"), BROKEN.values(), ids=BROKEN)
def test_unsuitable_environments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message) as error:
        make(**options)
    assert "\n" not in str(error.value)


STILL = np.zeros((3, 2))
WRONG: dict[str, tuple[Any, Any, str]] = {
    "wide states": (np.zeros((3, 4)), np.zeros((3, 1)), r"\[N, 2\]"),
    "wide actions": (STILL, STILL, r"\(3, 1\)"),
    "an action outside": (STILL, np.array([[0.0], [1.5], [0.0]]), "clip=True"),
    "an infinite action": (STILL, np.full((3, 1), np.nan), "finite"),
    "an unknown index": (STILL, np.array([[0], [3], [0]]), "CategoricalCEM"),
    "a broken index": (STILL, np.full((3, 1), 0.5), "CategoricalCEM"),
}


@pytest.mark.parametrize(("states", "actions", "message"), WRONG.values(), ids=WRONG)
def test_wrong_states_and_actions_are_refused(states: np.ndarray, actions: np.ndarray, message: str) -> None:
    discrete = message == "CategoricalCEM"
    with pytest.raises(ReachcostError, match=message):
        make(lambda: gymnasium.make("MountainCar-v0") if discrete else Cart()).step(states, actions)


def test_rounding_and_clipping_lead_to_the_nearest_action() -> None:
    task, ones = make(), np.ones((3, 1))
    np.testing.assert_array_equal(task.step(STILL, ones + 1e-7), task.step(STILL, ones))
    np.testing.assert_array_equal(make(clip=True).step(STILL, 7 * ones), task.step(STILL, ones))


class Mortal(Cart):
    """Kills its process at action 0, and fails at action -1."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if action[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if action[0] == -1:
            raise RuntimeError("off the rail")
        return super().step(action)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_dead_worker_is_reported_and_replaced() -> None:
    task, states = make(Mortal, workers=2), np.ones((4, 2))
    actions = np.full((4, 1), 0.5)
    moved = task.step(states, actions)
    for wrong, message in ((0, "exit code -9"), (-1, "off the rail")):
        actions[3] = wrong
        with pytest.raises(ReachcostError, match=message):
            task.step(states, actions)
        actions[3] = 0.5
        np.testing.assert_array_equal(task.step(states, actions), moved)


class Stubborn(Desk):
    """Ignores SIGTERM, as foreign code may."""

    def where(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _ = torch.ones(600, 600) @ torch.ones(600, 600)  # would wait for threads of its owner
        return super().where(rows)

    def sleep(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        time.sleep(600)
        return (rows,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_worker_uses_one_thread_and_is_killed_if_it_ignores_signals() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        _ = torch.ones(600, 600) @ torch.ones(600, 600)
        workers = Workers(Stubborn, 2, "desks")
        processes = {*workers.call("where", np.arange(2))[0].tolist()}
        interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            workers.call("sleep", np.arange(2))
    finally:
        torch.set_num_threads(threads)
    assert not any(map(alive, processes))


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_stay_until_their_owner_is_collected() -> None:
    workers = Workers(Desk, 2, "desks")
    (found,), (again,) = (workers.call("where", np.arange(5)) for _ in range(2))
    np.testing.assert_array_equal(found, again)
    processes = {*found.tolist()}
    assert len(processes - {os.getpid()}) == 2
    del workers
    gc.collect()
    assert not any(alive(process) for process in processes)
    assert Workers(Desk, 1, "desk").call("where", np.arange(2))[0].tolist() == [os.getpid()] * 2


PROGRAM = """
import os, signal, sys
import numpy as np
from reachcost.tasks.workers import Workers
from tests.processes import Desk
workers = Workers(Desk, 2, "desks")
print(*{*workers.call("where", np.arange(4))[0].tolist()}, flush=True)
if sys.argv[1:] == ["killed"]:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_workers_do_not_outlive_a_program(how: str) -> None:
    root = Path(__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, cwd=root, timeout=60)
    processes = [int(number) for number in run.stdout.split()]
    assert len(processes) == 2
    deadline = time.monotonic() + 5
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, processes))


def test_an_episode_does_not_depend_on_the_others() -> None:
    def policy(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(len(states), 1)) * rng.uniform(0, 0.1, (len(states), 1))

    task = make()
    for chosen in (None, policy):
        few, many = (task.generate_logs(count, policy=chosen, length=5).columns["action"] for count in (3, 70))
        assert np.array_equal(few, many[: len(few)])
