"""The paper's representative trace: one episode under two costs, in the world and in shared principal components."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from reachcost.costs.latent import LatentMSE
from reachcost.data.models import encode_rows
from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import ControlRun, outcomes
from reachcost.experiments.study import Setting
from reachcost.experiments.tables import TableRows
from reachcost.results.records import Columns
from reachcost.results.tables import TableRow
from reachcost_paper.rows import EpisodeRun, visited
from reachcost_paper.tworoom.settings import LEWM

SETTINGS = tuple(Setting(LEWM[0], cost) for cost in ("raw", "trm-paper"))
GOAL = "goal"
"""Value of the column `cost` in the row of the goal."""
COMPONENTS = ("pc_1", "pc_2")
ENDS = {"steps": "step", "distance": "distance", "latent": "latent"}
"""Metrics of an episode's last state, and their columns."""
METRICS = (*ENDS, *COMPONENTS)


@dataclass(frozen=True)
class TraceRun(RunSpec):
    """The states of one episode under each cost, until the goal; the first row is the goal.

    Settings differ in their cost only. Components are those of all latents in the rows. `latent` is the latent
    distance to the goal, `off_mean` the squared distance to the mean of the rows.
    """

    kind: ClassVar[str] = "traces"
    settings: tuple[Setting, ...]
    episode: int

    def name(self, recording: Experiment) -> str:
        first = self.settings[0]
        return f"{first.member.label}-{recording.evaluation(first.evaluation).name}-episode{self.episode}"

    def needs(self, recording: Experiment) -> list[RunSpec]:
        return [EpisodeRun(setting, self.episode) for setting in self.settings]

    def config(self, recording: Experiment) -> dict[str, Any]:
        first = self.settings[0]
        config = {**recording.inputs(first.member.model), **recording.evaluation(first.evaluation).record}
        runs = {setting.cost: EpisodeRun(setting, self.episode) for setting in self.settings}
        visited = {cost: recording.sha256(run, "rows.parquet") for cost, run in runs.items()}
        return {**config, "episode": self.episode, "visited_sha256": visited}

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
    """Principal directions of latents [N, D] as columns [D, count]; the largest entry of each is positive."""
    found = torch.linalg.eigh(latents.double().T.cov()).eigenvectors.flip(1)[:, :count]
    largest = found.gather(0, found.abs().argmax(0, keepdim=True))
    return (found * largest.sign()).to(latents.dtype)


def traced(experiment: Experiment) -> Experiment:
    """The study with a separate head, because heads of other tables are not kept and differ between processors."""
    return experiment.variant(name=f"{experiment.study.name}-trace")


def control_runs(experiment: Experiment) -> list[Cell]:
    return experiment.derive(traced).cells(map(ControlRun, SETTINGS))


def trace_cell(experiment: Experiment) -> Cell:
    """The trace of an episode that latent distance ends in the wrong room and the paper's head solves.

    Of these episodes, the one that latent distance brings nearest to its goal; the first episode if there is none.
    """
    variant = experiment.derive(traced)
    raw, trm = (outcomes(variant, setting) for setting in SETTINGS)
    left = np.where((raw["wrong_room"] > 0) & (trm["success"] > 0), raw["distance"], np.inf)
    return variant.cell(TraceRun(SETTINGS, int(variant.evaluation().episodes[np.argmin(left)])))


def trace_rows(experiment: Experiment) -> list[TableRow]:
    """The end of the episode under each cost, and the share of the latents' variance in the components."""
    table = trace_cell(experiment).read().table()
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    rows, seed = [], SETTINGS[0].member.seed
    for setting in SETTINGS:
        last = np.flatnonzero(columns["cost"] == setting.cost)[-1]
        ours = {metric: float(columns[name][last]) for metric, name in ENDS.items()}
        rows.append(TableRow(setting.cost, "lewm", int(ours["steps"]) + 1, ours, {}, None, seed))
    shares = {name: 100 * float((columns[name] ** 2).mean() / columns["off_mean"].mean()) for name in COMPONENTS}
    return [*rows, TableRow("all states", "lewm", len(table), shares, {}, None, seed)]


TRACE = TableRows(control_runs, trace_rows, lambda experiment: [trace_cell(experiment)])
