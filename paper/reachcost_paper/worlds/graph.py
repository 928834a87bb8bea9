"""Worlds of finitely many states: a table of transitions, and distances along its arrows."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import KDTree

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost_paper.worlds.sets import EPISODES, SEEDS, evaluation
from reachcost_paper.worlds.sight import Placed


class GraphTask(Placed):
    """A world of N states, each some whole numbers, with A actions; subclasses say which.

    Args:
        nodes: The states, int64 [N, D].
        transitions: Number of the state after each action [N, A].
    """

    stops_at_success = True
    distance_unit = "steps"
    sets = tuple(SEEDS)
    far: ClassVar[int]
    """Evaluation episodes are at least so many steps long."""
    telling: ClassVar[int]
    """So many features, the first ones, tell a state."""

    def __init__(self, nodes: np.ndarray, transitions: np.ndarray) -> None:
        self.nodes, self.transitions = nodes, transitions
        self._index = np.full(nodes.max(0) + 1, -1)
        self._index[tuple(nodes.T)] = np.arange(len(nodes))

    def index(self, states: np.ndarray) -> np.ndarray:
        """Number of each state: [N, D] -> [N]."""
        inside = np.all((states >= 0) & (states < self._index.shape), axis=1)
        found = np.where(inside, self._index[tuple(np.where(inside[:, None], states, 0).T)], -1)
        if (found < 0).any():
            raise ReachcostError(f"{states[found < 0][0].tolist()} is no state of {self.name}: see its `nodes`")
        return found

    @cached_property
    def distances(self) -> np.ndarray:
        """Steps from each state to each other along the arrows, inf where there is no way [N, N]."""
        count, actions = self.transitions.shape
        arrows = (np.repeat(np.arange(count), actions), self.transitions.ravel())
        edges = csr_array((np.ones(count * actions, np.int8), arrows), shape=(count, count))
        return shortest_path(edges, unweighted=True).astype(np.float32)

    @cached_property
    def routes(self) -> np.ndarray:
        """First action of a shortest way from each state to each other [N, N]."""
        return self.distances[self.transitions].argmin(1)

    @cached_property
    def _places(self) -> KDTree:
        return KDTree(self.features(self.nodes)[:, : self.telling])

    def place(self, features: np.ndarray) -> np.ndarray:
        """The states whose features are nearest."""
        return self.nodes[self._places.query(features[:, : self.telling])[1]]

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Follow the table."""
        return self.nodes[self.transitions[self.index(states), actions[:, 0]]]

    def observe(self, states: np.ndarray) -> Observations:
        """The state, as models here encode it."""
        return {"state": states}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the very state is reached."""
        return (np.asarray(states) == goals).all(-1)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Steps of the shortest way there."""
        return self.distances[self.index(states), self.index(goals)]

    def generate_logs(self, episodes: int, seed: int = 0, steps: int = 150, noise: float = 0.1) -> Logs:
        """Walkers from one place to another, a share of whose actions is random, until they arrive or time is up."""
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
        lengths = np.where((path == goal[:, None]).any(1), (path == goal[:, None]).argmax(1) + 1, steps + 1)
        logged = np.arange(steps + 1) < lengths[:, None]
        taken.append(taken[-1])  # the action of a last row is never taken
        columns = {"state": self.nodes[path[logged]], "action": np.stack(taken, axis=1)[logged][:, None]}
        return Logs(columns, lengths, self.observe)

    def evaluation_set(self, name: str) -> EvaluationSet:
        """Long ways, drawn evenly."""
        pairs = np.argwhere((self.distances >= self.far) & np.isfinite(self.distances))
        chosen = pairs[generator(SEEDS[name], f"{self.name}-evaluation").permutation(len(pairs))[:EPISODES]]
        return evaluation(self, name, self.nodes[chosen[:, 0]], self.nodes[chosen[:, 1]])
