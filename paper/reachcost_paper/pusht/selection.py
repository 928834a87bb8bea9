"""Candidates that costs select from the pools of one plan, executed in the simulator."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from reachcost.audits.sasc import to_goals
from reachcost.core.seeding import EpisodeStreams
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError
from reachcost.experiments.experiment import Experiment, SettingRun
from reachcost.experiments.study import Setting
from reachcost.planning.cem import CEM
from reachcost.planning.planner import PlanContext, Round
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import compare_rankings
from reachcost.tasks.contract import Task

DISTANCES = ("refined", "pool_best", "selected", "rank")
SHARES = ("selected_success", "selected_final")
"""Shares of selected candidates that reach the goal at any time, and that end there."""


@dataclass(frozen=True)
class SelectionRun(SettingRun):
    """One plan from every start; rows are episodes.

    Columns are oracle distances: `refined` after the mean of the last elites, `selected` after the candidate of the
    last pool with the lowest cost, `pool_best` after the candidate that ends nearest; and `rank`, the percentage of
    other candidates that the cost prefers to the nearest one.
    """

    kind: ClassVar[str] = "selection"
    planner: CEM

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {
            **recording.behind(self.setting),
            "clamp": self.setting.clamp,
            "planner": type(self.planner).__name__,
            "planner_settings": self.planner,
            "planner_seed": self.setting.member.seed,
        }

    @torch.no_grad()
    def compute(self, recording: Experiment, directory: Path) -> Columns:
        setting, member = self.setting, self.setting.member
        task, goals = recording.place(setting.evaluation)
        model = recording.model(member.model, setting.clamp)
        if (blocks := blocks_of(model)) is None:
            raise ReachcostError(f"{member.model} has no `actions`: its blocks cannot be executed")
        context, goal = (encode_rows(model, task.observe(states), len(goals)) for states in (goals.starts, goals.goals))
        streams = EpisodeStreams(member.seed, "plan", goals.episodes, 0)
        rounds: list[Round] = []
        watched = PlanContext(model, recording.cost(setting), context[:, None], goal, streams, watch=rounds.append)
        mean, found = self.planner.plan(watched), rounds[-1]
        plans = torch.cat([found.pool, mean[:, None]], dim=1)
        ends, reached = execute_watched(task, goals, blocks.unroll(plans.cpu().numpy()))
        distance, rows = to_goals(task.distance, ends, goals), np.arange(len(goals))
        costs, chosen = found.costs.cpu().numpy(), found.costs.argmin(1).cpu().numpy()
        return {
            "episode": goals.episodes,
            "refined": distance[:, -1],
            "pool_best": distance[:, :-1].min(1),
            "selected": distance[rows, chosen],
            "rank": compare_rankings({"": costs}, distance[:, :-1])[""].oracle_best_rank,
            "selected_success": reached[rows, chosen],
            "selected_final": task.success(ends[rows, chosen], goals.goals),
        }


def execute_watched(task: Task, goals: EvaluationSet, plans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Execute actions [E, S, T, a]; returns the last states [E, S, ...], and whether the goal was reached [E, S]."""
    shape = plans.shape[:2]
    states, there = (np.repeat(part, shape[1], axis=0) for part in (goals.starts, goals.goals))
    reached = np.array(task.success(states, there))
    for actions in plans.reshape(-1, *plans.shape[2:]).swapaxes(0, 1):
        states = task.step(states, actions)
        reached |= task.success(states, there)
    return states.reshape(*shape, *states.shape[1:]), reached.reshape(shape)


def selections(experiment: Experiment, setting: Setting, planner: CEM) -> dict[str, np.ndarray]:
    """The results of one plan, from its recorded rows: each [episodes]; shares in percent."""
    keys = {"episode": experiment.evaluation(setting.evaluation).episodes.tolist()}
    read = require_rows(experiment.read(SelectionRun(setting, planner)), keys, (*DISTANCES, *SHARES))
    return {name: 100 * value if name in SHARES else value for name, value in read.items()}
