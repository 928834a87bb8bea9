"""A stage of a planner, judged: what was measured of it, and whether it passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
        rows: The numbers behind it [n], by episode (goal, place).
        episodes: Which those are [n].
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
    rows: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    episodes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False, compare=False)

    @property
    def near(self) -> bool:
        """Whether its interval holds the threshold, so that more episodes may change the outcome."""
        return self.interval is not None and self.interval[0] <= self.threshold <= self.interval[1]

    def document(self) -> dict[str, Any]:
        """The stage as JSON values, without its rows."""
        kept = ("name", "outcome", "measured", "value", "interval", "n", "threshold", "higher", "advice")
        return {name: getattr(self, name) for name in kept}


def unknown(name: str, rule: Rule, why: str) -> Stage:
    """A stage that could not be measured."""
    return Stage(name, "unknown", rule.measured, None, None, 0, rule.threshold, rule.higher, why)


def judge(name: str, rule: Rule, values: np.ndarray | float, episodes: np.ndarray | None = None) -> Stage:
    """Compare a value, or the mean of values [N], with the rule of its stage.

    >>> rule = Rule("skill", 0.5, True, "train the predictor")
    >>> judge("dynamics", rule, 0.98).outcome, judge("dynamics", rule, -0.2).advice
    ('pass', 'train the predictor')
    """
    each = np.atleast_1d(values)
    if not np.isfinite(each).all():
        return unknown(name, rule, "the measurement is not finite: look for states that never vary")
    value = float(np.mean(each))
    passes = value >= rule.threshold if rule.higher else value <= rule.threshold
    outcome, advice = ("pass", "") if passes else ("fail", rule.advice)
    interval = _interval(each) if len(each) > 1 else None
    numbers = np.arange(len(each)) if episodes is None else episodes
    return Stage(
        name, outcome, rule.measured, value, interval, len(each), rule.threshold, rule.higher, advice, each, numbers
    )


def _interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean of values [N]; Wilson for shares, which are 0 or 100."""
    if np.isin(values, (0, 100)).all():
        low, high = wilson(int((values == 100).sum()), len(values))
        return 100 * low, 100 * high
    low, high = paired_bootstrap(values[:, None], resamples=10_000)[:, 0]
    return float(low), float(high)
