"""TwoRoom as a Gymnasium environment."""

from __future__ import annotations

from typing import Literal

import numpy as np

from reachcost.tasks.episode_env import EpisodeEnv
from reachcost.tasks.tworoom.layout import SIZE, Layout
from reachcost.tasks.tworoom.policy import draw_episode
from reachcost.tasks.tworoom.task import TwoRoom


class TwoRoomEnv(EpisodeEnv):
    """One TwoRoom episode: pixels in, a velocity in [-1, 1]^2 out, reward 0, ended by success.

    `reset(options={"start": (x, y), "goal": (x, y)})` fixes the pair; otherwise it is drawn as for the public logs.

    >>> import gymnasium, reachcost
    >>> observation, info = gymnasium.make("reachcost/TwoRoom-v0").reset(seed=0)
    >>> observation.shape, sorted(info)
    ((224, 224, 3), ['distance', 'goal_state', 'state'])
    """

    def __init__(
        self,
        render_mode: str | None = None,
        layout: Layout | None = None,
        collision: Literal["endpoint", "swept"] = "endpoint",
        pixels: int = SIZE,
    ) -> None:
        world = TwoRoom(layout, collision, pixels)
        super().__init__(world, pixels, np.zeros(2, np.float32), render_mode)
        self._layout = world.layout

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and goal as the public logs have them."""
        start, goal, _ = draw_episode(self._layout, int(self.np_random.integers(2**31)), 0, 1)
        return start, goal
