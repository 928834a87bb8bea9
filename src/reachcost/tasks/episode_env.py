"""One episode of a task that draws its states, as a Gymnasium environment: what those of all such worlds share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from reachcost.errors import ReachcostError
from reachcost.tasks.contract import Task


class EpisodeEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Pixels in, two numbers in [-1, 1] out, reward 0, ended by success.

    `reset(options={"start": state, "goal": state})` fixes the pair; otherwise `draw` does.

    Args:
        task: The world.
        pixels: Side of its frames.
        state: Any state of it [D], which tells size and kind of number.
        render_mode: `rgb_array` or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's interface)

    def __init__(self, task: Task, pixels: int, state: np.ndarray, render_mode: str | None) -> None:
        self.task, self.render_mode = task, render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(0, 255, (pixels, pixels, 3), np.uint8)
        self._state = self._goal = state[None]

    @abstractmethod
    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """A start and a goal [D], by `np_random`."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        ends = dict(zip(("start", "goal"), self.draw(), strict=True)) | (options or {})
        if wrong := sorted({*ends} - {"start", "goal"}):
            numbers = self._state.shape[1]
            raise ReachcostError(f"unknown reset options {wrong}: give start and goal, {numbers} numbers each")
        self._state, self._goal = (np.array([ends[name]], self._state.dtype) for name in ("start", "goal"))
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Execute one action."""
        self._state = self.task.step(self._state, np.asarray(action, np.float32)[None])
        reached = bool(self.task.success(self._state, self._goal)[0])
        return self._observation(), 0.0, reached, False, self._info()

    def render(self) -> np.ndarray | None:
        """Return the current frame."""
        return self._observation() if self.render_mode == "rgb_array" else None

    def _observation(self) -> np.ndarray:
        return self.task.render(self._state)[0]

    def _info(self) -> dict[str, Any]:
        return {
            "state": self._state[0].copy(),
            "goal_state": self._goal[0].copy(),
            "distance": float(self.task.distance(self._state, self._goal)[0]),
        }
