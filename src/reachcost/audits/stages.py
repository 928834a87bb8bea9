"""The stages of a planner, what is measured of each, and when it passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from reachcost.results.stats import paired_bootstrap, wilson


@dataclass(frozen=True)
class Rule:
    """How a stage is judged."""

    measured: str
    """What is measured."""
    threshold: float
    """Where passing begins."""
    higher: bool
    """Whether larger values are better."""
    advice: str
    """What to do when it fails."""


RULES = {
    "representation": Rule(
        "R2 of a probe of the state",
        0.95,
        True,
        "the state cannot be read linearly from the latent: look at the world model first (a head may still read it)",
    ),
    "dynamics": Rule(
        "skill of predicting states",
        0.5,
        True,
        "predicted ends are wrong: train the predictor on such actions, or clamp them to the logged range",
    ),
    "coverage": Rule(
        "% of places not in the logs",
        10.0,
        False,
        "log episodes where the planner has to judge (doors, bottlenecks), then fit the head again",
    ),
    "sampling": Rule(
        "% success, oracle planner",
        80.0,
        True,
        "this planner misses its goals even if it knows everything: more candidates, iterations or horizon",
    ),
    "ranking": Rule(
        "% ranked before the best",
        10.0,
        False,
        "the terminal cost buries good candidates: fit a head on the logs (reachcost fit) and audit it with --head",
    ),
    "execution": Rule(
        "% success in closed loop",
        80.0,
        True,
        "no stage explains the failures: try more episodes, a better head (more logs, more pairs), a longer budget",
    ),
}
"""In causal order: a stage can only work if those before it do."""
LOGGED_RANKING = Rule("correlation, logged times", 0.9, True, RULES["ranking"].advice)
"""The rule of ranking without a simulator: rank correlation with the fastest logged way."""


LEARNED_RANKING = "this head ranks candidates badly: fit it on more logs or pairs, and on true labels"
"""What to do when the cost is a head already."""


@dataclass(frozen=True)
class Stage:
    """One stage, judged.

    Attributes:
        name: Which stage.
        outcome: Whether it passes; unknown if it could not be measured.
        measured: What was measured.
        value: The measured number.
        interval: Its 95 % interval over episodes, where it is a mean over them.
        n: Episodes (goals, places) behind it.
        threshold: Where passing begins.
        higher: Whether larger values are better.
        advice: What to do if it fails, or why it is unknown.
    """

    name: str
    outcome: Literal["pass", "fail", "unknown"]
    measured: str
    value: float | None
    interval: tuple[float, float] | None
    n: int
    threshold: float
    higher: bool
    advice: str

    @property
    def near(self) -> bool:
        """Whether its interval holds the threshold, so that more episodes may change the outcome."""
        return self.interval is not None and self.interval[0] <= self.threshold <= self.interval[1]


def judge(
    name: str, values: np.ndarray | float | str, rule: Rule | None = None, threshold: float | None = None
) -> Stage:
    """Compare a value, or the mean of values [N], with the rule of its stage; a text says why there is none.

    >>> judge("dynamics", 0.98).outcome, judge("dynamics", -0.2).outcome, judge("dynamics", "give logs").outcome
    ('pass', 'fail', 'unknown')
    """
    rule = rule or RULES[name]
    threshold = rule.threshold if threshold is None else threshold
    if isinstance(values, str) or not np.isfinite(values).all():
        advice = values if isinstance(values, str) else "the measurement is not finite: look for states that never vary"
        return Stage(name, "unknown", rule.measured, None, None, 0, threshold, rule.higher, advice)
    value, each = float(np.mean(values)), np.atleast_1d(values)
    passes = value >= threshold if rule.higher else value <= threshold
    outcome, advice = ("pass", "") if passes else ("fail", rule.advice)
    interval = _interval(each) if len(each) > 1 else None
    return Stage(name, outcome, rule.measured, value, interval, len(each), threshold, rule.higher, advice)


def _interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean of values [N]; Wilson for shares, which are 0 or 100."""
    if np.isin(values, (0, 100)).all():
        low, high = wilson(int((values == 100).sum()), len(values))
        return 100 * low, 100 * high
    low, high = paired_bootstrap(values[:, None], resamples=10_000)[:, 0]
    return float(low), float(high)


def verdict(stages: list[Stage]) -> str:
    """The first stage that fails, in causal order.

    `none` if episodes succeed; `unknown` if nothing fails but success was not measured.

    >>> verdict([judge("dynamics", 0.98), judge("ranking", 27.0), judge("execution", 14.0)])
    'ranking'
    """
    outcomes = {stage.name: stage.outcome for stage in stages}
    if outcomes.get("execution") == "pass":
        return "none"
    return next((name for name in RULES if outcomes.get(name) == "fail"), "unknown")
