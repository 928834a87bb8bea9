"""Runs of a setting: closed loops, rankings of candidates, and audits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch

from reachcost.audits.planner import audit_planner
from reachcost.costs.checks import score
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment, SettingRun
from reachcost.experiments.study import Setting, Study, cost_plan
from reachcost.planning.control import ControlRuns, budget_of, control
from reachcost.planning.planner import Planner, RandomPolicy
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import compare_rankings
from reachcost.tasks.contract import Task


@dataclass(frozen=True)
class ControlRun(SettingRun):
    """A closed loop under one cost; rows are episodes."""

    kind: ClassVar[str] = "control"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """Return the closed loop, its episodes, and the dynamics of the planner."""
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
        last = {name: test(task, runs.paths[0, :, -1], evaluation.goals) for name, test in last_states.items()}
        return {**runs.rows(), **last}


def closed_loop(experiment: Experiment, setting: Setting, goals: EvaluationSet) -> ControlRuns:
    """Run a setting on some episodes of its evaluation set."""
    task, evaluation = experiment.place(setting.evaluation)
    study, planner = experiment.study, _planner(experiment, setting, task)
    world, cost = _planned_with(experiment, setting, task)
    costs: Mapping[str, TerminalCost] = {setting.cost: cost}
    if study.prepare is not None and not planner.from_logs:  # which needs latents
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
    """Return the configuration of a closed loop."""
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
    """Return the world model and the terminal cost of a setting; the oracle plans with the simulator."""
    model = experiment.model(setting.member.model, setting.clamp)
    if setting.cost == RANDOM:
        return model, LatentMSE()
    if setting.cost == ORACLE:
        exact = exact_model(task, model, experiment.evaluation(setting.evaluation).starts)
        return exact, OracleGeodesic(exact)
    return model, experiment.cost(setting)


def outcome_names(study: Study) -> tuple[str, ...]:
    """Return the metrics that `outcomes` may return."""
    own = (*study.groups, *study.categories, *study.bins, *study.last_states)
    return ("success", "steps", "distance", "final_geo", *own)


def outcomes(experiment: Experiment, setting: Setting) -> dict[str, np.ndarray]:
    """Return outcome metrics of a closed-loop run, each [episodes of its group]."""
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


@dataclass(frozen=True)
class SascRun(SettingRun):
    """A ranking of the shared pools of a member by one cost; rows are episodes."""

    kind: ClassVar[str] = "sasc"

    def name(self, recording: Experiment) -> str:
        """Return the name of the closed loop without planner and budget, which pools do not depend on."""
        return recording.study.run_name(replace(self.setting, planner=None, budget=None))

    def config(self, recording: Experiment) -> dict[str, Any]:
        """Return the cost and the pools."""
        plan = recording.study.pools
        return {
            **recording.behind(self.setting),
            **({} if self.setting.clamp else {"clamp": False}),
            "candidates": plan.candidates,
            "candidate_horizon": plan.horizon,
            "candidate_seed": plan.seed(self.setting.member.seed),
        }

    @torch.no_grad()
    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Score the pools, and compare the scores with true distances."""
        setting, goals = self.setting, recording.evaluation(self.setting.evaluation)
        terminal, goal, distances = recording.pool(setting.member, setting.evaluation, setting.clamp)
        scores = (
            distances["oracle"]
            if setting.cost == ORACLE
            else score(setting.cost, recording.cost(setting), terminal, goal, goals.episodes).cpu().numpy()
        )
        found = compare_rankings({"": scores}, distances["oracle"])[""]
        further = {
            f"spearman_{name}": compare_rankings({"": scores}, distance)[""].spearman
            for name, distance in distances.items()
            if name != "oracle"
        }
        return {
            "episode": goals.episodes,
            "spearman": found.spearman,
            "rank": found.oracle_best_rank,
            "selected": found.selected_distance,
            **further,
        }


def rankings(experiment: Experiment, setting: Setting) -> dict[str, np.ndarray]:
    """Return the metrics of a recorded ranking, each [episodes]."""
    further = tuple(f"spearman_{name}" for name in experiment.place(setting.evaluation)[0].further_distances)
    keys = {"episode": experiment.evaluation(setting.evaluation).episodes.tolist()}
    return require_rows(experiment.read(SascRun(setting)), keys, ("spearman", "rank", "selected", *further))


@dataclass(frozen=True)
class AuditRun(SettingRun):
    """An audit of the planner of a setting; `audit.json` holds its stages and verdict."""

    kind: ClassVar[str] = "audits"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """Return the closed loop; audits are recorded without criteria."""
        return {**loop_config(recording, self.setting), "criteria": False}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Audit it."""
        setting, member, study = self.setting, self.setting.member, recording.study
        task, goals = recording.place(setting.evaluation)
        goals = replace(goals, budget=budget_of(task, goals, setting.budget))
        model, latents = recording.model(member.model, setting.clamp), recording.latents(member.model)
        for name in cost_plan(study, setting.cost).heads:
            latents = recording.learned_from(member, study.heads[name], setting.seed_of_head, setting.evaluation)
        options: dict[str, Any] = {
            "seed": member.seed,
            "proposal": study.proposal and study.proposal(task),
            "progress": recording.progress,
        }
        planner = cast(Any, setting.planner or study.planner)
        audit = audit_planner(model, latents, recording.cost(setting), task, goals, planner, **options)
        text = json.dumps(audit.document(), indent=1, allow_nan=False) + "\n"
        (directory / "audit.json").write_text(text, encoding="utf-8")
        return audit.rows
