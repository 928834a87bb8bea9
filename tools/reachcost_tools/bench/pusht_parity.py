"""How often PushT and `swm/PushT-v1` of stable-worldmodel agree after 25 steps, by policy, and where they diverge.

`python -m reachcost_tools.bench.pusht_parity` writes `results/benchmarks/pusht_parity.json`.
"""

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from reachcost.swm.evaluation import import_stable_worldmodel
from reachcost.tasks.pusht import PushT
from reachcost.tasks.pusht.geometry import touches_walls
from reachcost.tasks.pusht.logs import KINDS, make_logs, weak
from reachcost.tasks.pusht.physics import SECONDS, agent_path, push_by_pymunk
from reachcost_tools.bench.record import publish

EPISODES, STEPS, EXACT = 1000, 25, 1e-3
TASK = PushT()
Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]
POLICIES: dict[str, Draw] = {
    "weak policy": lambda state, rng: weak(state[None], rng.uniform(-1, 1, (1, 2)))[0],
    "uniform": lambda state, rng: rng.uniform(-1, 1, 2),
    "normal, 0.2": lambda state, rng: rng.normal(0, 0.2, 2),
}


def main() -> None:
    """Simulate, compare and print."""
    import_stable_worldmodel()
    warnings.simplefilter("ignore")
    env = gymnasium.make("swm/PushT-v1").unwrapped
    played = {f"{name}, from its resets": from_resets(env, draw) for name, draw in POLICIES.items()}
    played["pusher, from rows of our logs"] = from_logs(env)
    result = {name: compared(paths, actions) for name, (paths, actions) in played.items()}
    result["frames"] = compared_frames(env)
    for name, row in result.items():
        print(name, *(f"{key} {value}" for key, value in row.items()), sep="\n    ")
    publish("pusht_parity", result)


def compared_frames(env: Any) -> dict[str, float]:
    """Differences of 224 px frames, in grey levels of 255."""
    theirs, states = [], []
    for seed in range(100):
        states.append(env.reset(seed=seed)[0]["state"])
        theirs.append(env.render().astype(int))
    apart = np.abs(np.array(theirs) - TASK.render(np.array(states)))
    return {
        "mean absolute difference": round(float(apart.mean()), 2),
        "pixels off by more than 40": percent(apart.max(-1) > 40),
    }


def from_resets(env: Any, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """States [E, T + 1, 7] and actions [E, T, 2] of the public environment, from its resets."""
    paths, taken = np.empty((EPISODES, STEPS + 1, 7)), np.empty((EPISODES, STEPS, 2))
    for episode in range(EPISODES):
        rng = np.random.default_rng(episode)
        paths[episode, 0] = env.reset(seed=episode)[0]["state"]
        for t in range(STEPS):
            taken[episode, t] = draw(paths[episode, t], rng)
            paths[episode, t + 1] = env.step(taken[episode, t])[0]["state"]
    return paths, taken


def from_logs(env: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same from rows of the logs of our pusher with the logged actions, as in evaluation sets."""
    logs = make_logs(0, np.arange(EPISODES), "parity", kinds=(KINDS.index("pusher"),))
    rows = logs.offsets + np.random.default_rng(0).integers(0, 75, len(logs))
    windows = rows[:, None] + np.arange(STEPS)
    paths, taken = np.empty((EPISODES, STEPS + 1, 7)), logs.columns["action"][windows]
    for episode, row in enumerate(rows.tolist()):
        before = logs.columns["state"][row].copy()
        before[:2] -= 0.01 * before[5:]  # its reset simulates one tick
        found = env.reset(seed=0, options={"state": before, "goal_state": before})[0]["state"]
        paths[episode, 0] = found
        for t in range(STEPS):
            paths[episode, t + 1] = env.step(taken[episode, t])[0]["state"]
    return paths, taken


def compared(paths: np.ndarray, actions: np.ndarray) -> dict[str, float]:
    """Percentages of exact episodes, and median errors."""
    steps = [paths[:, 0]]
    for t in range(STEPS):
        steps.append(TASK.step(steps[-1], actions[:, t]))
    ours = {"rollout": rollout(paths[:, 0], actions), "step by step": np.stack(steps, axis=1)}
    off = {name: errors(found, paths) for name, found in ours.items()}
    walls = touches_walls(paths[..., 2:5]).any(1)
    pushed = np.abs(np.diff(paths[..., 2:5], axis=1)).max(-1) > 1e-9
    row = {"episodes": len(paths), "steps that move the block": percent(pushed), "episodes at a wall": percent(walls)}
    for name, error in off.items():
        exact = error[:, -1] < EXACT
        row[f"{name}, within 1e-3"] = percent(exact)
        row[f"{name}, within 1e-3 away from walls"] = percent(exact[~walls])
        row[f"{name}, median error"] = float(np.median(error[:, -1]))
    diverged = off["rollout"].max(1) >= EXACT
    row["rollout, parted at a wall"] = int((diverged & walls).sum())
    row["rollout, parted elsewhere"] = int((diverged & ~walls).sum())
    return row


def rollout(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Paths [N, T + 1, 7] of sequences [N, T, 2]; pymunk moves the T and keeps its memory of contacts between steps."""
    paths, moves = [states], [states[:, None, 5:]]
    starts, first = states[:, :2] - SECONDS * states[:, 5:], np.zeros(len(states), int)
    for t in range(actions.shape[1]):
        path, velocities = agent_path(paths[-1][:, :2], paths[-1][:, 5:], actions[:, t])
        moves.append(velocities)
        poses = push_by_pymunk(starts, states[:, 2:5], np.concatenate(moves, axis=1), first)
        poses[:, 2] %= 2 * np.pi
        paths.append(np.concatenate([path[:, -1], poses, velocities[:, -1]], axis=1))
    return np.stack(paths, axis=1)


def errors(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Maximum error of the numbers of a state."""
    apart = np.abs(ours - theirs)
    apart[..., 4] = np.minimum(apart[..., 4], 2 * np.pi - apart[..., 4])
    return apart.max(-1)


def percent(mask: Any) -> float:
    """Percentage of true values."""
    return round(100 * float(mask.mean()), 2)


if __name__ == "__main__":
    main()
