"""Runs of a setting: closed loops, rankings of candidates, single plans and audits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch

from reachcost.audits.planner import audit_planner
from reachcost.audits.sasc import to_goals
from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.checks import score
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment, SettingRun
from reachcost.experiments.study import Setting, cost_plan
from reachcost.fitting.logged_audit import logged_audit
from reachcost.planning.cem import CEM
from reachcost.planning.control import ControlRuns, budget_of, control
from reachcost.planning.planner import PlanContext, Planner, RandomPolicy
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.ranking import compare_rankings
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


@dataclass(frozen=True)
class SascRun(SettingRun):
    """The shared pools of a member, scored by one cost; rows are episodes."""

    kind: ClassVar[str] = "sasc"

    def name(self, recording: Experiment) -> str:
        """As of a closed loop; pools know neither planner nor budget."""
        return recording.study.run_name(replace(self.setting, planner=None, budget=None))

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The cost and the pools."""
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
        """Score the pools, and compare with the true distances."""
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
    """How a cost ranks the shared pools, from its recorded rows: each [episodes]."""
    further = tuple(f"spearman_{name}" for name in experiment.place(setting.evaluation)[0].further_distances)
    keys = {"episode": experiment.evaluation(setting.evaluation).episodes.tolist()}
    return require_rows(experiment.read(SascRun(setting)), keys, ("spearman", "rank", "selected", *further))


@dataclass(frozen=True)
class LoggedRun(SettingRun):
    """Logged states of unseen logs, ranked by one cost; rows are goals."""

    kind: ClassVar[str] = "logged"
    logs: tuple[tuple[str, int], ...]
    """What those logs are generated with."""
    goals: int
    """Number of goals."""

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The cost, the logs and the number of goals."""
        behind = recording.behind(self.setting, goals=False)
        return {**behind, "held_out_logs": dict(self.logs), "goals": self.goals}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Rank the states."""
        cost = self.setting.cost
        latents, pools = recording.unseen(self.setting.member.model, self.logs, self.goals)
        found = logged_audit({cost: recording.cost(self.setting)}, latents, pools)[cost]
        return {"goal": np.arange(self.goals), "rho_logged": found.spearman}


DISTANCES = ("refined", "pool_best", "selected", "rank")
SHARES = ("selected_success", "selected_final")
"""Of the selected candidates: that reach the goal at any time, and that end there."""


@dataclass(frozen=True)
class SelectionRun(SettingRun):
    """One plan from every start; rows are episodes.

    `refined` is the oracle distance after the mean of the last elites, `selected` after the candidate of the last pool
    with the lowest cost, `pool_best` after the one that really ends nearest, and `rank` the percentage of the others
    that the cost puts before that one.
    """

    kind: ClassVar[str] = "selection"
    planner: CEM

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The cost and the planner."""
        return {
            **recording.behind(self.setting),
            "clamp": self.setting.clamp,
            "planner": type(self.planner).__name__,
            "planner_settings": self.planner,
            "planner_seed": self.setting.member.seed,
        }

    @torch.no_grad()
    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Plan and execute."""
        setting, member = self.setting, self.setting.member
        task, goals = recording.place(setting.evaluation)
        model = recording.model(member.model, setting.clamp)
        if (blocks := blocks_of(model)) is None:
            raise ReachcostError(f"{member.model} does not say how its blocks stand for actions: nothing to execute")
        context, goal = (encode_rows(model, task.observe(states), len(goals)) for states in (goals.starts, goals.goals))
        streams = EpisodeStreams(member.seed, "plan", goals.episodes, 0)
        found = self.planner.search(PlanContext(model, recording.cost(setting), context[:, None], goal, streams))
        plans = torch.cat([found.pool, found.mean[:, None]], dim=1)
        ends, reached = execute_watched(task, goals, blocks.unroll(plans.cpu().numpy()))
        distance, rows = to_goals(task.distance, ends, goals), np.arange(len(goals))
        costs, chosen = found.costs.cpu().numpy(), found.costs.argmin(1).cpu().numpy()
        last = task.success(ends[rows, chosen], goals.goals)
        return {
            "episode": goals.episodes,
            "refined": distance[:, -1],
            "pool_best": distance[:, :-1].min(1),
            "selected": distance[rows, chosen],
            "rank": compare_rankings({"": costs}, distance[:, :-1])[""].oracle_best_rank,
            "selected_success": reached[rows, chosen],
            "selected_final": last,
        }


def execute_watched(task: Task, goals: EvaluationSet, plans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Execute actions [E, S, T, a]: the states they end in [E, S, ...], and whether they were at the goal [E, S]."""
    shape = plans.shape[:2]
    here, there = (np.repeat(states, shape[1], axis=0) for states in (goals.starts, goals.goals))
    reached = np.array(task.success(here, there))
    for actions in plans.reshape(-1, *plans.shape[2:]).swapaxes(0, 1):
        here = task.step(here, actions)
        reached |= task.success(here, there)
    return here.reshape(*shape, *here.shape[1:]), reached.reshape(shape)


def selections(experiment: Experiment, setting: Setting, planner: CEM) -> dict[str, np.ndarray]:
    """What one plan came to, from its recorded rows: each [episodes]; shares in percent."""
    keys = {"episode": experiment.evaluation(setting.evaluation).episodes.tolist()}
    read = require_rows(experiment.read(SelectionRun(setting, planner)), keys, (*DISTANCES, *SHARES))
    return {name: 100 * value if name in SHARES else value for name, value in read.items()}


@dataclass(frozen=True)
class AuditRun(SettingRun):
    """The audit of a setting's planner; rows are the audit's, `audit.json` holds stages, verdict and criteria."""

    kind: ClassVar[str] = "audits"
    criteria: bool = False

    def name(self, recording: Experiment) -> str:
        """As of the closed loop, and whether there are criteria."""
        return super().name(recording) + ("-criteria" if self.criteria else "")

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The closed loop, and whether there are criteria."""
        return {**loop_config(recording, self.setting), "criteria": self.criteria}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Audit it."""
        setting, member, study = self.setting, self.setting.member, recording.study
        task, goals = recording.place(setting.evaluation)
        goals = replace(goals, budget=budget_of(task, goals, setting.budget))
        model, latents = recording.model(member.model, setting.clamp), recording.latents(member.model)
        for name in cost_plan(study, setting.cost).heads:
            latents = recording.learned_from(member, study.heads[name], setting.seed_of_head, setting.evaluation)
        options: dict[str, Any] = {
            "criteria": self.criteria,
            "seed": member.seed,
            "proposal": study.proposal and study.proposal(task),
            "progress": recording.progress,
        }
        planner = cast(Any, setting.planner or study.planner)
        audit = audit_planner(model, latents, recording.cost(setting), task, goals, planner, **options)
        text = json.dumps(audit.document(), indent=1, allow_nan=False) + "\n"
        (directory / "audit.json").write_text(text, encoding="utf-8")
        return audit.rows
