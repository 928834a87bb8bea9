"""Small made-up parts of reports: nothing is planned or trained here."""

from typing import Any

import numpy as np
import torch

import reachcost as rc
from reachcost.planning.control import ControlRuns
from reachcost.results.tables import ResultTable, TableRow

COSTS: dict[str, Any] = {
    "raw": rc.LatentMSE(),
    "head": lambda terminal, goal: (terminal - goal[:, None]).abs().sum(-1),
}


def straight_runs(task: rc.Task, evaluation: rc.EvaluationSet, costs: tuple[str, ...] = ("raw", "head")) -> ControlRuns:
    """Straight paths: the first cost stops half-way except in the last episode, the others reach the goal."""
    count, steps = len(evaluation), 6
    far = np.ones((len(costs), count))
    far[0, :-1] = 0.5
    part = far[..., None] * np.linspace(0, 1, steps + 1)
    start, goal = (states[:, None].astype(float) for states in (evaluation.starts, evaluation.goals))
    paths = (start + part[..., None] * (goal - start)).astype(evaluation.starts.dtype)
    success = far == 1
    names = np.where(success, "success", np.where(np.arange(count) % 2, "stuck", "wrong_room"))
    left = np.array([task.distance(ends, evaluation.goals) for ends in paths[:, :, -1]])
    return ControlRuns(
        costs, evaluation.episodes, success, np.full(far.shape, steps), left, names, paths, evaluation.goals
    )


def made_table(cost: str = "head", name: str = "made", note: str = "Only `cost` differs.") -> ResultTable:
    """Success of latent distance, another cost, oracle and random."""
    shares = {"raw": 25.0, cost: 100.0, "oracle": 100.0, "random": 0.0}
    rows = [
        TableRow(one, "lewm", 4, {"success": value}, {"success": [value * 0.9, value]}, {"success": 7.0})
        for one, value in shares.items()
    ]
    return ResultTable(name, note, ("success",), rows, {"command": "reachcost reproduce made"})


class Ring(rc.Task):
    """A custom world with frames only: no plane, no distance, no categories."""

    name = "ring"
    action_budget = 6
    places = 40

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return (states + np.sign(actions)) % self.places

    def observe(self, states: np.ndarray) -> dict[str, np.ndarray]:
        angle = states[:, 0] * 2 * np.pi / self.places
        pixels = np.zeros((len(states), 24, 24, 3), np.uint8)
        pixels[np.arange(len(states)), (12 + 9 * np.sin(angle)).astype(int), (12 + 9 * np.cos(angle)).astype(int)] = 255
        return {"state": states, "pixels": pixels}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return (states == goals).all(1)


def ring_latents(ring: Ring, episodes: int = 60) -> rc.Latents:
    """Logged paths around the ring, with frames only."""
    rng = np.random.default_rng(0)
    first, way = rng.integers(ring.places, size=(episodes, 1)), rng.choice([-1, 1], (episodes, 1))
    states = ((first + way * np.arange(20)) % ring.places).reshape(-1, 1).astype(float)
    angle = torch.as_tensor(states[:, 0] * 2 * np.pi / ring.places)
    values = torch.stack([angle.cos(), angle.sin()], dim=1).float()
    return rc.Latents(values, rc.Logs({"pixels": ring.observe(states)["pixels"]}, np.full(episodes, 20)))


def ring_runs(ring: Ring, episodes: int = 3) -> ControlRuns:
    """Paths on the ring that stop before their goals."""
    paths = np.arange(7.0)[None, None, :, None] + np.arange(episodes)[None, :, None, None] + np.zeros((2, 1, 1, 1))
    goals = paths[0, :, -1] + 2
    nowhere = np.full((2, episodes), np.nan)
    missed, names = np.zeros((2, episodes), bool), np.full((2, episodes), "not_reached")
    return ControlRuns(
        ("raw", "head"), np.arange(episodes), missed, np.full((2, episodes), 6), nowhere, names, paths, goals
    )
