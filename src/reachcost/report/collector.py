"""The material of a report about tables that were just made: the runs behind them, and some episodes planned again."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from reachcost.core.machine import machine
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Recording
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import ControlRun, closed_loop
from reachcost.experiments.study import Setting
from reachcost.report.drawing import Outcomes, SceneParts, choose_episodes, draw_scene, groups_of
from reachcost.report.material import Material
from reachcost.report.scene import Scene
from reachcost.report.sources import read_runs
from reachcost.report.success import SuccessRate, rates_of_table, repairs
from reachcost.results.records import Run, read_run
from reachcost.results.tables import ResultTable

EPISODES = 8  # maximum number of episodes that are planned again


class Collector:
    """Collects tables, the runs behind them, and a scene of the first table that has one."""

    def __init__(self) -> None:
        self._tables: list[ResultTable] = []
        self._runs: dict[Path, Run] = {}
        self.scene: Scene | None = None

    def add(self, recording: Recording, table: ResultTable) -> None:
        """Add a table that was just made."""
        self._tables.append(table)
        self._runs |= {run.path: run for _, run in recording.runs.values()}  # tables share some
        if self.scene is None or not self.scene.episodes:
            self.scene = scene_of(recording, table)

    def material(self) -> Material:
        """Everything that was collected."""
        scenes = () if self.scene is None else (self.scene,)
        return Material(tables=tuple(self._tables), scenes=scenes) + read_runs([*self._runs.values()])


def scene_of(recording: Recording, table: ResultTable) -> Scene:
    """Some episodes of a table under its first and its best cost, or a scene with the reason why there are none."""
    try:
        if not isinstance(recording, Experiment) or (settings := _settings(recording, table)) is None:
            raise ReachcostError(
                f"no two costs of {table.name} ran on the same episodes of one world with the same planner"
            )
        return _planned_again(recording, *settings)
    except ReachcostError as reason:  # the rest of the report is still of use
        return Scene("", without=dict.fromkeys(("replay", "fields"), f"Episodes and maps cannot be shown: {reason}."))


def _planned_again(experiment: Experiment, first: Setting, second: Setting) -> Scene:
    task, goals = experiment.place(first.evaluation)
    rows = [experiment.read(ControlRun(setting)).table() for setting in (first, second)]
    recorded = Outcomes(*(np.stack([one[name].to_numpy() for one in rows]) for name in Outcomes._fields))
    shown = choose_episodes(recorded, groups_of(task, goals.starts, goals.goals), EPISODES)
    # Random streams belong to the episode: each runs here exactly as it did among all others.
    some = goals.subset(np.sort(shown))
    experiment.progress.step("report, some episodes")
    runs = closed_loop(experiment, first, some).merged(closed_loop(experiment, second, some))
    model = first.member.model
    costs = {setting.cost: experiment.cost(setting) for setting in (first, second)}
    logs = None if task.offers("plane") else experiment.latents(model)
    scene = draw_scene(SceneParts(task, experiment.model(model), costs, runs, logs=logs))
    return replace(scene, of=len(goals))


def _settings(experiment: Experiment, table: ResultTable) -> tuple[Setting, Setting] | None:
    """Settings of latent distance and of the best cost whose weights this machine has or can reproduce."""
    problem = None
    for pair in repairs(rates_of_table(table)):
        for first, second in product(*(_settings_of(experiment, table, rate) for rate in pair)):
            if replace(first, cost=second.cost) == second:
                try:
                    _require_weights(experiment, first, second)
                    return first, second
                except ReachcostError as error:
                    problem = problem or error
                    break
    if problem is not None:
        raise problem
    return None


def _settings_of(experiment: Experiment, table: ResultTable, rate: SuccessRate) -> list[Setting]:
    """Settings of the closed loops behind a success rate."""
    runs = ((run.path.name, cell.spec) for cell, run in experiment.runs.values())
    settings = {name: spec.setting for name, spec in runs if isinstance(spec, ControlRun)}
    wanted = (rate.cost, rate.model, rate.setting, rate.seed)
    rows = [row for row in table.rows if (row.cost, row.model, row.setting, row.seed) == wanted]
    found = [settings[name] for row in rows for name in row.runs if name in settings]
    return [setting for setting in found if setting.cost == rate.cost]


def _require_weights(experiment: Experiment, *settings: Setting) -> None:
    """Refuse heads whose weights are lost and that another machine trained: training rounds differently here."""
    for head in (experiment.cell(plan) for setting in settings for plan in experiment.heads_of(setting).values()):
        if not head.complete and (made := read_run(head.path).manifest["machine"]) != machine():
            raise ReachcostError(
                f"the weights of {head.path.name} are missing, and another machine trained them ({made}), which "
                "rounds differently: reproduce into another --out to see them"
            )
