"""MiniGrid's four rooms: a heading, three discrete actions, and a transition table of the real environment."""

from importlib import import_module
from typing import Any

import gymnasium
import numpy as np

from reachcost_paper.worlds.graph import GraphTask
from reachcost_paper.worlds.tasks import require

LAYOUT = 0
"""Seed of the doors."""
HEADINGS, ACTIONS = 4, 3
WALL = 9
"""Row and column of the walls between the rooms."""
TURNED = 0.3
"""Size of the heading in a latent: three turns are about two cells, not a room."""


def make_environment() -> Any:
    """The real environment, with the doors of one seed."""
    require("minigrid", "heading")
    import_module("minigrid")  # registers its environments
    environment = gymnasium.make("MiniGrid-FourRooms-v0", max_steps=10**9).unwrapped
    environment.reset(seed=LAYOUT)
    return environment


def tabulate_environment(environment: Any) -> tuple[np.ndarray, np.ndarray]:
    """Execute every action in every state: states (x, y, heading) [N, 3], number of the next state [N, 3]."""
    cells = [
        (x, y)
        for x in range(environment.width)
        for y in range(environment.height)
        if (found := environment.grid.get(x, y)) is None or found.can_overlap()
    ]
    nodes = [(*cell, heading) for cell in cells for heading in range(HEADINGS)]
    number, after = {node: index for index, node in enumerate(nodes)}, np.empty((len(nodes), ACTIONS), np.int64)
    for row, (x, y, heading) in enumerate(nodes):
        for action in range(ACTIONS):
            environment.agent_pos, environment.agent_dir = (x, y), heading
            environment.step(action)
            x_after, y_after = (int(place) for place in environment.agent_pos)
            after[row, action] = number[x_after, y_after, int(environment.agent_dir)]
    return np.array(nodes), after


class Heading(GraphTask):
    """Actions are turn left, turn right and go forward, as MiniGrid counts them."""

    name = "heading"
    action_budget = 100
    discrete_actions = ACTIONS
    far, identifying = 20, 4

    def __init__(self) -> None:
        environment = make_environment()
        self._side = environment.width - 1
        super().__init__(*tabulate_environment(environment))

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """The cell, -1 to 1, and cosine and sine of the heading."""
        angle = np.asarray(states)[:, 2:] * np.pi / 2
        return np.concatenate([2 * np.asarray(states)[:, :2] / self._side - 1, np.cos(angle), np.sin(angle)], axis=1)

    def features(self, states: np.ndarray) -> np.ndarray:
        """The coordinates, less of the heading than of the cell, and the colour of the room."""
        read = self.coordinates(states)
        read[:, 2:] *= TURNED
        rooms = (np.asarray(states)[:, :2] > WALL) @ np.array([2, 1])
        return np.concatenate([read, np.eye(4)[rooms]], axis=1)


def doorways(states: np.ndarray) -> np.ndarray:
    """Cells in and next to the two walls between the rooms: every route from room to room crosses them."""
    x, y = np.asarray(states)[:, :2].T
    return (np.abs(x - WALL) <= 1) | (np.abs(y - WALL) <= 1)
