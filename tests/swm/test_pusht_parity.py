"""Our PushT against the real `stable-worldmodel` 0.1.1: the same states, similar frames."""

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from reachcost.swm.evaluation import import_stable_worldmodel
from reachcost.tasks.pusht import PushT
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, clearance, touches_walls
from reachcost.tasks.pusht.logs import KINDS, make_logs, weak
from reachcost_tools.bench.pusht_parity import rollout

TASK = PushT()
STEPS = 25
EXACT = 1e-3


@pytest.fixture(scope="module")
def env() -> Any:
    import_stable_worldmodel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make("swm/PushT-v1").unwrapped


def play(env: Any, episodes: int, act: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Any:
    """States [E, T + 1, 7] and actions [E, T, 2] of the real environment, from its own resets."""
    paths, taken = [], []
    for episode in range(episodes):
        rng = np.random.default_rng(episode)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observation, _ = env.reset(seed=episode)
        states, actions = [observation["state"]], []
        for _ in range(STEPS):
            actions.append(act(states[-1], rng))
            states.append(env.step(actions[-1])[0]["state"])
        paths.append(states)
        taken.append(actions)
    return np.array(paths), np.array(taken)


def off(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Largest error of any number of a state."""
    apart = np.abs(ours - theirs)
    apart[..., 4] = np.minimum(apart[..., 4], 2 * np.pi - apart[..., 4])
    return apart.max(-1)


def by_steps(paths: np.ndarray, actions: np.ndarray) -> np.ndarray:
    here = paths[:, 0]
    for t in range(STEPS):
        here = TASK.step(here, actions[:, t])
    return here


def uniform(state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, 2)


def theirs_weak(state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return weak(state[None], rng.uniform(-1, 1, (1, 2)))[0]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rollouts_agree_except_for_a_few_at_walls(env: Any, kind: Any) -> None:
    paths, actions = play(env, 150, lambda state, rng: theirs_weak(state, rng).astype(kind))
    ours = rollout(paths[:, 0], actions)
    exact = off(ours[:, -1], paths[:, -1]) < EXACT
    assert exact.mean() >= 0.98
    clear = ~touches_walls(paths[..., 2:5]).any(1) & (clearance(paths[:, 0, :2], paths[:, 0, 2:5]) > AGENT_RADIUS)
    assert clear.mean() > 0.6
    assert exact[clear].all()


def test_single_steps_agree_away_from_walls(env: Any) -> None:
    """A state does not hold what pymunk remembers of contacts with walls."""
    paths, actions = play(env, 150, uniform)
    clear = ~touches_walls(paths[..., 2:5]).any(1) & (clearance(paths[:, 0, :2], paths[:, 0, 2:5]) > AGENT_RADIUS)
    exact = off(by_steps(paths, actions), paths[:, -1]) < EXACT
    assert exact[clear].all()
    assert exact.mean() >= 0.93


def test_episodes_of_the_pusher_replay_in_the_public_environment(env: Any) -> None:
    """From rows of logs, as evaluation sets take them, with the actions logged after them: 25 steps, one by one."""
    logs = make_logs(0, np.arange(100), "parity", kinds=(KINDS.index("pusher"),))
    states, actions = logs.columns["state"], logs.columns["action"]
    rows = logs.offsets + np.random.default_rng(0).integers(0, 75, len(logs))
    ends = []
    for row in rows.tolist():
        before = states[row].copy()
        before[:2] -= 0.01 * before[5:]  # their `_set_state` lets a tick pass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env.reset(seed=0, options={"state": before, "goal_state": before})
        found = None
        for action in actions[row : row + STEPS]:
            found = env.step(action)[0]["state"]
        ends.append(found)
    exact = off(np.array(ends), states[rows + STEPS]) < EXACT
    assert exact.mean() >= 0.98


def test_frames_are_similar(env: Any) -> None:
    for seed in range(10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observation, _ = env.reset(seed=seed)
        theirs, ours = env.render().astype(int), TASK.render(observation["state"][None])[0].astype(int)
        assert np.abs(theirs - ours).mean() < 1
        assert (np.abs(theirs - ours).max(-1) > 60).mean() < 0.005


def test_success_agrees(env: Any) -> None:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env.reset(seed=0)
    goals = rng.uniform(0, 400, (500, 7))
    states = goals + rng.normal(0, 8, (500, 7))
    goals[:, 4], states[:, 4] = rng.uniform(0, 2 * np.pi, 500), 0
    states[:, 4] = (goals[:, 4] + rng.normal(0, 0.3, 500)) % (2 * np.pi)
    theirs = [bool(env.eval_state(goal, state)[0]) for goal, state in zip(goals, states, strict=True)]
    assert 100 < sum(theirs) < 400
    assert TASK.success(states, goals).tolist() == theirs
