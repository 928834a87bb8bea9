"""Closed loops of the audited planner: with its own cost, with latent distance, and with an oracle."""

from __future__ import annotations

from collections.abc import Mapping

from reachcost.audits.subject import Subject, once
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.planning.control import ControlRuns, control
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.exact import ExactDynamics


@once
def audited_runs(subject: Subject) -> ControlRuns | None:
    """The planner with the audited cost; None without a simulator."""
    return None if subject.place is None else run(subject, {"audited": subject.cost})


@once
def latent_runs(subject: Subject) -> ControlRuns:
    """The planner with latent distance."""
    audited = audited_runs(subject) if type(subject.cost) is LatentMSE else None
    return run(subject, {"raw": LatentMSE()}) if audited is None else audited


@once
def oracle_runs(subject: Subject) -> ControlRuns | None:
    """The planner with true dynamics and true distance; None if the distance is unknown or states are not vectors."""
    if subject.place is None or not subject.place[0].offers("distance") or (exact := exact_dynamics(subject)) is None:
        return None
    return run(subject, {"oracle": OracleGeodesic(exact)}, model=exact)


def exact_dynamics(subject: Subject) -> ExactDynamics | None:
    """The simulator as a world model; None without one, or if states are not vectors."""
    if subject.place is None or subject.place[1].starts.ndim != 2:
        return None
    task, evaluation = subject.place
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
    task, every = subject.require_place()
    return control(
        task,
        subject.model if model is None else model,
        costs,
        every if evaluation is None else evaluation,
        subject.planner if planner is None else planner,
        seed=subject.seed,
        proposal=subject.proposal,
        progress=subject.progress,
    )
