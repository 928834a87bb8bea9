"""The paper's falsification criteria, one by one: what would speak against blaming the terminal cost.

A claim survives if the 95 % interval of the difference it predicts, over episodes, lies above zero; it is refuted if
none of the interval does, and undecided in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from reachcost.audits.doorway import doorway_groups, doorway_latents
from reachcost.audits.planner import PlannerAudit
from reachcost.audits.sasc import sasc
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.costs.probe import DecodedDistance, SubspaceCost
from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.planning.cem import CEM
from reachcost.repair.fitting import Recipe, evaluate, fit
from reachcost.repair.oracle import OraclePairs
from reachcost.repair.temporal import TemporalPairs
from reachcost.results.stats import paired_bootstrap
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
        "latent distance buries good candidates": _buried,
        "costs of the decoded position and of the probe's rowspace improve control": _decoded,
        "a head on shuffled labels does not match the head": _shuffled,
        "a larger search leaves latent distance with most of its gap": _larger_search,
        "doorway coverage of the pairs improves error and ranking (two heads with oracle labels)": _coverage,
    }
    if not audit.simulated:
        return [Criterion(claim, "unknown", "needs a simulator, and a model it understands") for claim in checks]
    found = []
    for number, (claim, check) in enumerate(checks.items(), start=1):
        audit.progress.step(f"criterion {number}")
        try:
            found.append(replace(check(audit), claim=claim))
        except ReachcostError as error:
            found.append(Criterion(claim, "unknown", str(error)))
    return found


def _judged(advantage: np.ndarray, evidence: str) -> Criterion:
    """Whether a paired difference [E] is above zero."""
    low, high = paired_bootstrap(advantage[:, None].astype(float), resamples=10_000)[:, 0]
    outcome = "survives" if low > 0 else "refuted" if high <= 0 else "undecided"
    text = f"{evidence}; difference {advantage.mean():.1f} [{low:.1f}, {high:.1f}], {len(advantage)} episodes"
    return Criterion("", outcome, text)


def _buried(audit: PlannerAudit) -> Criterion:
    ranks = audit.sasc.rankings["raw"].oracle_best_rank
    elites = 100 * audit.planner.elites / audit.planner.candidates
    text = f"it ranks {ranks.mean():.1f} % before the truly best one, elites are {elites:.0f} %"
    return _judged(ranks - elites, text)


def _decoded(audit: PlannerAudit) -> Criterion:
    if audit.probe is None:
        raise ReachcostError("needs a probe of the state: give logs with a column `state`")
    costs = {"decoded": DecodedDistance(audit.probe), "rowspace": SubspaceCost(audit.probe), "raw": LatentMSE()}
    decoded, rowspace, raw = 100.0 * audit.control(costs).success
    text = (
        f"success: decoded {decoded.mean():.0f} %, rowspace {rowspace.mean():.0f} %, latent distance {raw.mean():.0f} %"
    )
    return _judged(min(decoded, rowspace, key=np.mean) - raw, text)


def _shuffled(audit: PlannerAudit) -> Criterion:
    head = audit.cost.head if isinstance(audit.cost, HeadCost) else None
    if not isinstance(head, LearnedHead) or head.record.get("pairs", {}).get("labels") != "temporal":
        raise ReachcostError("give a head that was fitted on logged times (--head)")
    drawn = head.record["pairs"]
    pairs = TemporalPairs(
        audit.latents,
        drawn["train_pairs"],
        drawn["validation_pairs"],
        drawn["sampling"],
        drawn.get("max_gap"),
        drawn.get("rows"),
        audit.evaluation,
        drawn.get("holdout", 0.0),
        drawn["seed"],
    )
    control = fit(pairs.shuffled(), Recipe(**head.record["recipe"]), seed=head.record["seed"], progress=audit.progress)
    (shuffled,) = 100.0 * audit.control({"shuffled": HeadCost(control)}).success
    repaired = 100.0 * audit.runs.success[0]
    return _judged(repaired - shuffled, f"success: head {repaired.mean():.0f} %, shuffled {shuffled.mean():.0f} %")


def _larger_search(audit: PlannerAudit) -> Criterion:
    """Against the head, or for latent MSE itself against a planner that knows everything."""
    best = audit.runs if audit.learned else audit.oracle_runs
    if audit.evaluation is None or best is None:
        raise ReachcostError("needs a head (--head), or a simulator whose dynamics are known")
    few, usual = audit.evaluation.spread(min(LARGER, len(audit.evaluation))), audit.planner
    larger = CEM(usual.horizon, 10 * usual.candidates // 3, 2 * usual.iterations, 10 * usual.elites // 3)
    (before,) = 100.0 * audit.control({"raw": LatentMSE()}, few).success
    (after,) = 100.0 * audit.control({"raw": LatentMSE()}, few, larger).success
    target = 100.0 * best.success[0][np.isin(best.episodes, few.episodes)]
    text = (
        f"success: {usual.candidates} x {usual.iterations} {before.mean():.0f} %, {larger.candidates} x "
        f"{larger.iterations} {after.mean():.0f} %, {'head' if audit.learned else 'oracle'} {target.mean():.0f} %; "
        "remaining gap minus half of the old one"
    )
    return _judged((target - after) - (target - before) / 2, text)


def _coverage(audit: PlannerAudit) -> Criterion:
    task, evaluation = audit.task, audit.evaluation
    if not isinstance(task, TwoRoom) or evaluation is None or "state" not in audit.latents.logs.columns:
        raise ReachcostError("needs a world with a doorway (TwoRoom) and logs with a column `state`")
    anywhere = OraclePairs(audit.latents, task, count=1, exclude=evaluation, seed=audit.seed).validation
    far_away = doorway_latents(audit.latents, "limited", task.layout, None, evaluation, audit.seed)
    rows = min(COVERAGE_ROWS, far_away.logs.rows)
    costs, errors = {}, {}
    for name in ("limited", "balanced"):
        part = doorway_latents(audit.latents, name, task.layout, rows, evaluation, audit.seed)
        groups = doorway_groups(name, task.layout)
        pairs = OraclePairs(part, task, COVERAGE_PAIRS, exclude=evaluation, seed=audit.seed, groups=groups)
        head = fit(pairs, Recipe.paper(epochs=8), seed=audit.seed, progress=audit.progress)
        costs[name] = HeadCost(head)
        errors[name] = evaluate(head, audit.latents.values, anywhere)[1]
    if errors["balanced"] >= errors["limited"]:
        raise ReachcostError("doorway coverage did not lower the error here, so this tells nothing")
    found = sasc(task, audit.model, costs, evaluation, audit.pools(audit.planner.candidates)).rankings
    limited, balanced = (found[name].oracle_best_rank for name in ("limited", "balanced"))
    text = (
        f"error {errors['limited']:.0f} px without the doorway, {errors['balanced']:.0f} px with it; "
        f"rank {limited.mean():.1f} % and {balanced.mean():.1f} %"
    )
    return _judged(limited - balanced, text)
