"""A custom world in one file: a corridor with a locked door, whose key is at the other end.

A state is (place, whether the key was found). An agent with a goal beyond the door must turn back first. The key is
never lost, so that some paths lead in one direction only.
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.study import HeadPlan, Member, PoolPlan, Study
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.heads.recipe import Recipe
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.protocols import Observations
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task
from reachcost.tasks.exact import ExactDynamics
from reachcost_paper.rows import audit_cell, audit_row, difference_row

DOOR, LAST = 10, 16


class Corridor(Task):
    """Moves are back, stay and forward; the key is at place 0, the door behind place 10."""

    name = "corridor"
    action_budget = 40
    stops_at_success = True
    discrete_actions = 3
    sets = ("beyond",)

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        place, key = states.T
        place = np.clip(place + actions[:, 0] - 1, 0, np.where(key, LAST, DOOR))
        return np.stack([place, key | (place == 0)], axis=1)

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return (states == goals).all(1)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        straight, by_the_key = np.abs(states[:, 0] - goals[:, 0]), states[:, 0] + goals[:, 0]
        found = goals[:, 1] - states[:, 1]  # -1: the key would have to be lost
        return np.choose(found + 1, [np.full(len(states), np.inf), straight, by_the_key])

    def generate_logs(self, episodes: int, seed: int = 0) -> Logs:
        """Random walks that keep their direction for a while."""
        rng, states, actions = generator(seed, "corridor"), [], []
        here = np.stack([rng.integers(1, DOOR + 1, episodes), np.zeros(episodes, int)], axis=1)
        forward = rng.integers(2, size=episodes)
        for _ in range(self.action_budget):
            forward = np.where(rng.random(episodes) < 0.03, 1 - forward, forward)
            states, actions = [*states, here], [*actions, 2 * forward[:, None]]
            here = self.step(here, actions[-1])
        columns = {"state": np.stack(states, 1).reshape(-1, 2), "action": np.stack(actions, 1).reshape(-1, 1)}
        return Logs(columns, np.full(episodes, self.action_budget), self.observe)

    def evaluation_set(self, name: str = "beyond") -> EvaluationSet:
        """From before the door to behind it."""
        starts, goals = (ends.ravel() for ends in np.meshgrid(np.arange(3, DOOR + 1), np.arange(DOOR + 2, LAST + 1, 2)))
        pairs = [np.stack([ends, np.full(len(ends), key)], axis=1) for ends, key in ((starts, 0), (goals, 1))]
        return EvaluationSet(pairs[0], pairs[1], name, world=self.world)


class Sketch(ExactDynamics):
    """Exact dynamics whose latents give the key a small weight."""

    SIZE: ClassVar[Tensor] = torch.tensor([LAST, 4.0])

    def encode(self, observations: Observations) -> Tensor:
        return super().encode(observations) / self.SIZE

    def states(self, latents: Tensor) -> np.ndarray:
        return super().states((latents * self.SIZE).round())

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        return super().rollout(context, actions) / self.SIZE


PLANNER = CategoricalCEM(actions=3, horizon=8, candidates=64, iterations=3, elites=8, tie_break=1e-3)
RECIPE = Recipe(hidden=64, learning_rate=1e-2, epochs=6)
METRICS = ("success", "rho_geo", "rank", "distance")
REPAIR = HeadPlan(RECIPE, pairs=12_000, validation=1_000)
MEMBERS = (Member("sketch", 1, "sketch-1"), Member("sketch", 2, "sketch-2"))


LINES = [RowPlan("sketch", cost) for cost in ("raw", "trm", "oracle", "random")]


def keys_runs(experiment: Experiment) -> list[Cell]:
    return [*row_runs(experiment, LINES, METRICS), audit_cell(experiment, LINES[1])]


def keys_rows(experiment: Experiment) -> list[TableRow]:
    raw, repaired, *_ = LINES
    return [
        *(table_row(experiment, line, METRICS) for line in LINES),
        difference_row(experiment, repaired, raw),
        audit_row(experiment, repaired),
    ]


KEYS = TableRows(keys_runs, keys_rows)
STUDY = Study(
    name="corridor",
    protocol=1,
    task=Corridor,
    logs={"episodes": 400, "seed": 0},
    models={"sketch": lambda task, clamp: Sketch(task)},
    members={"sketch": MEMBERS},
    planner=PLANNER,
    pools=PoolPlan(PLANNER.candidates, PLANNER.horizon),
    evaluation="beyond",
    tables={"keys": TablePlan("Who turns back for the key?", (*METRICS, "p_value", "execution"), KEYS)},
    heads={"trm": REPAIR},
)
