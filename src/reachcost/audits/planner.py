"""`audit_planner`: which stage of a planner is at fault? Each stage is measured in isolation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from typing import Any

import numpy as np

from reachcost.audits.audit import Audit, cost_name
from reachcost.audits.criteria import check_criteria, shared_candidates
from reachcost.audits.measurements import audited_runs, executed, from_starts, latent_runs, oracle_runs
from reachcost.audits.stage import Stage
from reachcost.audits.stages import RULES, STAGES
from reachcost.audits.subject import Subject, kept_out
from reachcost.core.machine import versions
from reachcost.core.progress import Progress, as_progress
from reachcost.costs.latent import RAW, LatentMSE
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, model_identity
from reachcost.errors import ReachcostError
from reachcost.planning.control import ControlRuns, Proposal, default_planner
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task, require_task


def audit_planner(
    model: WorldModel,
    latents: Latents,
    cost: TerminalCost | None = None,
    task: Task | None = None,
    evaluation: EvaluationSet | None = None,
    planner: SamplingPlanner | None = None,
    held_out: Latents | None = None,
    *,
    criteria: bool = False,
    seed: int = 0,
    proposal: Proposal | None = None,
    thresholds: Mapping[str, float] | None = None,
    state_columns: Sequence[int] | None = None,
    progress: Progress | bool | None = None,
) -> Audit:
    """Measure every stage of a planner and find the stage to blame. Without a task, stages are measured on logs.

    Args:
        model: The frozen world model.
        latents: Its latents of the logs that heads learn from.
        cost: The terminal cost; by default latent MSE.
        task: The simulated world, if there is one.
        evaluation: Starts and goals in that world.
        planner: The planner; by default `CEM()`, or `CategoricalCEM` where actions are discrete.
        held_out: Latents of logs that no head was fitted on; only needed without a task.
        criteria: Also check the paper's falsification criteria. This fits heads and runs episodes for some minutes.
        seed: Seed of the planner.
        proposal: Candidates that the protocol adds to every pool of the planner, if any.
        thresholds: Thresholds that replace those of the rules, by name.
        state_columns: Indices of the logged state that one frame shows; by default the task's `coordinates`, or all.
        progress: True shows progress.

    >>> from reachcost import encode_logs, load_world_model, make_task
    >>> task, model = make_task("tworoom"), load_world_model("lewm-tworoom-3072")
    >>> found = audit_planner(model, encode_logs(model, task.generate_logs(30)))
    >>> [stage.outcome for stage in found.stages][:3]
    ['unknown', 'unknown', 'pass']
    """
    if task is not None:
        require_task(task)
    for name, threshold in (thresholds or {}).items():
        require_threshold(name, threshold)
    subject = Subject(
        model,
        latents,
        LatentMSE() if cost is None else cost,
        task,
        evaluation,
        planner or default_planner(None if task is None or blocks_of(model) else task.discrete_actions),
        held_out,
        seed,
        proposal,
        thresholds or {},
        state_columns,
        as_progress(progress),
    )
    return audit(subject, criteria)


def audit(subject: Subject, criteria: bool = False) -> Audit:
    """Measure every stage of a planner and, if asked, check the paper's falsification criteria."""
    if subject.simulator is not None:
        from_starts(subject)  # so that predictions that are not finite are not blamed on the cost by closed loops
    stages = []
    for name, measure in STAGES.items():
        subject.progress.step(name)
        stages.append(measure(subject))
    checked = check_criteria(subject) if criteria else []
    settings, audited = _settings(subject), audited_runs(subject)
    name, runs, ended = cost_name(settings), None, {}
    if audited is not None:
        latent = subject.shared.get(latent_runs) if name != RAW else None  # only criteria run it
        loops = (latent, replace(audited, costs=(name,)), oracle_runs(subject))
        runs = reduce(ControlRuns.merged, filter(None, loops))
        ended = dict(sorted(Counter(audited.category[0].tolist()).items()))
    shared = shared_candidates(subject) if criteria else None
    rankings = {} if shared is None else {RAW: shared.rankings["raw"], name: shared.rankings["audited"]}
    return Audit(tuple(stages), tuple(checked), tuple(_caveats(subject, stages)), ended, settings, runs, rankings)


def require_threshold(name: str, threshold: float) -> None:
    """Raise an error unless a rule has this name and the threshold is finite."""
    if name not in RULES:
        raise ReachcostError(f"there is no threshold {name!r}: choose one of {', '.join(RULES)}")
    if not np.isfinite(threshold):
        raise ReachcostError(f"the threshold of {name} is {threshold}: give a number")


def _caveats(subject: Subject, stages: Sequence[Stage]) -> list[str]:
    found = [
        f"the interval of {stage.name} contains its threshold: more episodes may change the outcome"
        for stage in stages
        if stage.near
    ]
    kept, candidates = kept_out(subject), executed(subject)
    if kept is False:
        found.append("the head was fitted on episodes of the evaluation set: success may overestimate it")
    if kept is None:
        found.append(
            "the head excluded other evaluation sets, so it may have been fitted on episodes of this one: success may "
            "overestimate it"
        )
    if candidates is None and subject.held_out is None:
        found.append("dynamics were measured on the given logs, on which the world model may have been trained")
    if candidates is not None and candidates.distance is not None and subject.held_out is not None:
        found.append("the held-out logs were not used, as there is a simulator")
    return found


def _settings(subject: Subject) -> dict[str, Any]:
    goals = subject.evaluation
    heads = [dict(getattr(head, "record", {})) for head in subject.heads]
    return {
        "model": model_identity(subject.model),
        "cost": type(subject.cost).__name__,
        "heads": [{key: value for key, value in head.items() if key != "curve"} for head in heads],
        "planner": asdict(subject.planner),  # pyright: ignore[reportArgumentType] (planners are dataclasses)
        "planner_seed": subject.seed,
        "logs_sha256": subject.latents.logs.fingerprint,
        "evaluation_set": goals.name if goals else None,
        **(goals.record if goals else {"evaluation_set_sha256": None}),
        "episodes": len(goals) if goals else 0,
        "versions": versions(),
    }
