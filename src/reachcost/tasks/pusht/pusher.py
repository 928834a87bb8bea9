"""The scripted pusher: takes the T to one random pose after another, by pushes that its frictionless contact allows."""

from __future__ import annotations

import numpy as np

from reachcost.tasks.pusht.geometry import AGENT_RADIUS, CENTRE_OF_GRAVITY, OUTLINE, clearance, turned
from reachcost.tasks.pusht.physics import ACTION_SCALE

SPOTS_PER_EDGE = (5, 2, 2, 4, 2, 4, 2, 2)
GYRATION = 55.0
"""Pixels; sqrt of moment over mass, about: what a radian of error counts beside a pixel."""
STAND_OFF = 12.0
"""Pixels between agent and T where a push begins."""
AROUND = 112.0
"""Radius of the circle on which the agent goes round the T."""
ARRIVED = 8.0
WALK_SPEED = 0.34
"""Length of the longest action on the way to a push."""
LOST = 30.0
"""Pixels beside its line, or off the T, at which a push is given up."""
CLOSE = (12.0, 0.12)
"""Pixels and radians within which a pose counts as taken, and the next one is wanted."""


def _spots() -> tuple[np.ndarray, np.ndarray]:
    """Places on the outline to push at [S, 2], and the directions of the pushes [S, 2], in the T's frame."""
    places, inward = [], []
    for edge, count in enumerate(SPOTS_PER_EDGE):
        start, end = OUTLINE[edge], OUTLINE[(edge + 1) % len(OUTLINE)]
        along = (end - start) / np.linalg.norm(end - start)
        for share in (np.arange(count) + 0.5) / count:
            places.append(start + share * (end - start))
            inward.append((-along[1], along[0]))
    return np.array(places), np.array(inward)


SPOTS, INWARD = _spots()


class Pushers:
    """N pushers, each with its random numbers given beforehand.

    Args:
        poses: Poses (x, y, angle) that each takes the T to, one after the other [N, G, 3].
        whims: What is added to the worth of every spot, one row for each choice [N, C, S].
        speeds: Length of the action in each push [N, C].
        patience: Steps after which a push ends [N, C].
    """

    def __init__(self, poses: np.ndarray, whims: np.ndarray, speeds: np.ndarray, patience: np.ndarray) -> None:
        self._poses, self._whims, self._speeds, self._patience = poses, whims, speeds, patience
        count = len(poses)
        self._goal, self._choice = np.zeros(count, int), np.full(count, -1)
        self._spot, self._pushing, self._left = np.zeros(count, int), np.zeros(count, bool), np.zeros(count, int)
        self._all = np.arange(count)

    def act(self, states: np.ndarray) -> np.ndarray:
        """Actions [N, 2] in states [N, 7]."""
        self._want(states)
        self._choose(states)
        agent, pose = states[:, :2], states[:, 2:5]
        spot = pose[:, :2] + turned(SPOTS[self._spot], pose[:, 2])
        inward = turned(INWARD[self._spot], pose[:, 2])
        stand = spot - inward * (AGENT_RADIUS + STAND_OFF)
        arrived = np.linalg.norm(agent - stand, axis=1) < ARRIVED
        self._pushing |= arrived
        self._left -= 1
        speed = self._speeds[self._all, self._choice, None]
        sideways = (spot - agent) - inward * ((spot - agent) * inward).sum(1, keepdims=True)
        push = inward * speed + sideways / ACTION_SCALE
        walk = (self._way(agent, pose, stand) - agent) / ACTION_SCALE
        length = np.linalg.norm(walk, axis=1, keepdims=True)
        walk *= np.minimum(1, WALK_SPEED / np.maximum(length, 1e-9))
        return np.where(self._pushing[:, None], push, walk)

    def _want(self, states: np.ndarray) -> None:
        """Turn to the next pose once the present one is taken."""
        shift, turn = self._error(states)
        taken = (np.linalg.norm(shift, axis=1) < CLOSE[0]) & (np.abs(turn) < CLOSE[1])
        self._goal = np.minimum(self._goal + taken, self._poses.shape[1] - 1)

    def _error(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How the centre of gravity [N, 2] and the angle [N] must still change."""
        pose, wanted = states[:, 2:5], self._poses[self._all, self._goal]
        here, there = (part[:, :2] + turned(CENTRE_OF_GRAVITY, part[:, 2]) for part in (pose, wanted))
        return there - here, (wanted[:, 2] - pose[:, 2] + np.pi) % (2 * np.pi) - np.pi

    def _worth(self, states: np.ndarray) -> np.ndarray:
        """Cosine between what a push at each spot does and what is wanted [N, S]."""
        shift, turn = self._error(states)
        wanted = np.concatenate([shift, GYRATION * turn[:, None]], axis=1)
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True) + 1e-9
        arms = SPOTS - CENTRE_OF_GRAVITY
        torque = arms[:, 0] * INWARD[:, 1] - arms[:, 1] * INWARD[:, 0]
        inward = turned(INWARD[None], states[:, 4:5])
        does = np.concatenate([inward, np.broadcast_to(torque[:, None] / GYRATION, (*inward.shape[:2], 1))], axis=2)
        does /= np.linalg.norm(does, axis=2, keepdims=True)
        return (does[..., 0] * wanted[:, None, 0]) + (does[..., 1] * wanted[:, None, 1]) + does[..., 2] * wanted[:, 2:]

    def _choose(self, states: np.ndarray) -> None:
        """Choose a new spot where a push is over: too long, off its line, or no longer of use."""
        worth = self._worth(states)
        pose = states[:, 2:5]
        off = clearance(states[:, :2], pose) > AGENT_RADIUS + LOST
        over = (self._left <= 0) | (self._pushing & (off | (worth[self._all, self._spot] < 0)))
        self._choice = np.where(over, self._choice + 1, self._choice) % self._whims.shape[1]
        best = (worth + self._whims[self._all, self._choice]).argmax(1)
        self._spot = np.where(over, best, self._spot)
        self._left = np.where(over, self._patience[self._all, self._choice], self._left)
        self._pushing &= ~over

    def _way(self, agent: np.ndarray, pose: np.ndarray, stand: np.ndarray) -> np.ndarray:
        """The next point to walk to [N, 2]: round the T while the stand lies behind it."""
        middle = pose[:, :2] + turned(np.array([0.0, 55.0]), pose[:, 2])
        here, there = agent - middle, stand - middle
        bearing, wanted = (np.arctan2(way[:, 1], way[:, 0]) for way in (here, there))
        behind = (wanted - bearing + np.pi) % (2 * np.pi) - np.pi
        turn = bearing + np.clip(behind, -0.5, 0.5)
        circle = middle + AROUND * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        return np.where((np.abs(behind) > 0.35)[:, None], circle, stand)
