"""Rankings of a study: shared candidate pools, or logged states, under one cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from reachcost.costs.checks import score
from reachcost.experiments.experiment import ORACLE, Experiment, SettingRun
from reachcost.experiments.study import Setting
from reachcost.fitting.logged_audit import logged_audit
from reachcost.results.ranking import compare_rankings
from reachcost.results.records import Columns, require_rows


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
    further = tuple(f"spearman_{name}" for name in experiment.world(setting.evaluation).further_distances)
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
