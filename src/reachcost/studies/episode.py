"""One episode of a setting, state by state, for pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reachcost.planning.control import budget_of, control
from reachcost.results.records import Columns, Run, require_rows
from reachcost.studies.experiment import Experiment
from reachcost.studies.study import Setting


def episode_run(experiment: Experiment, setting: Setting, episode: int) -> Run:
    """Run one episode of an evaluation set again; rows are the states it visits, one column a number."""
    task, goals = experiment.place(setting.evaluation)
    planner, budget = setting.planner or experiment.study.planner, budget_of(task, goals, setting.budget)

    def compute(_: Path) -> Columns:
        alone = goals.subset(np.flatnonzero(goals.episodes == episode))
        model, costs = experiment.model(setting.member.model, setting.clamp), {setting.cost: experiment.cost(setting)}
        runs = control(task, model, costs, alone, planner, seed=setting.member.seed, budget=budget)
        path = runs.paths[0, 0].reshape(budget + 1, -1)
        return {"step": np.arange(budget + 1), **{f"state_{i}": path[:, i] for i in range(path.shape[1])}}

    config = {
        **experiment.behind(setting),
        "episode": episode,
        "budget": budget,
        "clamp": setting.clamp,
        "planner": type(planner).__name__,
        "planner_settings": planner,
        "planner_seed": setting.member.seed,
    }
    return experiment.run("episodes", f"{experiment.study.run_name(setting)}-episode{episode}", config, compute)


def visited(experiment: Experiment, setting: Setting, episode: int) -> np.ndarray:
    """The states of an episode, from its recorded rows [steps + 1, numbers of a state]."""
    task, goals = experiment.place(setting.evaluation)
    numbers = int(np.prod(goals.starts.shape[1:]))
    keys = {"step": range(budget_of(task, goals, setting.budget) + 1)}
    columns = tuple(f"state_{i}" for i in range(numbers))
    read = require_rows(episode_run(experiment, setting, episode), keys, columns)
    return np.stack([read[name] for name in columns], axis=1)
