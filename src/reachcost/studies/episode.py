"""One episode of a setting, state by state, for pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reachcost.planning.control import budget_of
from reachcost.results.records import Columns, Run, require_rows
from reachcost.studies.closed_loop import closed_loop, loop_config
from reachcost.studies.experiment import Experiment
from reachcost.studies.study import Setting


def episode_run(experiment: Experiment, setting: Setting, episode: int) -> Run:
    """Run one episode of an evaluation set again; rows are the states it visits, one column a number."""
    _, goals = experiment.place(setting.evaluation)

    def compute(_: Path) -> Columns:
        runs = closed_loop(experiment, setting, goals.subset(np.flatnonzero(goals.episodes == episode)))
        path = runs.paths[0, 0].reshape(runs.paths.shape[2], -1)
        return {"step": np.arange(len(path)), **{f"state_{i}": path[:, i] for i in range(path.shape[1])}}

    config = {**loop_config(experiment, setting), "episode": episode}
    return experiment.run("episodes", f"{experiment.study.run_name(setting)}-episode{episode}", config, compute)


def visited(experiment: Experiment, setting: Setting, episode: int) -> np.ndarray:
    """The states of an episode, from its recorded rows [steps + 1, numbers of a state]."""
    task, goals = experiment.place(setting.evaluation)
    numbers = int(np.prod(goals.starts.shape[1:]))
    keys = {"step": range(budget_of(task, goals, setting.budget) + 1)}
    columns = tuple(f"state_{i}" for i in range(numbers))
    read = require_rows(episode_run(experiment, setting, episode), keys, columns)
    return np.stack([read[name] for name in columns], axis=1)
