"""TwoRoom logs: the public data policy, and the statistics of its logs next to the paper's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE, SUCCESS_DISTANCE, Layout

Step = Callable[[Layout, np.ndarray, np.ndarray], np.ndarray]
DOOR_REACHED = 10.5  # pixels from the centre of a door at which the policy turns to the goal
DOOR_FIT = 1.1  # least half-size of a usable door, in radii of the agent
PUBLIC_CACHE = {
    "episodes": 10_000,
    "observations": 632_749,
    "shortest episode": 2,
    "longest episode": 101,
    "median length": 67,
    "mean length": 63.3,
    "mean displacement, px": 5.92,
    "median displacement, px": 6.19,
    "steps below 0.1 px, %": 0.037,
}
"""Statistics of the public logs, as the paper gives them."""


def expert_direction(layout: Layout, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Unit direction [N, 2] to the next waypoint: the nearest fitting door until it is reached, then the goal."""
    waypoint = goals.astype(np.float32).copy()
    other_room = (states[:, layout.across] > CENTRE) != (goals[:, layout.across] > CENTRE)
    fitting = [centre for centre, half in layout.doors if half >= DOOR_FIT * layout.radius]
    if fitting:
        doors = np.empty((len(fitting), 2), np.float32)
        doors[:, layout.across], doors[:, layout.along] = CENTRE, fitting
        distance = np.linalg.norm(doors[None] - states[:, None], axis=-1)
        nearest = distance.argmin(1)
        detour = other_room & (distance.min(1) > DOOR_REACHED)
        waypoint[detour] = doors[nearest[detour]]
    else:
        waypoint[other_room, layout.across] = CENTRE
    direction = waypoint - states
    norm = np.linalg.norm(direction, axis=1, keepdims=True)
    return np.divide(direction, norm, out=np.zeros_like(direction), where=norm > 1e-8)


def sample_episode(layout: Layout, seed: int, episode: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start [2], goal [2] and standard normal noise [steps, 2] of an episode, from its own random stream."""
    rng = generator(seed, "tworoom-logs", episode)
    low, high = BORDER, SIZE - BORDER - 1
    zone = layout.half + layout.radius
    start = rng.uniform(low, high, 2)
    while abs(start[layout.across] - CENTRE) <= zone:
        start = rng.uniform(low, high, 2)
    return start, rng.uniform(low, high, 2), rng.standard_normal((steps, 2), np.float32)


def collect(
    layout: Layout, step: Step, episodes: int, seed: int, noise: float, steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Run the policy until success or for `steps` steps, all episodes at once.

    Returns states [E, steps + 1, 2], actions [E, steps, 2], goals [E, 2], and the executed steps of each episode [E].
    """
    sampled = [sample_episode(layout, seed, episode, steps) for episode in range(episodes)]
    start, goal = (np.array([part[k] for part in sampled], np.float32) for k in (0, 1))
    noises = np.stack([part[2] for part in sampled])
    states, actions = np.empty((episodes, steps + 1, 2), np.float32), np.zeros((episodes, steps, 2), np.float32)
    states[:, 0] = start
    executed = np.zeros(episodes, np.int64)
    running = np.arange(episodes)
    for t in range(steps):
        here, target = states[running, t], goal[running]
        action = expert_direction(layout, here, target) + np.float32(noise) * noises[running, t]
        actions[running, t] = np.clip(action, -1, 1)
        states[running, t + 1] = step(layout, here, actions[running, t])
        executed[running] += 1
        arrived = np.linalg.norm(states[running, t + 1] - target, axis=1) < SUCCESS_DISTANCE
        running = running[~arrived]
    return states, actions, goal, executed


def log_statistics(logs: Logs) -> dict[str, float]:
    """Lengths of episodes and displacements per step, under the names of `PUBLIC_CACHE`."""
    moved = np.linalg.norm(np.diff(logs.columns["state"].astype(np.float64), axis=0), axis=1)
    inside = np.ones(logs.rows - 1, bool)
    inside[logs.offsets[1:] - 1] = False  # from the last row of an episode to the first row of the next
    moved = moved[inside]
    return {
        "episodes": len(logs),
        "observations": logs.rows,
        "shortest episode": int(logs.lengths.min()),
        "longest episode": int(logs.lengths.max()),
        "median length": float(np.median(logs.lengths)),
        "mean length": float(logs.lengths.mean()),
        "mean displacement, px": float(moved.mean()),
        "median displacement, px": float(np.median(moved)),
        "steps below 0.1 px, %": float(100 * (moved < 0.1).mean()),
    }
