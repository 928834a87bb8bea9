"""The paper's falsification criteria: observations that would contradict its explanation, the terminal cost.

A criterion is a difference between costs or searches that the explanation predicts, paired over episodes. The claim
survives if the 95 % interval lies above zero, is refuted if no part of it does, and is undecided otherwise. It is also
undecided if no episode differs, or if it would be refuted although latent distance succeeds: then there is no failure
to explain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from reachcost.audits.measurements import audited_runs, latent_runs, oracle_runs, planned_pools, run
from reachcost.audits.sasc import SascAudit, sasc
from reachcost.audits.stages.representation import probe
from reachcost.audits.stages.success import EXECUTION
from reachcost.audits.subject import Subject, once
from reachcost.costs.latent import DecodedDistance, HeadCost, LatentMSE, SubspaceCost
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import evaluate, fit
from reachcost.fitting.repair import Labels, recorded_pairs
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import KINDS, Recipe, is_same_class
from reachcost.labels.oracle import FAR, NEAR, OraclePairs, TooFewStates, covered_latents, located_rows, pair_groups
from reachcost.results.stats import paired_bootstrap

LARGER = 30  # episodes of the comparison with a larger search
COVERAGE_PAIRS, COVERAGE_ROWS = 50_000, 25_000


@dataclass(frozen=True)
class Criterion:
    """One criterion, checked."""

    claim: str  # what the paper's explanation predicts
    # Undecided if too few episodes differ or there is no failure to explain, unknown if it could not be tested.
    outcome: Literal["survives", "refuted", "undecided", "unknown"]
    evidence: str  # the numbers, or what is missing
    rows: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)  # paired differences [E]
    episodes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False, compare=False)  # [E]


def check_criteria(subject: Subject) -> list[Criterion]:
    """Check all criteria; those that cannot be tested with these parts are unknown."""
    checks: dict[str, Callable[[Subject], Criterion]] = {
        "latent distance buries good candidates": _buried,
        "costs of the decoded position and of the probe's rowspace improve control": _decoded,
        "a head on shuffled labels does not match the head": _shuffled,
        "a larger search leaves latent distance with most of its gap": _larger_search,
        "coverage of the bottleneck improves error and ranking (two heads with oracle labels)": _coverage,
    }
    found = []
    for number, (claim, check) in enumerate(checks.items(), start=1):
        subject.progress.step(f"criterion {number}")
        try:
            if subject.simulator is None:
                raise Untested("needs a simulator, and a model with actions of that simulator")
            found.append(replace(_explained(subject, check(subject)), claim=claim))
        except (Untested, TooFewStates) as missing:
            found.append(Criterion(claim, "unknown", str(missing)))
    return found


class Untested(ReachcostError):
    """A criterion cannot be tested with these parts."""


@once
def shared_candidates(subject: Subject) -> SascAudit | None:
    """The audited cost and latent distance on the same candidates; None without an oracle distance."""
    if not subject.has_distance:
        return None
    task, evaluation = subject.require_simulator()
    costs = {"raw": LatentMSE(), "audited": subject.cost}
    return sasc(task, subject.model, costs, evaluation, planned_pools(subject))


def _explained(subject: Subject, checked: Criterion) -> Criterion:
    """A refuted claim becomes undecided if latent distance does not fail."""
    success = 100 * latent_runs(subject).success.mean() if checked.outcome == "refuted" else 0.0
    if success < EXECUTION.threshold:
        return checked
    why = f"latent distance reaches {success:.0f} % of the goals here, so there is no failure to explain"
    return replace(checked, outcome="undecided", evidence=f"{why}: {checked.evidence}")


def _compared(advantage: np.ndarray, evidence: str, episodes: np.ndarray) -> Criterion:
    """Test whether a paired difference [E] is above zero."""
    low, high = paired_bootstrap(advantage[:, None].astype(float), resamples=10_000)[:, 0]
    outcome = "survives" if low > 0 else "refuted" if high <= 0 and advantage.any() else "undecided"
    text = f"{evidence}; difference {advantage.mean():.1f} [{low:.1f}, {high:.1f}], {len(advantage)} episodes"
    return Criterion("", outcome, text, advantage, episodes)


def _buried(subject: Subject) -> Criterion:
    shared = shared_candidates(subject)
    if shared is None:
        raise Untested("needs a task with an oracle distance")
    ranks = shared.rankings["raw"].oracle_best_rank
    elites = 100 * subject.planner.elites / subject.planner.candidates
    text = f"it ranks {ranks.mean():.1f} % before the truly best one, elites are {elites:.0f} %"
    return _compared(ranks - elites, text, shared.episodes)


def _decoded(subject: Subject) -> Criterion:
    fitted = probe(subject)
    if fitted is None:
        raise Untested("needs logs with a column `state`, of five or more episodes")
    runs = run(subject, {"decoded": DecodedDistance(fitted), "rowspace": SubspaceCost(fitted)})
    decoded, rowspace, raw = 100.0 * np.concatenate([runs.success, latent_runs(subject).success])
    means = [f"{success.mean():.0f} %" for success in (decoded, rowspace, raw)]
    text = "success: decoded {}, rowspace {}, latent distance {}".format(*means)
    return _compared(min(decoded, rowspace, key=np.mean) - raw, text, runs.episodes)


def _shuffled(subject: Subject) -> Criterion:
    head = subject.cost.head if isinstance(subject.cost, HeadCost) else None
    known = isinstance(head, LearnedHead) and head.record.get("pairs", {}).get("labels") in get_args(Labels)
    runs = audited_runs(subject)
    if not isinstance(head, LearnedHead) or not known or runs is None:
        raise Untested("give a head that was fitted on logs (--head)")
    if not is_same_class(KINDS.get(head.kind, object), type(head)):
        raise Untested("the head cannot be rebuilt to learn shuffled labels: add register_head to its class")
    record = head.record["pairs"]
    # A record names excluded sets by fingerprint, from which no set can be rebuilt. The evaluation set takes their
    # place, so the pairs of the control may exclude other episodes than those of the head.
    latents = subject.latents.without(subject.evaluation if "exclusion" in record else None)
    pairs = recorded_pairs(record, latents, subject.model)
    recipe, seed = Recipe(**head.record["recipe"]), head.record["seed"]
    control = fit(pairs.shuffled(), recipe, seed=seed, progress=subject.progress)
    (shuffled,) = 100.0 * run(subject, {"shuffled": HeadCost(control)}).success
    repaired = 100.0 * runs.success[0]
    text = f"success: head {repaired.mean():.0f} %, shuffled {shuffled.mean():.0f} %"
    return _compared(repaired - shuffled, text, runs.episodes)


def _larger_search(subject: Subject) -> Criterion:
    """Compare with the head; for a cost without a head, compare with the oracle planner."""
    _, evaluation = subject.require_simulator()
    few, small = evaluation.spread(min(LARGER, len(evaluation))), subject.planner
    # Injected candidates fit the size of the small search, so both searches run without them.
    alone = subject if subject.proposal is None else replace(subject, evaluation=few, proposal=None)
    best = audited_runs(alone) if subject.heads else oracle_runs(alone)
    if best is None:
        raise Untested("needs a head (--head), or a task with an oracle distance")
    sizes = {"candidates": 10 * small.candidates // 3, "elites": 10 * small.elites // 3}
    larger: Any = replace(small, iterations=2 * small.iterations, **sizes)  # pyright: ignore[reportArgumentType]
    before, after = (100.0 * run(alone, {"raw": LatentMSE()}, few, search).success[0] for search in (small, larger))
    target = 100.0 * best.success[0][np.isin(best.episodes, few.episodes)]
    text = (
        f"success: {small.candidates} x {small.iterations} {before.mean():.0f} %, {larger.candidates} x "
        f"{larger.iterations} {after.mean():.0f} %, {'head' if subject.heads else 'oracle'} {target.mean():.0f} %"
        f"{'' if subject.proposal is None else ', all without injected candidates'}; "
        "remaining gap minus half of the old one"
    )
    compared = _compared((target - after) - (target - before) / 2, text, few.episodes)
    if target.mean() > before.mean():
        return compared
    return replace(compared, outcome="undecided", evidence=f"there is no gap: {compared.evidence}")


def _coverage(subject: Subject) -> Criterion:
    task, evaluation = subject.require_simulator()
    latents, seed = subject.latents.without(evaluation), subject.seed
    if not task.offers("distance"):
        raise Untested("needs a task with an oracle distance")
    if "state" not in latents.logs.columns:
        raise Untested("needs logs with a column `state`")
    anywhere = OraclePairs(latents, task, count=1, seed=seed).validation
    _, places = located_rows(latents, task, seed)
    rows = max(2, int(min(COVERAGE_ROWS, (places == FAR).sum(), 2 * (places == NEAR).sum())))

    def pairs(setting: str) -> OraclePairs:
        part = covered_latents(latents, setting, task, rows, seed)
        return OraclePairs(part, task, COVERAGE_PAIRS, seed=seed, groups=pair_groups(setting, task))

    sampled = {setting: pairs(setting) for setting in ("limited", "balanced")}
    recipe, progress = Recipe.paper(epochs=8), subject.progress
    heads = {name: fit(pairs, recipe, seed=seed, progress=progress) for name, pairs in sampled.items()}
    errors = {name: evaluate(head, latents.values, anywhere)[1] for name, head in heads.items()}
    if errors["balanced"] >= errors["limited"]:
        why = "coverage of the bottleneck did not lower the error here, so the criterion cannot be tested"
        return Criterion("", "undecided", why)
    costs = {name: HeadCost(head) for name, head in heads.items()}
    found = sasc(task, subject.model, costs, evaluation, planned_pools(subject))
    limited, balanced = (found.rankings[name].oracle_best_rank for name in costs)
    text = (
        f"error {errors['limited']:.3g} without the bottleneck, {errors['balanced']:.3g} with it (in the unit of the "
        f"oracle distance); rank {limited.mean():.1f} % and {balanced.mean():.1f} %"
    )
    return _compared(limited - balanced, text, found.episodes)
