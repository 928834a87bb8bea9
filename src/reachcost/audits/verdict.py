"""The verdict of an audit: the stage to blame, why, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reachcost.audits.stage import Stage
from reachcost.audits.stages import (
    COST,
    MODEL,
    STAGES,
    TASK,
    dynamics,
    execution,
    foresight,
    ranking,
    representation,
    sampling,
)

NOTHING, CANNOT_TELL = "none", "cannot tell"


class Verdict(NamedTuple):
    """What follows from the stages."""

    blamed: str
    """Name of the stage to blame; `none` if episodes succeed, `cannot tell` if the measurements explain nothing."""
    reason: str = ""
    """Why, unless the measurement of the blamed stage is the reason."""
    advice: str = ""
    """What to do next."""


def verdict_of(stages: Sequence[Stage]) -> Verdict:
    """Decide which stage to blame.

    1. None, if episodes succeed.
    2. Goals out of reach, or a search that misses them with true dynamics and true distance.
    3. If foresight was measured: the dynamics or the cost, whichever loses more success. True ends against predicted
       ends measure the loss to the dynamics, the oracle against true ends the loss to the cost.
    4. The cost, if it orders true ends badly; or its cause, a latent that lost a coordinate or logs with a gap.
    5. The dynamics, if they fail.

    >>> from reachcost.audits.stage import judge
    >>> found = [judge(name, STAGES[name].RULE, value) for name, value in (("ranking", 0.1), ("execution", 14.0))]
    >>> verdict_of(found).blamed
    'ranking'
    """
    found = {stage.name: stage for stage in stages}
    failing = [name for name in STAGES if name in found and found[name].outcome == "fail"]
    task, cost, model = (
        next((stage.NAME for stage in group if stage.NAME in failing), None) for group in (TASK, COST, MODEL)
    )
    measured = {stage.name for stage in stages if stage.value is not None}
    if execution.NAME in found and found[execution.NAME].outcome == "pass":
        although = f", although {', '.join(failing)} failed" if failing else ""
        return Verdict(NOTHING, f"episodes reach their goals{although}")
    if task:
        blamed = task
    elif {foresight.NAME, execution.NAME} <= measured:
        blamed = _by_foresight(found, cost, model)
    elif cost and (ranking.NAME in failing or execution.NAME not in failing):
        blamed = cost
    else:
        blamed = model or cost or CANNOT_TELL
    if blamed == CANNOT_TELL:
        reason = "the measurements do not explain the failures" if failing else "no measured stage fails"
        return Verdict(blamed, reason, "provide what the unknown stages need")
    if blamed in failing:
        return Verdict(blamed, advice=found[blamed].advice)
    if blamed == dynamics.NAME:
        return Verdict(blamed, "by elimination: knowing true ends would fix most failures", dynamics.RULE.advice)
    return Verdict(blamed, "by elimination: knowing true ends would fix few failures", foresight.RULE.advice)


def _by_foresight(found: dict[str, Stage], cost: str | None, model: str | None) -> str:
    """The world model or the cost, whichever loses more success on the episodes of foresight."""
    if cost == representation.NAME and found[foresight.NAME].outcome == "fail":
        return cost  # no model predicts what the latent does not hold
    episodes = found[foresight.NAME].episodes

    def success(stage: str) -> float:
        return float(found[stage].rows[np.isin(found[stage].episodes, episodes)].mean())

    oracle = sampling.NAME in found and found[sampling.NAME].value is not None
    known = success(sampling.NAME) if oracle else 100.0
    if success(foresight.NAME) - success(execution.NAME) >= known - success(foresight.NAME):
        return model or dynamics.NAME
    return (cost or ranking.NAME) if oracle else CANNOT_TELL  # without an oracle, the search may be to blame as well
