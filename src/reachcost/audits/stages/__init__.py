"""The stages of a planner, in the order in which the verdict blames them, and the verdict.

A stage is a rule and a function that measures it, `(subject) -> Stage`. What several stages read is a function marked
with `once`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from reachcost.audits.stage import Rule, Stage
from reachcost.audits.stages import coverage, dynamics, ranking, representation, success
from reachcost.audits.subject import Subject

Stages = dict[str, tuple[Rule, Callable[[Subject], Stage]]]
# Can the search reach the goals with true dynamics and distance? If not, no other stage is to blame.
TASK: Stages = {"goals": (success.GOALS, success.goals), "sampling": (success.SAMPLING, success.sampling)}
# Does the cost order true ends well? The first two stages are causes of a bad order.
COST: Stages = {
    "representation": (representation.RULE, representation.measure),
    "coverage": (coverage.RULE, coverage.measure),
    "ranking": (ranking.RULE, ranking.measure),
}
# Does the world model predict true ends?
MODEL: Stages = {"dynamics": (dynamics.RULE, dynamics.measure)}
# Success of the planner with true and with predicted ends; these stages are never blamed.
EVIDENCE: Stages = {
    "foresight": (success.FORESIGHT, success.foresight),
    "execution": (success.EXECUTION, success.execution),
}
ALL = TASK | COST | MODEL | EVIDENCE
STAGES = {name: measure for name, (_, measure) in ALL.items()}
RULES = {name: rule for name, (rule, _) in ALL.items()}
# Rules of stages that are measured without an oracle distance, or without an oracle path.
RULES |= {rule.name: rule for rule in (ranking.LOGS_RULE, coverage.PLACES_RULE)}
NOTHING, CANNOT_TELL = "none", "cannot tell"


class Verdict(NamedTuple):
    """The stage to blame (or `none`, `cannot tell`), why unless its measurement shows it, and what to do."""

    blamed: str
    reason: str = ""
    advice: str = ""


def verdict_of(stages: Sequence[Stage]) -> Verdict:
    """The stage to blame, with the reason and the advice."""
    found = {stage.name: stage for stage in stages}
    failing = [name for name in STAGES if name in found and found[name].outcome == "fail"]
    blamed = _blame(found, failing)
    if blamed == NOTHING:
        although = f", although {', '.join(failing)} failed" if failing else ""
        return Verdict(blamed, f"episodes reach their goals{although}")
    if blamed == CANNOT_TELL:
        reason = "the measurements do not explain the failures" if failing else "no measured stage fails"
        return Verdict(blamed, reason, "provide what the unknown stages need, or test the planner in closed loop")
    if blamed in failing:
        return Verdict(blamed, advice=found[blamed].advice)
    many, rule = ("most", "dynamics") if blamed == "dynamics" else ("few", "foresight")
    return Verdict(blamed, f"by elimination: knowing true ends would fix {many} failures", RULES[rule].advice)


def _blame(found: dict[str, Stage], failing: list[str]) -> str:
    """The first rule that applies."""
    task, cost, model = (next((name for name in group if name in failing), None) for group in (TASK, COST, MODEL))
    measured = {name for name, stage in found.items() if stage.value is not None}
    if "execution" in measured and "execution" not in failing:
        return NOTHING
    if task:
        return task
    if {"foresight", "execution"} <= measured:
        return _by_foresight(found, cost, model, oracle="sampling" in measured)
    if cost and ("ranking" in failing or "execution" not in failing):
        return cost
    return model or cost or CANNOT_TELL


def _by_foresight(found: dict[str, Stage], cost: str | None, model: str | None, oracle: bool) -> str:
    """The world model or the cost, whichever loses more success on the episodes of foresight.

    Success with true minus predicted ends is the loss to the model, oracle minus true ends the loss to the cost.
    """
    if cost == "representation" and found["foresight"].outcome == "fail":
        return cost  # no model predicts what the latent does not contain
    episodes = found["foresight"].episodes

    def rate(stage: str) -> float:
        return float(found[stage].rows[np.isin(found[stage].episodes, episodes)].mean())

    best, foreseen, reached = rate("sampling") if oracle else 100.0, rate("foresight"), rate("execution")
    if foreseen - reached >= best - foreseen:
        return model or "dynamics"
    return (cost or "ranking") if oracle else CANNOT_TELL  # without an oracle, the search may be to blame as well
