"""Number of operations of a planner, per executed action."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from reachcost.core.parallel import one_thread
from reachcost.core.seeding import EpisodeStreams
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError
from reachcost.planning.control import require_actions, require_planner
from reachcost.planning.planner import PlanContext, Planner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task


@torch.no_grad()
def multiply_adds(
    task: Task, model: WorldModel, cost: TerminalCost, evaluation: EvaluationSet, planner: Planner
) -> int:
    """Multiply-adds of matrix products and convolutions in torch per executed action, without encoding.

    The first plan of every episode is counted, and divided by the number of actions that are executed of it.
    """
    blocks = require_actions(task, model)
    require_planner(task, planner)
    if planner.from_logs or planner.shrink:
        raise ReachcostError("the first plan with `shrink` or `from_logs` costs more or less: measure without them")
    start, goal = (encode_rows(model, task.observe(ends), len(ends)) for ends in (evaluation.starts, evaluation.goals))
    streams = EpisodeStreams(0, "plan", evaluation.episodes, 0)
    with one_thread(), FlopCounterMode(display=False) as counter:
        planner.plan(PlanContext(model, cost, start[:, None], goal, streams))
    actions = len(evaluation) * planner.executed * (blocks.length if blocks else 1)
    return round(counter.get_total_flops() / 2 / actions)
