"""One episode under several costs, state by state: in the world, and in principal components that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.latent import LatentMSE
from reachcost.data.models import encode_rows
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import Setting
from reachcost.results.records import Columns, Run
from reachcost.results.tables import TableRow
from reachcost_paper.episode import EpisodeRun, visited

GOAL = "goal"
"""What the row of the goal says in place of a cost."""
COMPONENTS = ("pc_1", "pc_2")
METRICS = ("steps", "distance", "latent", *COMPONENTS)


@dataclass(frozen=True)
class TraceRun(RunSpec):
    """Where one episode goes under each cost, up to the goal; rows are states, the first one is the goal.

    Settings differ in their cost alone. Components are those of all latents in the rows. `latent` is the latent
    distance to the goal, `off_mean` the squared one to the mean of the rows.
    """

    kind: ClassVar[str] = "traces"
    settings: tuple[Setting, ...]
    episode: int

    def name(self, recording: Experiment) -> str:
        """Member, evaluation set and episode."""
        first = self.settings[0]
        return f"{first.member.label}-{recording.evaluation(first.evaluation).name}-episode{self.episode}"

    def needs(self, recording: Experiment) -> list[RunSpec]:
        """The episode under each cost."""
        return [EpisodeRun(setting, self.episode) for setting in self.settings]

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The states that were visited, and the model that encodes them."""
        first = self.settings[0]
        runs = {setting.cost: EpisodeRun(setting, self.episode) for setting in self.settings}
        visited_sha256 = {cost: recording.sha256(run, "rows.parquet") for cost, run in runs.items()}
        return {
            **recording.inputs(first.member.model),
            **recording.evaluation(first.evaluation).record,
            "episode": self.episode,
            "visited_sha256": visited_sha256,
        }

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Encode the states, and find the components."""
        first = self.settings[0]
        task, goals = recording.place(first.evaluation)
        goal = goals.goals[goals.episodes == self.episode]
        paths = {GOAL: goal}
        for setting in self.settings:
            path = visited(recording, setting, self.episode).astype(goal.dtype)
            reached = np.flatnonzero(task.success(path, np.repeat(goal, len(path), axis=0)))
            paths[setting.cost] = path[: reached[0] + 1] if len(reached) else path
        states = np.concatenate([*paths.values()])
        model = recording.model(first.member.model)
        latents, aim = (encode_rows(model, task.observe(some), len(some)) for some in (states, goal))
        deviation = latents - latents.mean(0)
        places, components = task.plane().places(states), (deviation @ principal_directions(latents)).numpy()
        return {
            "cost": np.repeat([*paths], [len(path) for path in paths.values()]),
            "step": np.concatenate([np.arange(len(path)) for path in paths.values()]),
            **{name: places[:, axis] for axis, name in enumerate(("x", "y"))},
            **{name: components[:, axis] for axis, name in enumerate(COMPONENTS)},
            "off_mean": deviation.square().sum(1).numpy(),
            "latent": LatentMSE()(latents[None], aim)[0].numpy(),
            "distance": task.distance(states, np.repeat(goal, len(states), axis=0)),
        }


def principal_directions(latents: Tensor, count: int = len(COMPONENTS)) -> Tensor:
    """Directions in which latents [N, D] vary most, one a column [D, count]; the largest entry of each is positive.

    >>> principal_directions(torch.tensor([[0.0, 3.0], [0.1, -3.0], [-0.1, 0.0]]), 1).round().abs().tolist()
    [[0.0], [1.0]]
    """
    found = torch.linalg.eigh(latents.double().T.cov()).eigenvectors.flip(1)[:, :count]
    largest = found.gather(0, found.abs().argmax(0, keepdim=True))
    return (found * largest.sign()).to(latents.dtype)


def trace_rows(run: Run, settings: Sequence[Setting], kind: str) -> list[TableRow]:
    """How the episode ends under each cost, and how much of the latents' variance the components hold."""
    table = run.table()
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    rows = []
    for setting in settings:
        *_, last = np.flatnonzero(columns["cost"] == setting.cost)
        ends = {"steps": "step", "distance": "distance", "latent": "latent"}
        ours = {metric: float(columns[name][last]) for metric, name in ends.items()}
        rows.append(TableRow(setting.cost, kind, int(ours["steps"]) + 1, ours, {}, None, setting.member.seed))
    shares = {name: 100 * float((columns[name] ** 2).mean() / columns["off_mean"].mean()) for name in COMPONENTS}
    return [*rows, TableRow("all states", kind, len(table), shares, {}, None, settings[0].member.seed)]
