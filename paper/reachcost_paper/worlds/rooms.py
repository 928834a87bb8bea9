"""Twenty-five rooms joined by doors to a tree: routes of more than a hundred steps, most of them away from the goal."""

from __future__ import annotations

import numpy as np

from reachcost.core.seeding import generator
from reachcost_paper.worlds.graph import GraphTask

ACROSS, PITCH = 5, 5
SIDE = ACROSS * PITCH + 1
MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])
WALLPAPER = 2.0
BUSIEST = (2, 2)
LAYOUT = 9
"""Of the first trees that chance makes, the one with the longest routes."""


def free_cells() -> np.ndarray:
    """Which cells are free, bool [x, y]: rooms of 4 x 4, and a door for each step of a depth-first walk."""
    rng, free = generator(LAYOUT, "rooms"), np.zeros((SIDE, SIDE), bool)
    inside = np.arange(SIDE) % PITCH != 0
    free[np.ix_(inside, inside)] = True
    trail, seen = [(0, 0)], {(0, 0)}
    while trail:
        here = np.array(trail[-1])
        ways = [move for move in MOVES if ((here + move >= 0) & (here + move < ACROSS)).all()]
        ways = [move for move in ways if tuple((here + move).tolist()) not in seen]
        if not ways:
            trail.pop()
            continue
        move = ways[rng.integers(len(ways))]
        door = here * PITCH + np.where(move == 0, rng.integers(1, PITCH), np.where(move > 0, PITCH, 0))
        free[tuple(door)] = True
        trail.append(tuple((here + move).tolist()))
        seen.add(trail[-1])
    return free


class Rooms(GraphTask):
    """Moves are up, down, left and right; a state is a cell (x, y).

    >>> task = Rooms()
    >>> len(task.nodes), int(task.distances.max()) > 100
    (424, True)
    """

    name = "rooms"
    action_budget = 250
    discrete_actions = len(MOVES)
    far, telling = 100, 2

    def __init__(self) -> None:
        free = free_cells()
        nodes = np.argwhere(free)
        index = np.full(free.shape, -1)
        index[tuple(nodes.T)] = np.arange(len(nodes))
        after = nodes[:, None] + MOVES
        after = np.where(free[after[..., 0], after[..., 1]][..., None], after, nodes[:, None])
        super().__init__(nodes, index[after[..., 0], after[..., 1]])

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """The cell, -1 to 1."""
        return 2 * np.asarray(states, np.float64) / (SIDE - 1) - 1

    def features(self, states: np.ndarray) -> np.ndarray:
        """The cell, and the wallpaper of its room, of a pattern of its own."""
        rooms = np.minimum(np.asarray(states) // PITCH, ACROSS - 1) @ np.array([ACROSS, 1])
        return np.concatenate([self.coordinates(states), WALLPAPER * np.eye(ACROSS**2)[rooms]], axis=1)


def middle(states: np.ndarray) -> np.ndarray:
    """The room that most long routes lead through."""
    return (np.asarray(states) // PITCH == BUSIEST).all(1)
