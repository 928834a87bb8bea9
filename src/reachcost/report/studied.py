"""What a study has to show beside its table: its runs, and some of its episodes, planned again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reachcost.report.look import Outcomes, Parts, choose, groups_of, look
from reachcost.report.material import Material
from reachcost.report.panels.success import lines_of
from reachcost.report.panels.verdict import repair
from reachcost.report.scene import Scene
from reachcost.report.sources import read_runs
from reachcost.results.tables import ResultTable
from reachcost.studies.closed_loop import closed_loop, control_run
from reachcost.studies.experiment import Experiment, Recording
from reachcost.studies.study import Setting

EPISODES = 8
"""Episodes that are planned again."""
KEY = ("cost", "model", "setting", "seed")
"""What tells the lines of a table apart."""


def studied(experiment: Recording, table: ResultTable) -> Material:
    """Runs behind a table, and a scene of its first cost beside its best one."""
    return Material(scenes=(_scene(experiment, table),)) + read_runs(experiment.recorder.used())


def _scene(experiment: Recording, table: ResultTable) -> Scene:
    settings = _settings(experiment, table) if isinstance(experiment, Experiment) else []
    if not isinstance(experiment, Experiment) or len(settings) < 2:
        why = f"No two costs of {table.name} ran under one protocol of one world, so none are shown side by side."
        return Scene("", without={"replay": why, "fields": why})
    task, goals = experiment.place()
    rows = [control_run(experiment, setting).table() for setting in settings]
    recorded = Outcomes(*(np.stack([one[name].to_numpy() for one in rows]) for name in Outcomes._fields))
    shown = choose(recorded, groups_of(task, goals.starts, goals.goals), EPISODES)
    # Random streams belong to the episode, so each runs here exactly as it did among all others.
    some = goals.subset(np.sort(shown))
    experiment.progress.step("report, some episodes")
    first, second = (closed_loop(experiment, setting, some) for setting in settings)
    model = settings[0].member.model
    costs = {setting.cost: experiment.cost(setting) for setting in settings}
    logs = None if task.offers("plane") else experiment.latents(model)
    scene = look(Parts(task, experiment.model(model), costs, first.beside(second), logs=logs))
    return replace(scene, of=len(goals))


def _settings(experiment: Experiment, table: ResultTable) -> list[Setting]:
    """The first cost of a table and its best one, on one member, where both ran as the study does it."""
    pair = repair(lines_of(table)) or ()
    rows = [
        next(row for row in table.rows if all(getattr(row, name) == getattr(line, name) for name in KEY))
        for line in pair
    ]
    for member in (member for kind in experiment.study.members.values() for member in kind):
        settings = [Setting(member, row.cost) for row in rows]
        names = [experiment.study.run_name(setting) for setting in settings]
        if rows and all(name in (row.extra or {}).get("runs", ()) for name, row in zip(names, rows, strict=True)):
            return settings
    return []
