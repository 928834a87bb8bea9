"""Rankings of a study: shared candidate pools, or logged states, under one cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from reachcost.costs.checks import score
from reachcost.fitting.logged import logged_audit
from reachcost.results.ranking import compare_rankings
from reachcost.results.records import Columns, Run, require_rows
from reachcost.studies.experiment import ORACLE, Experiment
from reachcost.studies.study import Setting


def sasc_run(experiment: Experiment, setting: Setting) -> Run:
    """Score the shared pools of a member with one cost; rows are episodes."""
    member, goals, plan = setting.member, experiment.evaluation(setting.evaluation), experiment.study.pools
    ranked = replace(setting, planner=None, budget=None)  # a pool knows neither

    @torch.no_grad()
    def compute(_: Path) -> Columns:
        terminal, goal, distances = experiment.pool(member, setting.evaluation, setting.clamp)
        scores = (
            distances["oracle"]
            if setting.cost == ORACLE
            else score(setting.cost, experiment.cost(setting), terminal, goal, goals.episodes).cpu().numpy()
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

    config = {
        **experiment.behind(setting),
        **({} if setting.clamp else {"clamp": False}),
        "candidates": plan.candidates,
        "candidate_horizon": plan.horizon,
        "candidate_seed": plan.seed(member.seed),
    }
    return experiment.run("sasc", experiment.study.run_name(ranked), config, compute)


def rankings(experiment: Experiment, setting: Setting) -> dict[str, np.ndarray]:
    """How a cost ranks the shared pools, from its recorded rows: each [episodes]."""
    further = tuple(f"spearman_{name}" for name in experiment.world(setting.evaluation).further_distances)
    keys = {"episode": experiment.evaluation(setting.evaluation).episodes.tolist()}
    return require_rows(sasc_run(experiment, setting), keys, ("spearman", "rank", "selected", *further))


def logged_run(experiment: Experiment, setting: Setting, logs: Mapping[str, int], goals: int) -> Run:
    """Rank logged states of unseen logs with one cost; rows are goals."""
    model = setting.member.model

    def compute(_: Path) -> Columns:
        latents, pools = experiment.unseen(model, tuple(logs.items()), goals)
        found = logged_audit({setting.cost: experiment.cost(setting)}, latents, pools)[setting.cost]
        return {"goal": np.arange(goals), "rho_logged": found.spearman}

    config = {
        **experiment.behind(setting, goals=False),
        "held_out_logs": logs,
        "goals": goals,
    }
    return experiment.run("logged", experiment.study.run_name(setting), config, compute)
