"""SASC, the selection audit with shared candidates: does a terminal cost rank a fixed pool by true distance?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.checks import score
from reachcost.costs.latent import evaluated_once
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import require_finite
from reachcost.data.models import encode_rows, predict_ends
from reachcost.errors import ReachcostError, require_type
from reachcost.planning.control import require_actions, require_parts
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.stats import Ranking, compare_rankings
from reachcost.tasks.contract import Task


@dataclass(frozen=True)
class SascAudit:
    """Scores of the same pools by every cost."""

    episodes: np.ndarray  # episode numbers in the evaluation set [E]
    scores: dict[str, np.ndarray]  # cost of every candidate, by name of the cost, each [E, S]
    diagnostic: np.ndarray  # true distance to the goal after every candidate [E, S]
    rankings: dict[str, Ranking]  # how each cost ranks the pools, by name of the cost

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {ranking.spearman.mean():.3f}" for name, ranking in self.rankings.items())
        return f"SascAudit({len(self.episodes)} episodes, {self.diagnostic.shape[1]} candidates; mean rho: {found})"


@torch.no_grad()
def sasc(
    task: Task,
    model: WorldModel,
    costs: Mapping[str, TerminalCost],
    evaluation: EvaluationSet,
    pools: np.ndarray | None = None,
) -> SascAudit:
    """Score fixed pools with every cost and compare the rankings with the true distance after executing them.

    Args:
        task: Executes the candidates; needs an oracle `distance`, infinite if no path leads from there to the goal.
        model: Frozen world model that predicts their ends.
        costs: Terminal costs by name.
        evaluation: E start and goal states.
        pools: Candidate action sequences [E, S, H, A], in the coordinates of the model; by default `draw_pools`.
    """
    blocks = require_parts(task, model, costs, evaluation)
    if not task.offers("distance"):
        raise ReachcostError(f"the task {task.name!r} has no oracle `distance`: write it")
    if pools is None:
        pools = draw_pools(task, model, evaluation)
    require_type(pools, np.ndarray, "pools", f"give action sequences [E = {len(evaluation)}, S, H, A]")
    if pools.ndim != 4 or len(pools) != len(evaluation):
        raise ReachcostError(f"the pools have shape {pools.shape}: give [E = {len(evaluation)}, S, H, A]")
    _, terminal, goal = roll_out(task, model, evaluation, pools)
    scores = {
        name: score(name, cost, terminal, goal, evaluation.episodes).cpu().numpy()
        for name, cost in evaluated_once(costs).items()
    }
    ends = execute(task, evaluation, pools if blocks is None else blocks.unroll(pools))
    diagnostic = to_goals(task.distance, ends, evaluation)
    return SascAudit(evaluation.episodes, scores, diagnostic, compare_rankings(scores, diagnostic))


def draw_pools(
    task: Task,
    model: WorldModel,
    evaluation: EvaluationSet,
    horizon: int = 5,
    candidates: int = 300,
    seed: int = 123,
) -> np.ndarray:
    """Random candidates [E, S, H, A]: standard normal action blocks, or uniform discrete actions."""
    require_actions(task, model)
    streams = EpisodeStreams(seed, "sasc", evaluation.episodes, 0)
    if task.discrete_actions is None:
        return streams.normal(candidates, horizon, model.action_dim)
    return streams.integers(task.discrete_actions, candidates, horizon, 1)


@torch.no_grad()
def roll_out(
    task: Task, model: WorldModel, evaluation: EvaluationSet, pools: np.ndarray
) -> tuple[Tensor, Tensor, Tensor]:
    """Latents of starts [E, D], of predicted ends of candidates [E, S, H, A] as [E, S, D], and of goals [E, D]."""
    start, goal = (
        encode_rows(model, task.observe(states), len(states)) for states in (evaluation.starts, evaluation.goals)
    )
    require_finite(start, "the start of episode", evaluation.episodes)
    require_finite(goal, "the goal of episode", evaluation.episodes)
    return start, predict_ends(model, start[:, None], torch.from_numpy(pools)), goal


def execute(task: Task, evaluation: EvaluationSet, pools: np.ndarray) -> np.ndarray:
    """Execute actions [E, S, T, a] in the simulator and return the end states [E, S, ...]."""
    starts = np.repeat(evaluation.starts, pools.shape[1], axis=0)
    actions = pools.reshape(len(starts), *pools.shape[2:]).swapaxes(0, 1)
    ends = reduce(task.step, actions, starts)
    return ends.reshape(*pools.shape[:2], *ends.shape[1:])


def to_goals(
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray], ends: np.ndarray, evaluation: EvaluationSet
) -> np.ndarray:
    """Distance from the end states of candidates [E, S, ...] to the goal of their episode [E, S]."""
    goals = np.repeat(evaluation.goals, ends.shape[1], axis=0)
    return np.asarray(distance(ends.reshape(-1, *ends.shape[2:]), goals)).reshape(ends.shape[:2])
