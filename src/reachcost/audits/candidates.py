"""Executed candidates: where the world model predicts that they end, and where they really end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.closed_loops import audited_runs
from reachcost.audits.sasc import draw_pools, execute, roll_out, to_goals
from reachcost.audits.subject import Subject, once
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import require_finite
from reachcost.data.models import encode_rows
from reachcost.planning.control import budget_of

EXECUTED = 64
"""Candidates that are executed from each state."""


@dataclass(frozen=True)
class Executed:
    """S candidates from each of N states, with predicted and true ends.

    Attributes:
        episodes: Episode of each state [N].
        start: Latents of the states [N, D].
        predicted: Latents of the predicted ends [N, S, D].
        true: Latents of the true ends [N, S, D].
        goal: Latents of the goals [N, D].
        distance: True distance from each end to the goal [N, S]; None if the task has none.
    """

    episodes: np.ndarray
    start: Tensor
    predicted: Tensor
    true: Tensor
    goal: Tensor
    distance: np.ndarray | None


@once
def executed(subject: Subject) -> Executed | None:
    """Candidates from every start, and from where failed episodes got stuck; None without a simulator."""
    if subject.place is None:
        return None
    stuck = _stuck(subject)
    parts = [from_starts(subject)] + ([] if stuck is None else [_execute(subject, stuck)])
    distances = [part.distance for part in parts if part.distance is not None]
    return Executed(
        np.concatenate([part.episodes for part in parts]),
        *(torch.cat([getattr(part, name) for part in parts]) for name in ("start", "predicted", "true", "goal")),
        distance=np.concatenate(distances) if distances else None,
    )


@once
def from_starts(subject: Subject) -> Executed:
    """Candidates from every start of the evaluation set; raises an error if a predicted or true end is not finite."""
    return _execute(subject, subject.require_place()[1])


def planned_pools(subject: Subject, candidates: int) -> np.ndarray:
    """Random candidates of the planner's horizon from every start [E, S, H, A]."""
    task, evaluation = subject.require_place()
    return draw_pools(task, subject.model, evaluation, _horizon(subject), candidates)


def _horizon(subject: Subject) -> int:
    """Blocks of a candidate; at most those that fit into the budget, if the planner shrinks its horizon to that."""
    budget, length = budget_of(*subject.require_place()), 1 if subject.blocks is None else subject.blocks.length
    horizon = subject.planner.horizon
    return min(horizon, -(-budget // length)) if subject.planner.shrink else horizon


def _execute(subject: Subject, places: EvaluationSet) -> Executed:
    task, _ = subject.require_place()
    pools = draw_pools(task, subject.model, places, _horizon(subject), EXECUTED)
    start, predicted, goal = roll_out(task, subject.model, places, pools)
    ends = execute(task, places, pools if subject.blocks is None else subject.blocks.unroll(pools))
    reached = ends.reshape(-1, *places.goals.shape[1:])
    true = encode_rows(subject.model, task.observe(reached), len(reached))
    require_finite(true, "the end of a candidate in episode", np.repeat(places.episodes, EXECUTED))
    distance = to_goals(task.distance, ends, places) if task.offers("distance") else None
    return Executed(places.episodes, start, predicted, true.view(predicted.shape), goal, distance)


def _stuck(subject: Subject) -> EvaluationSet | None:
    """The last states in which failed episodes made a plan; None if no episode failed."""
    runs = audited_runs(subject)
    if runs is None or runs.success[0].all():
        return None
    evaluation = subject.require_place()[1]
    blocks = 1 if subject.blocks is None else subject.blocks.length
    last = runs.steps[0] - 1
    last -= last % (subject.planner.executed * blocks)
    stuck = runs.paths[0][np.arange(len(last)), last]
    failed = np.flatnonzero(~runs.success[0])
    return replace(evaluation, starts=stuck, source_rows=None, source_episodes=None).subset(failed)
