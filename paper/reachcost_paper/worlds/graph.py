"""Worlds of finitely many states, each a table of transitions: two halls, many rooms, and MiniGrid."""

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import gymnasium
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import KDTree

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost_paper.worlds.tasks import EPISODES, SEEDS, FeatureTask, evaluation, logs_until, require

Transitions = tuple[np.ndarray, np.ndarray]
"""States [N, D], and the number of the state after each action [N, A]."""


class GraphTask(FeatureTask):
    """A world of N states, integers [N, D], with A actions; `transitions` are numbers of the next states [N, A]."""

    distance_unit = "steps"
    far: ClassVar[int]
    """Minimum number of steps of an evaluation episode."""
    identifying: ClassVar[int]
    """Number of leading features that identify a state."""

    def __init__(self, nodes: np.ndarray, transitions: np.ndarray) -> None:
        self.nodes, self.transitions = nodes, transitions
        self._index = np.full(nodes.max(0) + 1, -1)
        self._index[tuple(nodes.T)] = np.arange(len(nodes))

    def index(self, states: np.ndarray) -> np.ndarray:
        """Number of each state: [N, D] -> [N]."""
        inside = np.all((states >= 0) & (states < self._index.shape), axis=1)
        found = np.where(inside, self._index[tuple(np.where(inside[:, None], states, 0).T)], -1)
        if (found < 0).any():
            wrong = states[found < 0][0].tolist()
            raise ReachcostError(f"{wrong} is not a state of {self.name}: use rows of its `nodes`")
        return found

    @cached_property
    def distances(self) -> np.ndarray:
        """Steps from each state to each other along the arrows, inf if there is no route [N, N]."""
        count, actions = self.transitions.shape
        arrows = (np.repeat(np.arange(count), actions), self.transitions.ravel())
        edges = csr_array((np.ones(count * actions, np.int8), arrows), shape=(count, count))
        return shortest_path(edges, unweighted=True).astype(np.float32)

    @cached_property
    def routes(self) -> np.ndarray:
        """First action of a shortest route from each state to each other [N, N]."""
        return self.distances[self.transitions].argmin(1)

    @cached_property
    def _places(self) -> KDTree:
        return KDTree(self.features(self.nodes)[:, : self.identifying])

    def place(self, features: np.ndarray) -> np.ndarray:
        return self.nodes[self._places.query(features[:, : self.identifying])[1]]

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return self.nodes[self.transitions[self.index(states), actions[:, 0]]]

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return (np.asarray(states) == goals).all(-1)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return self.distances[self.index(states), self.index(goals)]

    def generate_logs(self, episodes: int, seed: int = 0, steps: int = 150, noise: float = 0.1) -> Logs:
        """Walks from one state to another, until they arrive or time is up; a share `noise` of actions is random."""
        rng, (count, actions) = generator(seed, f"{self.name}-logs"), self.transitions.shape
        here = rng.integers(count, size=episodes)
        goal = (here + rng.integers(1, count, size=episodes)) % count
        states, taken = [here], []
        for _ in range(steps):
            stray = rng.random(episodes) < noise
            taken.append(np.where(stray, rng.integers(actions, size=episodes), self.routes[here, goal]))
            here = np.where(here == goal, here, self.transitions[here, taken[-1]])
            states.append(here)
        path = np.stack(states, axis=1)
        return logs_until(self, self.nodes[path], np.stack(taken, axis=1)[..., None], path == goal[:, None])

    def evaluation_set(self, name: str) -> EvaluationSet:
        pairs = np.argwhere((self.distances >= self.far) & np.isfinite(self.distances))
        chosen = pairs[generator(SEEDS[name], f"{self.name}-evaluation").permutation(len(pairs))[:EPISODES]]
        return evaluation(self, name, self.nodes[chosen[:, 0]], self.nodes[chosen[:, 1]])


MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])
"""Up, down, left and right."""
LEFT = 2


def moves_between(free: np.ndarray, barred: Callable[[np.ndarray], np.ndarray] | None = None) -> Transitions:
    """The free cells of a square grid, bool [x, y], and the number of the cell after each move [N, 4].

    A move into a wall stays; so do the moves that `barred` marks, bool [N, 4] for cells [N, 2].
    """
    nodes = np.argwhere(free)
    index = np.full(free.shape, -1)
    index[tuple(nodes.T)] = np.arange(len(nodes))
    after = nodes[:, None] + MOVES
    inside = np.all((after >= 0) & (after < len(free)), axis=-1)
    after = np.where(inside[..., None], after, nodes[:, None])
    stays = ~free[after[..., 0], after[..., 1]]
    if barred is not None:
        stays |= barred(nodes)
    after = np.where(stays[..., None], nodes[:, None], after)
    return nodes, index[after[..., 0], after[..., 1]]


class GridTask(GraphTask):
    """A world of cells (x, y) of a square grid; moves are up, down, left and right."""

    discrete_actions = len(MOVES)
    identifying = 2
    side: ClassVar[int]

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        return 2 * np.asarray(states, np.float64) / (self.side - 1) - 1


