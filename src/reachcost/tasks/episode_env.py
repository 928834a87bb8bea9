"""One episode of a task as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from reachcost.errors import ReachcostError
from reachcost.tasks.contract import Task


class EpisodeEnv(gymnasium.Env[np.ndarray, Any]):
    """Pixels in, an action of the task out; an episode ends at success.

    `reset(options={"start": state, "goal": state})` sets the pair; by default `sample` returns it. Continuous actions
    are in [-1, 1].
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's interface)
    step_reward = 0.0  # of a step that does not reach the goal; a step that does has reward 0

    def __init__(self, task: Task, sample: Callable[[Any], tuple[np.ndarray, ...]], render_mode: str | None) -> None:
        self.task, self._sample, self.render_mode = task, sample, render_mode
        self.action_space: spaces.Space[Any] = (
            spaces.Box(-1.0, 1.0, (task.action_dim or 1,), np.float32)
            if task.discrete_actions is None
            else spaces.Discrete(task.discrete_actions)
        )
        self._state, self._goal = (state[None] for state in sample(np.random.default_rng(0)))
        self.observation_space = spaces.Box(0, 255, self._observation().shape, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        ends = dict(zip(("start", "goal"), self._sample(self.np_random), strict=True)) | (options or {})
        if wrong := sorted({*ends} - {"start", "goal"}):
            numbers = self._state.shape[1]
            raise ReachcostError(f"unknown reset options {wrong}: give start and goal, {numbers} numbers each")
        self._state, self._goal = (np.array([ends[name]], self._state.dtype) for name in ("start", "goal"))
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Execute one action."""
        self._state = self.task.step(self._state, np.asarray(action, self.action_space.dtype).reshape(1, -1))
        reached = bool(self.task.success(self._state, self._goal)[0])
        return self._observation(), 0.0 if reached else self.step_reward, reached, False, self._info()

    def render(self) -> np.ndarray | None:
        """The current frame, if `render_mode` is `rgb_array`."""
        return self._observation() if self.render_mode == "rgb_array" else None

    def _observation(self) -> np.ndarray:
        return self.task.render(self._state)[0]

    def _info(self) -> dict[str, Any]:
        return {
            "state": self._state[0].copy(),
            "goal_state": self._goal[0].copy(),
            "distance": self.task.distance(self._state, self._goal)[0].item(),
        }
