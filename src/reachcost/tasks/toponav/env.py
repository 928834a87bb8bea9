"""TopoNav as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from reachcost.tasks.toponav.task import CELL_PIXELS, MOVES, SIZE, TopoNav


class TopoNavEnv(gymnasium.Env[np.ndarray, int]):
    """One TopoNav episode: pixels in, one of five actions out, reward -1 per step until the goal cell.

    `reset(options={"start": (x, y), "goal": (x, y)})` fixes the pair; otherwise two different cells are drawn.

    >>> import gymnasium, reachcost
    >>> observation, info = gymnasium.make("reachcost/TopoNav-v0").reset(seed=0)
    >>> observation.shape
    (145, 145, 3)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's interface)

    def __init__(self, render_mode: str | None = None) -> None:
        self.task = TopoNav()
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(MOVES))  # pyright: ignore[reportAttributeAccessIssue]
        self.observation_space = spaces.Box(0, 255, (SIZE * CELL_PIXELS, SIZE * CELL_PIXELS, 3), np.uint8)
        self._state = self._goal = self.task.cells[:1]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        pair = self.task.cells[self.np_random.choice(len(self.task.cells), size=2, replace=False)]
        options = options or {}
        self._state = np.array([options.get("start", pair[0])])
        self._goal = np.array([options.get("goal", pair[1])])
        return self._observation(), self._info()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Execute one action."""
        self._state = self.task.step(self._state, np.array([[action]]))
        reached = bool(self.task.success(self._state, self._goal)[0])
        return self._observation(), 0.0 if reached else -1.0, reached, False, self._info()

    def render(self) -> np.ndarray | None:
        """Return the current frame."""
        return self._observation() if self.render_mode == "rgb_array" else None

    def _observation(self) -> np.ndarray:
        return self.task.render(self._state, self._goal)[0]

    def _info(self) -> dict[str, Any]:
        return {
            "state": self._state[0].copy(),
            "goal_state": self._goal[0].copy(),
            "distance": int(self.task.distance(self._state, self._goal)[0]),
        }
