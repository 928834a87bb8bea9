"""PushT as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.policies import draw_start
from reachcost.tasks.pusht.renderer import SIZE
from reachcost.tasks.pusht.task import PushT


class PushTEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One PushT episode: pixels in, a relative target in [-1, 1]^2 out, reward 0, ended by success.

    `reset(options={"start": state, "goal": state})` fixes the pair, 7 numbers each; otherwise both are drawn at random.

    >>> import gymnasium, reachcost
    >>> observation, info = gymnasium.make("reachcost/PushT-v0").reset(seed=0)
    >>> observation.shape, sorted(info)
    ((224, 224, 3), ['distance', 'goal_state', 'state'])
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's interface)

    def __init__(self, render_mode: str | None = None, pixels: int = SIZE) -> None:
        self.task = PushT(pixels)
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(0, 255, (pixels, pixels, 3), np.uint8)
        self._state = self._goal = np.zeros((1, 7))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        start, goal = draw_start(self.np_random), draw_start(self.np_random)
        options = options or {}
        if set(options) - {"start", "goal"}:
            raise ReachcostError(f"unknown reset options {sorted(options)}: give start and goal, 7 numbers each")
        self._state = np.array([options.get("start", start)], np.float64)
        self._goal = np.array([options.get("goal", goal)], np.float64)
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
