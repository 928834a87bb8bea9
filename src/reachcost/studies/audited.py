"""Audits of a study: which stage limits the planner of a setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from reachcost.audits.planner import audit_planner
from reachcost.results.records import Columns, Run
from reachcost.studies.experiment import Experiment
from reachcost.studies.study import Setting


def audit_run(experiment: Experiment, setting: Setting, criteria: bool = False) -> Run:
    """Audit the planner of a setting; rows are the audit's, `audit.json` holds stages, verdict and criteria."""
    task, goals = experiment.place(setting.evaluation)
    planner = setting.planner or experiment.study.planner

    def compute(directory: Path) -> Columns:
        model, latents = experiment.model(setting.member.model, setting.clamp), experiment.latents(setting.member.model)
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

    config = {
        **experiment.behind(setting),
        "clamp": setting.clamp,
        "planner": type(planner).__name__,
        "planner_settings": planner,
        "planner_seed": setting.member.seed,
        "criteria": criteria,
    }
    return experiment.run("audits", experiment.study.run_name(setting), config, compute)
