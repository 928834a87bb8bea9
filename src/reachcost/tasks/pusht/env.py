"""PushT as a Gymnasium environment."""

from __future__ import annotations

import numpy as np

from reachcost.tasks.episode_env import EpisodeEnv
from reachcost.tasks.pusht.policies import draw_start
from reachcost.tasks.pusht.renderer import SIZE
from reachcost.tasks.pusht.task import PushT


class PushTEnv(EpisodeEnv):
    """One PushT episode: pixels in, a relative target in [-1, 1]^2 out, reward 0, ended by success.

    `reset(options={"start": state, "goal": state})` fixes the pair, 7 numbers each; otherwise both are drawn at random.

    >>> import gymnasium, reachcost
    >>> observation, info = gymnasium.make("reachcost/PushT-v0").reset(seed=0)
    >>> observation.shape, sorted(info)
    ((224, 224, 3), ['distance', 'goal_state', 'state'])
    """

    def __init__(self, render_mode: str | None = None, pixels: int = SIZE) -> None:
        super().__init__(PushT(pixels), pixels, np.zeros(7), render_mode)

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Two states as an episode begins with."""
        return draw_start(self.np_random), draw_start(self.np_random)
