"""PushT as a task: a disc pushes a T in the plane; a goal is a pose of both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reachcost.data.evaluation import EvaluationSet, read_evaluation_set
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import Distance, PublicEnvironment, Task, frames_of_two_sizes, require_finite
from reachcost.tasks.gym import EpisodeEnv
from reachcost.tasks.pusht import physics, renderer
from reachcost.tasks.pusht.logs import (
    BUDGETS,
    FROZEN,
    NAMES,
    describe_logs,
    make_logs,
    proprio,
    sample_set,
    sample_start,
)

POSITION, ANGLE = 20.0, np.pi / 9  # maximum joint position error of agent and block, in pixels, and maximum angle


class PushT(Task):
    """The public manipulation task `swm/PushT-v1` with relative actions, batched.

    States are float64 [N, 7]: agent x, y; block x, y, angle in [0, 2 pi); agent velocity x, y. An action pulls the
    agent towards its position plus 100 times the action.

    Args:
        pixels: Side of the frames of `observe`.

    >>> task = PushT()
    >>> task.step(np.array([[100.0, 100, 300, 300, 0, 0, 0]]), np.array([[1.0, 0.0]]))[0, :4].round().tolist()
    [130.0, 100.0, 300.0, 300.0]
    """

    name = "pusht"
    action_budget = 50
    distance_unit = "px and degrees"
    action_dim = 2
    sets = NAMES
    models = tuple(f"{kind}-pusht-{seed}" for kind in ("lewm", "pldm") for seed in (3072, 3073, 3074))
    public = PublicEnvironment("swm/PushT-v1", renderer.SIZE)

    def __init__(self, pixels: int = renderer.SIZE) -> None:
        self.pixels = pixels

    def __repr__(self) -> str:
        return f"PushT(pixels={self.pixels})"

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: [N, 7], [N, 2] -> [N, 7]; actions are not clipped."""
        states, actions = np.asarray(states), np.asarray(actions)
        if states.shape[1:] != (7,) or actions.shape != (len(states), 2):
            raise ReachcostError(f"states are {states.shape} and actions {actions.shape}: give PushT [N, 7] and [N, 2]")
        require_finite("state", states)
        require_finite("action", actions)
        return physics.step(states.astype(np.float64), actions).astype(states.dtype)

    def render(self, states: np.ndarray, size: int | None = None) -> np.ndarray:
        """Render uint8 [N, size, size, 3], with the green T of the public frames and without the goal."""
        return renderer.render(states, self.pixels if size is None else size)

    def observe(self, states: np.ndarray) -> Observations:
        """The columns `state`, `proprio` [N, 4], `pixels` and `pixels_64` (for compact models), computed when read."""
        return frames_of_two_sizes(states, lambda: proprio(states), self.render)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """The paper's task-state distance [N]: positions of block and agent in pixels, and the angle in degrees."""
        return np.hypot(position_error(states, goals), np.degrees(angle_error(states, goals)))

    @property
    def further_distances(self) -> Mapping[str, Distance]:
        """The joint position error."""
        return {"position": position_error}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether agent and block are jointly within 20 px of their goals, and the angle within pi / 9."""
        return (position_error(states, goals) < POSITION) & (angle_error(states, goals) < ANGLE)

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """Agent x, y, block x, y, sine and cosine of the angle: [N, 6]."""
        states = np.asarray(states, np.float64)
        return np.concatenate([states[:, :4], np.sin(states[:, 4:5]), np.cos(states[:, 4:5])], axis=1)

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Episodes in which the block must be moved, and those in which only the agent must."""
        push = (_block_error(starts, goals) >= POSITION) | (angle_error(starts, goals) >= ANGLE)
        return {"agent alone": ~push, "block to move": push}

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Outcomes of episodes by their last state.

        `success`; `not_pushed` (the block had to move and did not); `turned_wrong` (the block is at its goal position,
        but off by pi / 9 or more); `agent_away` (the block is at its goal pose, the agent is not); `block_away`.
        """
        there = _block_error(states, goals) < POSITION
        turned = angle_error(states, goals) >= ANGLE
        still = (np.asarray(starts)[:, 2:5] == np.asarray(states)[:, 2:5]).all(1)
        conditions = [self.success(states, goals), still & ~(there & ~turned), there & turned, there]
        return np.select(conditions, ["success", "not_pushed", "turned_wrong", "agent_away"], "block_away")

    def sample_pair(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Start and goal [7], both at rest."""
        return sample_start(rng), sample_start(rng)

    def generate_logs(self, episodes: int = 8000, seed: int = 0) -> Logs:
        """Log the mixture of policies: 70 % scripted pusher, 15 % public weak policy, 15 % random actions.

        An episode starts with its reset row; `policy` is the index of its policy in `logs.KINDS`.
        """
        if episodes < 1:
            raise ReachcostError(f"cannot log {episodes} episodes: log at least one")
        return make_logs(seed, np.arange(episodes), observe=self.observe)

    def describe_logs(self, logs: Logs) -> Mapping[str, tuple[float, float | None]]:
        """Statistics of pushing and spread, each with the value of public expert logs, if known."""
        return {**super().describe_logs(logs), **describe_logs(logs)}

    def evaluation_set(self, name: str) -> EvaluationSet:
        """A set of held-out pairs, `offset-<25, 50 or 75>-<seed>`; `sets` are the published ones."""
        if name not in NAMES:
            return sample_set(name, self.world)
        budget = BUDGETS[int(name.split("-")[1])]
        return read_evaluation_set(FROZEN / f"{name}.json", np.float64, name=name, world=self.world, budget=budget)


def position_error(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Length of the joint error of agent and block position in four dimensions, pixels [N]."""
    return np.linalg.norm((np.asarray(states, np.float64) - goals)[..., :4], axis=-1)


def angle_error(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Smallest rotation between the block's angles, radians [N]."""
    return np.abs(((np.asarray(states, np.float64) - goals)[..., 4] + np.pi) % (2 * np.pi) - np.pi)


def _block_error(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return np.linalg.norm((np.asarray(states, np.float64) - goals)[..., 2:4], axis=-1)


class PushTEnv(EpisodeEnv):
    """One PushT episode as a Gymnasium environment: pixels in, a relative target in [-1, 1]^2 out, reward 0."""

    make_task = PushT
