"""TopoNav: three rooms on a 29 x 29 grid, connected by two single-cell doors.

States are integer cells (x, y), y growing downwards. Actions are indices of stay, up, down, left, right.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.data.observations import LazyColumns
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import Plane, Task
from reachcost.tasks.gym import EpisodeEnv

SIZE = 29
WALLS = (9, 19)
DOORS = ((9, 4), (19, 24))
MOVES = np.array([(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)])
STAY = 0
CELL_PIXELS = 5
FREE, WALL, GOAL, AGENT = np.round(
    255 * np.array([(0.92, 0.92, 0.92), (0.08, 0.08, 0.08), (0.10, 0.75, 0.22), (0.10, 0.32, 0.95)])
).astype(np.uint8)
BASE_SEED = 608


def _cell_of(places: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(places), 0, SIZE - 1).astype(np.int64)


class TopoNav(Task):
    """The paper's grid world, with exact graph distances and shortest routes.

    >>> task = TopoNav()
    >>> len(task.cells), task.step(np.array([[1, 1]]), np.array([[4]])).tolist()
    (677, [[2, 1]])
    """

    name = "toponav"
    action_budget = 90
    distance_unit = "steps"
    stops_at_success = True
    discrete_actions = len(MOVES)
    sets = ("detour",)
    models = ("reachcost.tasks:ExactTopoNav",)

    def __init__(self) -> None:
        self.free = np.zeros((SIZE, SIZE), bool)  # [x, y]
        self.free[1:-1, 1:-1] = True
        self.free[list(WALLS), :] = False
        self.free[tuple(zip(*DOORS, strict=True))] = True
        self.cells = np.argwhere(self.free).astype(np.int64)  # [677, 2]
        self.numbers = np.full((SIZE, SIZE), -1)  # of the cell at [x, y]; -1 for walls
        self.numbers[tuple(self.cells.T)] = np.arange(len(self.cells))
        targets = self.numbers[tuple(np.moveaxis(self.cells[:, None] + MOVES, -1, 0))]
        self.transitions = np.where(targets < 0, targets[:, :1], targets)  # [677, 5] cell index after an action

    @property
    def world(self) -> str:
        """The only map."""
        return "TopoNav"

    def index(self, states: np.ndarray) -> np.ndarray:
        """Number of each cell among the 677 free cells: [N, 2] -> [N]."""
        states = np.asarray(states)
        x, y = np.clip(np.moveaxis(states, -1, 0), 0, SIZE - 1)  # the boundary of the map is solid
        index = self.numbers[x, y]
        if (index < 0).any():
            x, y = states[index < 0][0]
            raise ReachcostError(f"({x}, {y}) is not a free TopoNav cell: choose one of TopoNav().cells")
        return index

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action index per state; a move into a wall changes nothing."""
        if actions.size and (actions.min() < 0 or actions.max() >= len(MOVES)):
            given = f"{actions.min()} to {actions.max()}"
            raise ReachcostError(f"TopoNav actions are {given}: give 0 to 4 for stay, up, down, left, right")
        return self.cells[self.transitions[self.index(states), np.asarray(actions)[..., 0]]]

    def render(self, states: np.ndarray, goals: np.ndarray | None = None) -> np.ndarray:
        """Render uint8 [N, 145, 145, 3], with goals if given; the agent covers its goal."""
        grid = np.where(self.free.T[..., None], FREE, WALL)
        frames = np.repeat(grid[None], len(states), axis=0)
        rows = np.arange(len(states))
        for cells, colour in ((goals, GOAL), (states, AGENT)):
            if cells is not None:
                self.index(cells)
                frames[rows, cells[:, 1], cells[:, 0]] = colour
        return frames.repeat(CELL_PIXELS, axis=1).repeat(CELL_PIXELS, axis=2)

    def observe(self, states: np.ndarray) -> Observations:
        """The columns `state` and `pixels`; frames are rendered when read."""
        return LazyColumns({"state": states, "pixels": lambda: self.render(states)})

    @cached_property
    def distances(self) -> np.ndarray:
        """Exact graph distance between all free cells [677, 677]."""
        sources = np.repeat(np.arange(len(self.cells)), len(MOVES))
        edges = csr_array((np.ones(len(sources), np.int8), (sources, self.transitions.ravel())))
        return shortest_path(edges, unweighted=True).astype(np.int64)

    @cached_property
    def route_actions(self) -> np.ndarray:
        """First action of the shortest route for [goal, cell]: vertical before horizontal moves, stay at the goal."""
        after = self.distances[:, self.transitions]  # [goal, cell, action]
        shorter = after < self.distances[..., None]
        return np.where(shorter.any(-1), shorter.argmax(-1), STAY)

    def routes(self, states: np.ndarray, goals: np.ndarray, length: int) -> np.ndarray:
        """First `length` actions of each shortest route, padded with stay: [N, 2], [N, 2] -> [N, length]."""
        return self._walk(self.index(states), self.index(goals), length)[1]

    def _walk(self, here: np.ndarray, goal: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the cells on each shortest route, and the actions taken there: [N], [N] -> [N, length] twice."""
        cells, actions = np.empty((2, len(here), length), np.int64)
        for t in range(length):
            cells[:, t], actions[:, t] = here, self.route_actions[goal, here]
            here = self.transitions[here, actions[:, t]]
        return cells, actions

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Exact graph distance in steps [N]."""
        return self.distances[self.index(states), self.index(goals)]

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the agent stands on the exact goal cell."""
        return (np.asarray(states) == goals).all(-1)

    def room(self, states: np.ndarray) -> np.ndarray:
        """0, 1 or 2 from left to right; a door cell belongs to the room on its right."""
        return np.searchsorted(WALLS, np.asarray(states)[..., 0], side="right")

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """`success`, `wrong_room` or `right_room` (in the goal's room, not on the goal)."""
        in_room = np.where(self.room(states) == self.room(goals), "right_room", "wrong_room")
        return np.where(self.success(states, goals), "success", in_room)

    def plane(self) -> Plane:
        """The grid; a place belongs to the cell that contains it."""
        edge = (-0.5, -0.5), (SIZE - 0.5, SIZE - 0.5)
        return Plane(*edge, 1.0, np.asarray, _cell_of, lambda places: self.free[tuple(_cell_of(places).T)])

    def sample_pair(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Start and goal [2], two different cells."""
        return tuple(self.cells[rng.choice(len(self.cells), size=2, replace=False)])

    def generate_logs(self, episodes: int = 2500, seed: int = BASE_SEED) -> Logs:
        """Log shortest routes between uniformly sampled pairs of different free cells."""
        if episodes < 1:
            raise ReachcostError(f"cannot log {episodes} episodes: log at least one")
        rng = generator(seed, "toponav-logs")
        start = rng.integers(len(self.cells), size=episodes)
        goal = (start + rng.integers(1, len(self.cells), size=episodes)) % len(self.cells)
        lengths = self.distances[start, goal] + 1
        cells, actions = self._walk(start, goal, int(lengths.max()))
        logged = np.arange(actions.shape[1]) < lengths[:, None]
        columns = {"state": self.cells[cells[logged]], "action": actions[logged][:, None]}
        return Logs(columns, lengths, self.observe)

    def evaluation_set(self, name: str = "detour", seed: int = BASE_SEED, episodes: int = 120) -> EvaluationSet:
        """Pairs that need a detour by the paper's constraints; no two have the same ends, in either order."""
        if name != "detour":
            raise ReachcostError(f"TopoNav has no evaluation set {name!r}: choose 'detour'")
        apart = np.abs(self.cells[:, None] - self.cells[None]).astype(float)
        eligible = (
            (self.distances >= 18)
            & (self.distances >= 1.45 * np.hypot(apart[..., 0], apart[..., 1]))
            & (apart.sum(-1) >= 12)
        )
        unordered = np.argwhere(np.triu(eligible))
        if not 0 < episodes <= len(unordered):
            raise ReachcostError(f"{episodes} episodes cannot be sampled: choose 1 to {len(unordered)}")
        rng = generator(seed, "toponav-evaluation")
        chosen = unordered[rng.permutation(len(unordered))[:episodes]]
        chosen = rng.permuted(chosen, axis=1)
        starts, goals = self.cells[chosen[:, 0]], self.cells[chosen[:, 1]]
        return EvaluationSet(starts, goals, name, seed, world=self.world)


class TopoNavEnv(EpisodeEnv):
    """One TopoNav episode as a Gymnasium environment: pixels in, one of five actions out, reward -1 until the goal."""

    make_task = TopoNav
    step_reward = -1.0

    def _observation(self) -> np.ndarray:
        return self.task.render(self._state, self._goal)[0]
