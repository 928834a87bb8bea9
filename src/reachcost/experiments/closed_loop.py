"""Closed loops of a study: every episode of a set under one cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment, SettingRun
from reachcost.experiments.study import Setting
from reachcost.planning.control import ControlRuns, budget_of, control
from reachcost.planning.planner import Planner, RandomPolicy
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.records import Columns, require_rows
from reachcost.tasks.contract import Task


@dataclass(frozen=True)
class ControlRun(SettingRun):
    """Closed loop under one cost; rows are episodes."""

    kind: ClassVar[str] = "control"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The closed loop, its episodes, and what moves the world."""
        planned = loop_config(recording, self.setting)
        return {
            **planned,
            "head_seed": self.setting.seed_of_head if planned["heads_sha256"] else None,
            "evaluation_set": recording.evaluation(self.setting.evaluation).name,
            "dynamics": "simulator" if self.setting.cost == ORACLE else "world model",
        }

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Run every episode."""
        task, evaluation = recording.place(self.setting.evaluation)
        runs, last_states = closed_loop(recording, self.setting, evaluation), recording.study.last_states
        last = {name: so(task, runs.paths[0, :, -1], evaluation.goals) for name, so in last_states.items()}
        return {**runs.rows(), **last}


def closed_loop(experiment: Experiment, setting: Setting, goals: EvaluationSet) -> ControlRuns:
    """Run a setting on some episodes of its evaluation set."""
    task, evaluation = experiment.place(setting.evaluation)
    study, planner = experiment.study, _planner(experiment, setting, task)
    world, cost = _planned_with(experiment, setting, task)
    costs: Mapping[str, TerminalCost] = {setting.cost: cost}
    if study.prepare is not None and not planner.from_logs:  # logs know latents, no tables
        world, costs = study.prepare(world, costs)
    proposal = None if setting.cost == RANDOM or study.proposal is None else study.proposal(task)
    options: dict[str, Any] = {
        "seed": setting.member.seed,
        "budget": budget_of(task, evaluation, setting.budget),
        "proposal": proposal,
    }
    if planner.from_logs:
        options["logs"] = experiment.latents(setting.member.model)
    return control(task, world, costs, goals, planner, **options, progress=experiment.progress)


def loop_config(experiment: Experiment, setting: Setting) -> dict[str, Any]:
    """What a closed loop is made of, for its record."""
    task, evaluation = experiment.place(setting.evaluation)
    planner = _planner(experiment, setting, task)
    return {
        **experiment.behind(setting),
        "budget": budget_of(task, evaluation, setting.budget),
        "clamp": setting.clamp,
        "planner": type(planner).__name__,
        "planner_settings": planner,
        "planner_seed": setting.member.seed,
    }


def _planner(experiment: Experiment, setting: Setting, task: Task) -> Planner:
    if setting.cost == RANDOM:
        return RandomPolicy() if task.discrete_actions is None else RandomPolicy(task.discrete_actions)
    return setting.planner or experiment.study.planner


def _planned_with(experiment: Experiment, setting: Setting, task: Task) -> tuple[WorldModel, TerminalCost]:
    """World model and terminal cost of a setting; the oracle plans with the simulator."""
    model = experiment.model(setting.member.model, setting.clamp)
    if setting.cost == RANDOM:
        return model, LatentMSE()
    if setting.cost == ORACLE:
        exact = exact_model(task, model, experiment.evaluation(setting.evaluation).starts)
        return exact, OracleGeodesic(exact)
    return model, experiment.cost(setting)


def outcomes(experiment: Experiment, setting: Setting) -> dict[str, np.ndarray]:
    """Outcome metrics of a closed-loop run, each [episodes of its group]."""
    task, evaluation = experiment.place(setting.evaluation)
    run = experiment.read(ControlRun(setting))
    keys = {"cost": [setting.cost], "episode": evaluation.episodes.tolist()}
    study = experiment.study
    columns = ("success", "steps", *study.last_states, *(("final_distance",) if task.offers("distance") else ()))
    read = require_rows(run, keys, columns)
    success = 100 * read["success"][0]
    groups = task.groups(evaluation.starts, evaluation.goals)
    values = {
        "success": success,
        "steps": read["steps"][0],
        **{name: 100 * read[name][0] for name in study.last_states},
    }
    values |= {metric: success[groups[name]] for metric, name in study.groups.items() if groups[name].any()}
    table = run.table()
    ended = dict(zip(table["episode"].to_pylist(), table["category"].to_pylist(), strict=True))
    category = np.array([ended[episode] for episode in evaluation.episodes.tolist()])
    values |= {name: 100.0 * (category == name) for name in study.categories}
    if "final_distance" in read:
        values["distance"] = values["final_geo"] = read["final_distance"][0]
        far = task.distance(evaluation.starts, evaluation.goals)
        last = max((high for _, high in study.bins.values()), default=0)
        for metric, (low, high) in study.bins.items():
            inside = (far >= low) & ((far < high) | ((high == last) & (far == high)))
            values |= {metric: success[inside]} if inside.any() else {}
    return values
