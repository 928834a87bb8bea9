"""Two halls with a gate that opens one way: who went through it must come back by a door at the other end."""

from __future__ import annotations

import numpy as np

from reachcost_paper.worlds.graph import GraphTask

SIDE, WALL, GATE, DOOR = 19, 9, 15, 1
MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])
LEFT = 2


class OneWay(GraphTask):
    """Moves are up, down, left and right; the gate lets right pass, the door everything. A state is a cell (x, y).

    >>> task, halls = OneWay(), np.array([[WALL - 1, GATE], [WALL + 1, GATE]])
    >>> task.distance(halls, halls[::-1]).tolist()
    [2.0, 30.0]
    """

    name = "one-way"
    action_budget = 100
    discrete_actions = len(MOVES)
    far, telling = 20, 2

    def __init__(self) -> None:
        free = np.ones((SIDE, SIDE), bool)
        free[WALL] = False
        free[WALL, [GATE, DOOR]] = True
        nodes = np.argwhere(free)
        index = np.full(free.shape, -1)
        index[tuple(nodes.T)] = np.arange(len(nodes))
        after = nodes[:, None] + MOVES
        inside = np.all((after >= 0) & (after < SIDE), axis=-1)
        after = np.where(inside[..., None], after, nodes[:, None])
        stays = ~free[after[..., 0], after[..., 1]]
        at_gate, beyond = ((nodes == (x, GATE)).all(1) for x in (WALL, WALL + 1))
        stays[at_gate | beyond, LEFT] = True
        after = np.where(stays[..., None], nodes[:, None], after)
        super().__init__(nodes, index[after[..., 0], after[..., 1]])

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """The cell, -1 to 1."""
        return 2 * np.asarray(states, np.float64) / (SIDE - 1) - 1

    def features(self, states: np.ndarray) -> np.ndarray:
        """The cell, and the colour of its hall."""
        return np.concatenate([self.coordinates(states), np.sign(np.asarray(states)[:, :1] - WALL)], axis=1)


def by_the_door(states: np.ndarray) -> np.ndarray:
    """Around the door, the only way back."""
    x, y = np.asarray(states).T
    return (np.abs(x - WALL) <= 3) & (y <= DOOR + 3)
