"""Audits of a study: which stage limits the planner of a setting."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from reachcost.audits.planner import audit_planner
from reachcost.experiments.closed_loop import loop_config
from reachcost.experiments.costs import cost_plan
from reachcost.experiments.experiment import Experiment, SettingRun
from reachcost.planning.control import budget_of
from reachcost.results.records import Columns


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
