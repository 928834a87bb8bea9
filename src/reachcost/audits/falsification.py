"""The paper's falsification criteria, one by one: what would speak against blaming the terminal cost.

A claim survives if the 95 % interval of the difference it predicts, over episodes, lies above zero; it is refuted if
none of the interval does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from reachcost.audits.doorway import doorway_groups, doorway_latents
from reachcost.audits.planner import PlannerAudit
from reachcost.audits.sasc import sasc
from reachcost.costs import HeadCost, LatentMSE
from reachcost.errors import ReachcostError
from reachcost.evaluation import EvaluationSet
from reachcost.fitting import Recipe, evaluate, fit
from reachcost.heads.base import LearnedHead
from reachcost.oracle_pairs import OraclePairs
from reachcost.pairs import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.probe_costs import DecodedDistance, SubspaceCost
from reachcost.protocols import TerminalCost
from reachcost.stats import paired_bootstrap
from reachcost.tasks.tworoom import TwoRoom

LARGER = 30
"""Episodes of the comparison with a larger search."""
COVERAGE_PAIRS, COVERAGE_ROWS = 50_000, 25_000


@dataclass(frozen=True)
class Criterion:
    """One criterion, checked.

    Attributes:
        claim: What the paper's explanation predicts.
        outcome: Whether it survived; undecided if too few episodes tell, unknown if it could not be tested.
        evidence: The numbers, or what is missing.
    """

    claim: str
    outcome: Literal["survives", "refuted", "undecided", "unknown"]
    evidence: str


def check_criteria(audit: PlannerAudit) -> list[Criterion]:
    """Check every criterion that the audited planner allows; minutes, as heads are fitted and episodes run."""
    checks: dict[str, Callable[[PlannerAudit], Criterion]] = {
        "latent MSE buries good candidates": _buried,
        "costs of the decoded position and of the probe's rowspace improve control": _decoded,
        "a head on shuffled labels does not match the head": _shuffled,
        "a larger search does not close the gap of latent MSE": _larger_search,
        "doorway coverage of the pairs improves the ranking": _coverage,
    }
    found = []
    for number, (claim, check) in enumerate(checks.items(), start=1):
        audit.progress.step(f"criterion {number}")
        found.append(replace(check(audit), claim=claim))
    return found


def _unknown(missing: str) -> Criterion:
    return Criterion("", "unknown", missing)


def _judged(better: np.ndarray, worse: np.ndarray, evidence: str) -> Criterion:
    """Whether `better` [E] exceeds `worse` [E] beyond the interval of their paired difference."""
    low, high = paired_bootstrap((better - worse)[:, None].astype(float), resamples=10_000)[:, 0]
    outcome = "survives" if low > 0 else "refuted" if high <= 0 else "undecided"
    return Criterion("", outcome, f"{evidence}, difference {np.mean(better - worse):.1f} [{low:.1f}, {high:.1f}]")


def _buried(audit: PlannerAudit) -> Criterion:
    if audit.task is None:
        return _unknown("needs a simulator")
    ranks = audit.sasc.rankings["raw"].oracle_best_rank
    elites = 100 * audit.planner.elites / audit.planner.candidates
    text = f"latent MSE puts {ranks.mean():.1f} % before the truly best candidate; elites are {elites:.0f} %"
    return _judged(ranks, np.full(len(ranks), elites), text)


def _decoded(audit: PlannerAudit) -> Criterion:
    if audit.task is None or audit.probe is None or not isinstance(audit.task, TwoRoom):
        return _unknown("needs TwoRoom and logs with a column `state`")
    costs = {"decoded": DecodedDistance(audit.probe), "rowspace": SubspaceCost(audit.probe)}
    success = _success(audit, {**costs, "raw": LatentMSE()})
    decoded, rowspace, raw = success
    worst = min(decoded, rowspace, key=np.mean)
    text = f"success: decoded {decoded.mean():.0f} %, rowspace {rowspace.mean():.0f} %, latent MSE {raw.mean():.0f} %"
    return _judged(worst, raw, text)


def _shuffled(audit: PlannerAudit) -> Criterion:
    heads = [head for head in getattr(audit.cost, "heads", ()) if isinstance(head, LearnedHead)]
    if audit.evaluation is None or not heads or heads[0].record.get("pairs", {}).get("labels") != "temporal":
        return _unknown("give a head that was fitted on logged times (--head)")
    record = heads[0].record
    pairs = TemporalPairs(
        audit.latents,
        record["pairs"]["train_pairs"],
        record["pairs"]["validation_pairs"],
        exclude=audit.evaluation,
        seed=record["seed"],
    )
    control_head = fit(pairs.shuffled(), Recipe(**record["recipe"]), seed=record["seed"], progress=audit.progress)
    (shuffled,) = _success(audit, {"shuffled": HeadCost(control_head)})
    repaired = 100 * audit.runs.success[0]
    return _judged(repaired, shuffled, f"success: head {repaired.mean():.0f} %, shuffled {shuffled.mean():.0f} %")


def _larger_search(audit: PlannerAudit) -> Criterion:
    if audit.evaluation is None or audit.exact is None:
        return _unknown("needs a simulator")
    rows = np.unique(np.linspace(0, len(audit.evaluation) - 1, LARGER).astype(int))
    few, usual = audit.evaluation.subset(rows), audit.planner
    larger = CEM(usual.horizon, 3 * usual.candidates, 2 * usual.iterations, 3 * usual.elites)
    (raw,) = _success(audit, {"raw": LatentMSE()}, few, larger)
    repaired, name = (100 * audit.runs.success[0][rows], "head") if audit.learned else (np.full(len(rows), 100), "goal")
    text = (
        f"success on {len(rows)} episodes: latent MSE with {larger.candidates} x {larger.iterations} {raw.mean():.0f} %"
    )
    return _judged(repaired, raw, f"{text}, {name} {repaired.mean():.0f} %")


def _coverage(audit: PlannerAudit) -> Criterion:
    task, evaluation, logs = audit.task, audit.evaluation, audit.latents.logs
    if not isinstance(task, TwoRoom) or evaluation is None or "state" not in logs.columns:
        return _unknown("needs a world with a doorway (TwoRoom) and logs with a column `state`")
    layout = task.layout
    every = OraclePairs(audit.latents, task, count=1, exclude=evaluation, seed=audit.seed)
    costs, errors = {}, {}
    for name in ("limited", "balanced"):
        try:
            part = doorway_latents(audit.latents, name, layout, COVERAGE_ROWS, evaluation, audit.seed)
            groups = doorway_groups(name, layout)
            pairs = OraclePairs(part, task, COVERAGE_PAIRS, exclude=evaluation, seed=audit.seed, groups=groups)
        except ReachcostError as error:
            return _unknown(str(error))
        head = fit(pairs, Recipe.paper(epochs=8), seed=audit.seed, progress=audit.progress)
        costs[name] = HeadCost(head)
        errors[name] = evaluate(head, audit.latents.values, every.validation)[1]
    ranks = sasc(task, audit.model, costs, evaluation, audit.pools(audit.planner.candidates)).rankings
    limited, balanced = (ranks[name].oracle_best_rank for name in ("limited", "balanced"))
    text = (
        f"rank {limited.mean():.1f} % without the doorway, {balanced.mean():.1f} % with it "
        f"(error {errors['limited']:.0f} and {errors['balanced']:.0f} px)"
    )
    return _judged(limited, balanced, text)


def _success(
    audit: PlannerAudit,
    costs: dict[str, TerminalCost],
    evaluation: EvaluationSet | None = None,
    planner: CEM | None = None,
) -> np.ndarray:
    """Success in percent of every episode under every cost [C, E]."""
    if audit.task is None or audit.evaluation is None:
        raise ReachcostError("closed loops need a simulator: give a task and an evaluation set")
    runs = control(
        audit.task,
        audit.model,
        costs,
        evaluation or audit.evaluation,
        planner or audit.planner,
        seed=audit.seed,
        progress=audit.progress,
    )
    return 100.0 * runs.success