HALLS, WALL, GATE, DOOR = 19, 9, 15, 1
"""Side of the square of both halls, column of the wall between them, rows of its gate and of its door."""


class OneWay(GridTask):
    """Two halls with a gate that opens to the right only; the return path leads through a door at the other end."""

    name = "one-way"
    action_budget = 100
    far, side = 20, HALLS

    def __init__(self) -> None:
        free = np.ones((HALLS, HALLS), bool)
        free[WALL] = False
        free[WALL, [GATE, DOOR]] = True
        super().__init__(*moves_between(free, _back_through_gate))

    def features(self, states: np.ndarray) -> np.ndarray:
        return np.concatenate([self.coordinates(states), np.sign(np.asarray(states)[:, :1] - WALL)], axis=1)


def _back_through_gate(cells: np.ndarray) -> np.ndarray:
    x, y = cells.T
    at_gate = (y == GATE) & ((x == WALL) | (x == WALL + 1))
    return at_gate[:, None] & (np.arange(len(MOVES)) == LEFT)


def by_the_door(states: np.ndarray) -> np.ndarray:
    """Around the door of `OneWay`, the only route back."""
    x, y = np.asarray(states).T
    return (np.abs(x - WALL) <= 3) & (y <= DOOR + 3)


ACROSS, PITCH, LAYOUT = 5, 5, 9
"""Rooms per side, cells per room and wall, and the seed of the tree: of the first seeds, the one of longest routes."""
ROOMS = ACROSS * PITCH + 1
WALLPAPER = 2.0
"""Size of the features that identify a room."""
BUSIEST = (2, 2)


def room_cells() -> np.ndarray:
    """Free cells, bool [x, y]: rooms of 4 x 4, and a door for each step of a depth-first walk."""
    rng, free = generator(LAYOUT, "rooms"), np.zeros((ROOMS, ROOMS), bool)
    inside = np.arange(ROOMS) % PITCH != 0
    free[np.ix_(inside, inside)] = True
    trail, seen = [(0, 0)], {(0, 0)}
    while trail:
        here = np.array(trail[-1])
        moves = [move for move in MOVES if ((here + move >= 0) & (here + move < ACROSS)).all()]
        moves = [move for move in moves if tuple((here + move).tolist()) not in seen]
        if not moves:
            trail.pop()
            continue
        move = moves[rng.integers(len(moves))]
        door = here * PITCH + np.where(move == 0, rng.integers(1, PITCH), np.where(move > 0, PITCH, 0))
        free[tuple(door)] = True
        trail.append(tuple((here + move).tolist()))
        seen.add(trail[-1])
    return free


class Rooms(GridTask):
    """Twenty-five rooms whose doors make a tree: routes of more than 100 steps, most of them away from the goal."""

    name = "rooms"
    action_budget = 250
    far, side = 100, ROOMS

    def __init__(self) -> None:
        super().__init__(*moves_between(room_cells()))

    def features(self, states: np.ndarray) -> np.ndarray:
        rooms = np.minimum(np.asarray(states) // PITCH, ACROSS - 1) @ np.array([ACROSS, 1])
        return np.concatenate([self.coordinates(states), WALLPAPER * np.eye(ACROSS**2)[rooms]], axis=1)


def middle_room(states: np.ndarray) -> np.ndarray:
    """The room of `Rooms` that most long routes lead through."""
    return (np.asarray(states) // PITCH == BUSIEST).all(1)


DOORS = 0
"""Seed of the doors."""
HEADINGS, ACTIONS = 4, 3
CROSSING = 9
"""Row and column of the walls between the rooms."""
TURNED = 0.3
"""Size of the heading in a latent: three turns are about two cells, not a room."""


def make_environment() -> Any:
    """The real environment, with the doors of one seed."""
    require("minigrid", "heading")
    import_module("minigrid")  # registers its environments
    environment = gymnasium.make("MiniGrid-FourRooms-v0", max_steps=10**9).unwrapped
    environment.reset(seed=DOORS)
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
        angle = np.asarray(states)[:, 2:] * np.pi / 2
        return np.concatenate([2 * np.asarray(states)[:, :2] / self._side - 1, np.cos(angle), np.sin(angle)], axis=1)

    def features(self, states: np.ndarray) -> np.ndarray:
        read = self.coordinates(states)
        read[:, 2:] *= TURNED
        rooms = (np.asarray(states)[:, :2] > CROSSING) @ np.array([2, 1])
        return np.concatenate([read, np.eye(4)[rooms]], axis=1)


def doorways(states: np.ndarray) -> np.ndarray:
    """Cells in and next to the two walls between the rooms: every route from room to room crosses them."""
    x, y = np.asarray(states)[:, :2].T
    return (np.abs(x - CROSSING) <= 1) | (np.abs(y - CROSSING) <= 1)
