"""Measurements of planners: computation per action, and the change of plans with numeric precision."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from reachcost.core.parallel import one_thread
from reachcost.core.seeding import EpisodeStreams
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.models import encode_rows, parts_of
from reachcost.errors import ReachcostError
from reachcost.planning.cem import CEM
from reachcost.planning.control import require_actions, require_planner
from reachcost.planning.planner import PlanContext, Planner, Round
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task


@dataclass(frozen=True)
class ActionCost:
    """Computation per executed action, without encoding the observation."""

    parameters: int  # number of weights that cost and planner add to the world model
    multiply_adds: int  # Multiply-adds of matrix products and convolutions in torch; nothing else is counted
    seconds: float  # time on one thread


@torch.no_grad()
def cost_per_action(
    task: Task, model: WorldModel, cost: TerminalCost, evaluation: EvaluationSet, planner: Planner, *, seed: int = 0
) -> ActionCost:
    """Measure the first plan of every episode, and divide by the number of actions that are executed of it.

    >>> from reachcost import CategoricalCEM, HeadCost, make_task
    >>> from reachcost.heads import PairHead
    >>> from reachcost.tasks import ExactTopoNav
    >>> task, model = make_task("toponav"), ExactTopoNav()
    >>> cost, few = HeadCost(PairHead(model.latent_dim, hidden=16)), task.evaluation_set().spread(2)
    >>> planner = CategoricalCEM(candidates=10, iterations=3, elites=2)
    >>> cost_per_action(task, model, cost, few, planner).multiply_adds == 10 * 3 * (40 * 16 + 16 * 16 + 16)
    True
    """
    blocks = require_actions(task, model)
    require_planner(task, planner)
    if planner.from_logs or planner.shrink:
        raise ReachcostError("the first plan with `shrink` or `from_logs` costs more or less: measure without them")
    start, goal = (encode_rows(model, task.observe(ends), len(ends)) for ends in (evaluation.starts, evaluation.goals))

    def plan() -> Tensor:
        streams = EpisodeStreams(seed, "plan", evaluation.episodes, 0)
        return planner.plan(PlanContext(model, cost, start[:, None], goal, streams))

    with one_thread():
        with FlopCounterMode(display=False) as counter:
            plan()
        began = time.perf_counter()
        plan()
        seconds = time.perf_counter() - began
    actions = len(evaluation) * planner.executed * (blocks.length if blocks else 1)
    multiply_adds = round(counter.get_total_flops() / 2 / actions)
    return ActionCost(_parameters(cost) + _parameters(planner), multiply_adds, seconds / actions)


def _parameters(part: object) -> int:
    """Number of weights in all networks of an object; shared weights count once."""
    modules = [found for _, found in parts_of(part) if isinstance(found, nn.Module)]
    return sum({id(weight): weight.numel() for module in modules for weight in module.parameters()}.values())


@torch.no_grad()
def plan_change(
    model: WorldModel, other: WorldModel, cost: TerminalCost, start: Tensor, goal: Tensor, planner: CEM
) -> tuple[float, np.ndarray]:
    """Plan from starts [B, D] to goals [B, D] with both models, by the same random numbers.

    Returns the share of the first elites that both have, and the absolute differences of the plans [B, H, A], in
    standard deviations of the logged actions.
    """
    elites, plans = [], []
    for one in (model, other):
        rounds: list[Round] = []
        streams = EpisodeStreams(0, "precision", range(len(goal)), 0)
        plans.append(planner.plan(PlanContext(one, cost, start[:, None], goal, streams, watch=rounds.append)))
        elites.append(rounds[0].elites.cpu().numpy())
    shared = [np.isin(mine, theirs).mean() for mine, theirs in zip(*elites, strict=True)]
    return float(np.mean(shared)), (plans[0] - plans[1]).abs().cpu().numpy()
