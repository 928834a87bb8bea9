"""What studies have to show beside their tables: runs, and some episodes of one table, planned again."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from reachcost.core.machine import machine
from reachcost.errors import ReachcostError
from reachcost.experiments.experiment import Experiment, Recording
from reachcost.experiments.runs import ControlRun, closed_loop
from reachcost.experiments.study import Member, Setting
from reachcost.report.drawing import Outcomes, SceneParts, choose_episodes, draw_scene, groups_of
from reachcost.report.material import Material
from reachcost.report.scene import Scene
from reachcost.report.sources import read_runs
from reachcost.report.success import SuccessRate, rates_of_table, repairs
from reachcost.results.records import Run, read_run
from reachcost.results.tables import ResultTable, TableRow

EPISODES = 8
"""Episodes that are planned again."""
KEY = ("cost", "model", "setting", "seed")
"""What tells the lines of a table apart."""


class Studied:
    """What studies have to show of some tables: these, the runs behind them, and a scene of the first that has one."""

    def __init__(self) -> None:
        self._tables: list[ResultTable] = []
        self._runs: dict[Path, Run] = {}
        self.scene: Scene | None = None

    def add(self, experiment: Recording, table: ResultTable) -> None:
        """One more table, while its engine is still there."""
        self._tables.append(table)
        self._runs |= {run.path: run for run in experiment.recorder.used.values()}  # tables share some
        if self.scene is None or not self.scene.episodes:
            self.scene = scene_of(experiment, table)

    def material(self) -> Material:
        """All of it."""
        scenes = () if self.scene is None else (self.scene,)
        return Material(tables=tuple(self._tables), scenes=scenes) + read_runs([*self._runs.values()])


def scene_of(experiment: Recording, table: ResultTable) -> Scene:
    """Some episodes of the first cost of a table beside its best one, or why there are none."""
    try:
        return _looked_at(experiment, table)
    except ReachcostError as reason:  # the page is worth having without
        return Scene("", without=dict.fromkeys(("replay", "fields"), f"Episodes and maps cannot be shown: {reason}."))


def _looked_at(experiment: Recording, table: ResultTable) -> Scene:
    settings = _settings(experiment, table) if isinstance(experiment, Experiment) else None
    if not isinstance(experiment, Experiment) or settings is None:
        raise ReachcostError(
            f"no two costs of {table.name} ran on the same episodes of one world with the same planner"
        )
    task, goals = experiment.place(settings[0].evaluation)
    rows = [experiment.read(ControlRun(setting)).table() for setting in settings]
    recorded = Outcomes(*(np.stack([one[name].to_numpy() for one in rows]) for name in Outcomes._fields))
    shown = choose_episodes(recorded, groups_of(task, goals.starts, goals.goals), EPISODES)
    # Random streams belong to the episode, so each runs here exactly as it did among all others.
    some = goals.subset(np.sort(shown))
    experiment.progress.step("report, some episodes")
    first, second = (closed_loop(experiment, setting, some) for setting in settings)
    model = settings[0].member.model
    costs = {setting.cost: experiment.cost(setting) for setting in settings}
    logs = None if task.offers("plane") else experiment.latents(model)
    scene = draw_scene(SceneParts(task, experiment.model(model), costs, first.beside(second), logs=logs))
    return replace(scene, of=len(goals))


def _settings(experiment: Experiment, table: ResultTable) -> tuple[Setting, Setting] | None:
    """Latent distance and the best cost beside it that can be planned with here, as the study does it."""
    refused = None
    for pair in repairs(rates_of_table(table)):
        settings = _on_one_member(experiment, table, pair)
        if settings is not None:
            try:
                for setting in settings:
                    _require_weights(experiment, setting)
                return settings
            except ReachcostError as error:
                refused = refused or error
    if refused is not None:
        raise refused
    return None


def _on_one_member(
    experiment: Experiment, table: ResultTable, pair: tuple[SuccessRate, SuccessRate]
) -> tuple[Setting, Setting] | None:
    """The settings of two lines on the first member of the study that ran both under one protocol."""
    loops = [run for run in experiment.recorder.used.values() if run.path.parent.name == "control"]
    runs = {run.path.name: run for run in loops}  # rankings and audits are called alike
    ran = [
        [runs[name] for row in table.rows if _is_of(row, line) for name in row.runs if name in runs] for line in pair
    ]
    for member in (member for kind in experiment.study.members.values() for member in kind):
        first, second = (
            [setting for run in those if (setting := _setting(experiment, member, line.cost, run))]
            for line, those in zip(pair, ran, strict=True)
        )
        for one, other in product(first, second):
            if replace(one, cost=other.cost) == other:
                return one, other
    return None


def _is_of(row: TableRow, line: SuccessRate) -> bool:
    return all(getattr(row, name) == getattr(line, name) for name in KEY)


def _setting(experiment: Experiment, member: Member, cost: str, run: Run) -> Setting | None:
    """What a recorded closed loop of a member ran with, found by its name; None if it is of another one."""
    config, study = run.manifest["config"], experiment.study
    if config["planner"] != type(study.planner).__name__:
        return None
    planner = replace(study.planner, **config["planner_settings"])  # pyright: ignore[reportArgumentType] (it is a dataclass)
    said = ((None, config["evaluation_set"]), (None, config["budget"]), (None, planner))
    for evaluation, budget, chosen in product(*said):
        setting = Setting(member, cost, evaluation=evaluation, budget=budget, clamp=config["clamp"], planner=chosen)
        if study.run_name(setting) == run.path.name:
            return setting
    return None


def _require_weights(experiment: Experiment, setting: Setting) -> None:
    """Refuse what hangs on weights that this machine would train in vain, as it rounds otherwise."""
    for head in map(experiment.cell, experiment.heads_of(setting).values()):
        if not head.complete and (made := read_run(head.path).manifest["machine"]) != machine():
            raise ReachcostError(
                f"the weights of {head.path.name} are not kept, and were trained on another machine ({made}), which "
                "rounds otherwise; reproduce into another --out to see them"
            )
