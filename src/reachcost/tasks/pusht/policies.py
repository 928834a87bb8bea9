"""The policies that PushT logs are made by: a scripted pusher, the public weak policy, and chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reachcost.core.seeding import generator
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, clearance, touches_walls
from reachcost.tasks.pusht.physics import ACTION_SCALE, step
from reachcost.tasks.pusht.pusher import SPOTS, Pushers

KINDS = ("pusher", "weak", "random")
SHARES = (0.7, 0.15, 0.15)
"""Of the episodes that each kind makes."""
POSES, CHOICES = 6, 32
PUSH_SPEED = (0.1, 0.3)
"""Length of the actions of a push."""
PUSH_NOISE = 0.05
WEAK_REACH = 100.0
"""Pixels from the T that the weak policy's targets keep to, as in the public one."""
AGENT_ROOM, BLOCK_ROOM, POSE_ROOM = (50.0, 450.0), (100.0, 400.0), (160.0, 352.0)
"""Where agent and T start, as in the public environment, and where the pusher takes the T."""


@dataclass(frozen=True)
class Plan:
    """Everything random about one episode, drawn from its own stream before it begins."""

    start: np.ndarray
    kind: int
    poses: np.ndarray
    whims: np.ndarray
    speeds: np.ndarray
    patience: np.ndarray
    noise: np.ndarray


def draw_plan(seed: int, purpose: str, episode: int, steps: int, kinds: Sequence[int] | None) -> Plan:
    """The plan of an episode; the same whatever the other episodes are."""
    rng = generator(seed, purpose, episode)
    start = draw_start(rng)
    kind = int(rng.choice(len(KINDS), p=SHARES) if kinds is None else rng.choice(kinds))
    poses = np.concatenate([rng.uniform(*POSE_ROOM, (POSES, 2)), rng.uniform(0, 2 * np.pi, (POSES, 1))], axis=1)
    return Plan(
        start,
        kind,
        poses,
        rng.uniform(0, 0.6, (CHOICES, len(SPOTS))),
        rng.uniform(*PUSH_SPEED, CHOICES),
        rng.integers(12, 30, CHOICES),
        rng.uniform(-1, 1, (steps, 2)),
    )


def draw_start(rng: np.random.Generator) -> np.ndarray:
    """A state at rest [7]: uniform as in the public environment, but with nothing inside of anything else."""
    while True:
        agent, block = rng.uniform(*AGENT_ROOM, 2), rng.uniform(*BLOCK_ROOM, 2)
        pose = np.append(block, rng.uniform(0, 2 * np.pi))
        if clearance(agent, pose) > AGENT_RADIUS and not touches_walls(pose):
            return np.concatenate([agent, pose, np.zeros(2)])


def collect(
    seed: int, episodes: np.ndarray, steps: int, purpose: str, kinds: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run the policies, all episodes at once.

    Args:
        seed: Of the logs.
        episodes: Their numbers [E].
        steps: Actions of each.
        purpose: Names the streams, so that training and evaluation share no episode.
        kinds: Which policies to take in equal parts; by default all of them, by their shares.

    Returns:
        States [E, steps + 1, 7], actions float32 [E, steps, 2] and kinds [E], indices of `KINDS`.
    """
    plans = [draw_plan(seed, purpose, episode, steps, kinds) for episode in episodes.tolist()]
    made_by = np.array([plan.kind for plan in plans])
    states, actions = np.empty((len(plans), steps + 1, 7)), np.empty((len(plans), steps, 2), np.float32)
    states[:, 0] = [plan.start for plan in plans]
    noise = np.stack([plan.noise for plan in plans])
    parts = ("poses", "whims", "speeds", "patience")
    pushers = Pushers(*(np.stack([getattr(plan, part) for plan in plans]) for part in parts))
    is_pusher, is_weak = ((made_by == kind)[:, None] for kind in (0, 1))
    for t in range(steps):
        here = states[:, t]
        pushed = pushers.act(here) + PUSH_NOISE * noise[:, t]
        wanted = np.select([is_pusher, is_weak], [pushed, weak(here, noise[:, t])], noise[:, t])
        actions[:, t] = within_window(here, np.clip(wanted, -1, 1))
        states[:, t + 1] = step(here, actions[:, t])
    return states, actions, made_by


def weak(states: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The public weak policy [N, 2]: a uniform target around the agent, moved to the square around the T."""
    agent, block = states[:, :2], states[:, 2:4]
    target = np.clip(agent + ACTION_SCALE * noise, block - WEAK_REACH, block + WEAK_REACH)
    return np.clip((target - agent) / ACTION_SCALE, -1, 1)


def within_window(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Actions [N, 2] whose targets lie in the window: nothing else would keep the agent there."""
    agent = states[:, :2]
    return np.clip((np.clip(agent + ACTION_SCALE * actions, 20, 492) - agent) / ACTION_SCALE, -1, 1)
