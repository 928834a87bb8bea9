"""Audits of a study: which stage limits the planner of a setting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from reachcost.audits.planner import audit_planner
from reachcost.planning.control import budget_of
from reachcost.results.records import Columns, Run
from reachcost.studies.closed_loop import loop_config
from reachcost.studies.costs import cost_plan
from reachcost.studies.experiment import Experiment
from reachcost.studies.study import Setting


def audit_run(experiment: Experiment, setting: Setting, criteria: bool = False) -> Run:
    """Audit the planner of a setting; rows are the audit's, `audit.json` holds stages, verdict and criteria."""
    task, goals = experiment.place(setting.evaluation)
    goals = replace(goals, budget=budget_of(task, goals, setting.budget))
    planner = setting.planner or experiment.study.planner

    def compute(directory: Path) -> Columns:
        member, study = setting.member, experiment.study
        model, latents = experiment.model(member.model, setting.clamp), experiment.latents(member.model)
        for name in cost_plan(study, setting.cost).heads:
            latents = experiment.learned_from(member, study.heads[name], setting.seed_of_head, setting.evaluation)
        options: dict[str, Any] = {
            "criteria": criteria,
            "seed": setting.member.seed,
            "proposal": experiment.study.proposal and experiment.study.proposal(task),
            "progress": experiment.progress,
        }
        audit = audit_planner(model, latents, experiment.cost(setting), task, goals, cast(Any, planner), **options)
        text = json.dumps(audit.document(), indent=1, allow_nan=False) + "\n"
        (directory / "audit.json").write_text(text, encoding="utf-8")
        return audit.rows

    name = experiment.study.run_name(setting) + ("-criteria" if criteria else "")
    return experiment.run("audits", name, {**loop_config(experiment, setting), "criteria": criteria}, compute)
