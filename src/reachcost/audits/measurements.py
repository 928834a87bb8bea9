"""Measurements that stages share: closed loops of the planner, and candidates executed in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.sasc import draw_pools, execute, roll_out, to_goals
from reachcost.audits.subject import Subject, once
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import require_finite
from reachcost.data.models import encode_rows
from reachcost.planning.control import ControlRuns, budget_of, control
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.exact import ExactDynamics

EXECUTED = 64  # candidates that are executed from each state


@once
def audited_runs(subject: Subject) -> ControlRuns | None:
    """Closed loops with the audited cost; None without a simulator."""
    return None if subject.simulator is None else run(subject, {"audited": subject.cost})


@once
def latent_runs(subject: Subject) -> ControlRuns:
    """Closed loops with latent distance."""
    audited = audited_runs(subject) if type(subject.cost) is LatentMSE else None
    return run(subject, {"raw": LatentMSE()}) if audited is None else audited


@once
def oracle_runs(subject: Subject) -> ControlRuns | None:
    """Closed loops with true dynamics and distance; None if the distance is unknown or states are not vectors."""
    exact = exact_dynamics(subject) if subject.has_distance else None
    return None if exact is None else run(subject, {"oracle": OracleGeodesic(exact)}, model=exact)


def exact_dynamics(subject: Subject) -> ExactDynamics | None:
    """The simulator as a world model; None without one, or if states are not vectors."""
    if subject.simulator is None or subject.simulator[1].starts.ndim != 2:
        return None
    task, evaluation = subject.simulator
    # A world model that claims to be exact is not trusted here: it may be broken.
    return ExactDynamics(task, subject.blocks, evaluation.starts)


def run(
    subject: Subject,
    costs: Mapping[str, TerminalCost],
    evaluation: EvaluationSet | None = None,
    planner: SamplingPlanner | None = None,
    model: WorldModel | None = None,
) -> ControlRuns:
    """Run the planner in closed loop with these costs, or with other episodes, another planner or another model."""
    task, every = subject.require_simulator()
    parts = model or subject.model, costs, evaluation or every, planner or subject.planner
    return control(task, *parts, seed=subject.seed, proposal=subject.proposal, progress=subject.progress)


@dataclass(frozen=True)
class Executed:
    """S candidates from each of N states, with predicted and true ends."""

    episodes: np.ndarray  # episode of each state [N]
    start: Tensor  # latents of the states [N, D]
    predicted: Tensor  # latents of the predicted ends [N, S, D]
    true: Tensor  # latents of the true ends [N, S, D]
    goal: Tensor  # latents of the goals [N, D]
    distance: np.ndarray | None  # true distance from each end to the goal [N, S]; None if the task has none


@once
def executed(subject: Subject) -> Executed | None:
    """Candidates from every start, and from where failed episodes got stuck; None without a simulator."""
    if subject.simulator is None:
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
    return _execute(subject, subject.require_simulator()[1])


def planned_pools(subject: Subject, places: EvaluationSet | None = None, candidates: int | None = None) -> np.ndarray:
    """Random candidates of the planner's number and horizon from every start [E, S, H, A]."""
    task, evaluation = subject.require_simulator()
    planner, horizon = subject.planner, subject.planner.horizon
    if planner.shrink:  # the planner plans no further than the budget
        horizon = min(horizon, -(-budget_of(task, evaluation) // subject.block_length))
    return draw_pools(task, subject.model, places or evaluation, horizon, candidates or planner.candidates)


def _execute(subject: Subject, places: EvaluationSet) -> Executed:
    task, _ = subject.require_simulator()
    pools = planned_pools(subject, places, EXECUTED)
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
    evaluation = subject.require_simulator()[1]
    last = runs.steps[0] - 1
    last -= last % (subject.planner.executed * subject.block_length)
    stuck = runs.paths[0][np.arange(len(last)), last]
    failed = np.flatnonzero(~runs.success[0])
    return replace(evaluation, starts=stuck, source_rows=None, source_episodes=None).subset(failed)
