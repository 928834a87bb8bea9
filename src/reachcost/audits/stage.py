"""A stage of a planner: its rule, what was measured, and whether it passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from reachcost.results.stats import cluster_bootstrap, paired_bootstrap, wilson

NO_EPISODE = -1  # episode number of a measurement that belongs to no single episode


@dataclass(frozen=True)
class Rule:
    """When a stage passes."""

    stage: str  # name of the stage
    measured: str  # what is measured
    threshold: float  # value at which the stage just passes
    higher: bool  # whether larger values are better
    advice: str  # what to do if the stage fails
    share: bool = False  # whether the value is a percentage of episodes, or of something within each episode
    name: str = ""  # name of the threshold, if it is not that of the stage


@dataclass(frozen=True)
class Stage:
    """The measurement of one stage; name, measured, threshold and higher are those of its rule."""

    name: str
    outcome: Literal["pass", "fail", "unknown"]  # whether it passes; unknown if it could not be measured
    measured: str
    value: float | None  # the measured number
    interval: tuple[float, float] | None  # 95 % confidence interval over episodes (goals), if there are several
    n: int  # number of episodes (goals)
    threshold: float
    higher: bool
    advice: str  # what to do if it fails, or why it is unknown
    # One number for each episode (goal) [n], and their numbers in the evaluation set or in the logs, or `NO_EPISODE`.
    rows: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    episodes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False, compare=False)

    @property
    def near(self) -> bool:
        """Whether the interval contains the threshold, so that more episodes may change the outcome."""
        return self.interval is not None and self.interval[0] <= self.threshold <= self.interval[1]


def unknown(rule: Rule, why: str) -> Stage:
    """A stage that could not be measured."""
    return Stage(rule.stage, "unknown", rule.measured, None, None, 0, rule.threshold, rule.higher, why)


def apply_rule(rule: Rule, values: np.ndarray | float, episodes: np.ndarray | None = None) -> Stage:
    """Compare a value, or the mean of values [N] of episodes [N], with the rule of its stage.

    Values of one episode are not independent, so a row is their mean, and the interval counts episodes.
    """
    values = np.atleast_1d(values)
    episodes = np.full(len(values), NO_EPISODE) if episodes is None else episodes
    numbers, group, counts = np.unique(episodes, return_inverse=True, return_counts=True)
    rows, value, interval = np.bincount(group, weights=values) / counts, float(np.mean(values)), None
    if len(rows) > 1 and rule.share:
        # Shares within an episode vary less than 0 and 100 would, so Wilson's interval is wide enough.
        low, high = wilson(value / 100 * len(rows), len(rows))
        interval = 100 * low, 100 * high
    elif len(rows) > 1:
        low, high = paired_bootstrap(rows[:, None], resamples=10_000)[:, 0]
        interval = float(low), float(high)
    return compare(rule, value, interval, rows, numbers)


def apply_rule_to_ratio(rule: Rule, parts: np.ndarray, totals: np.ndarray, episodes: np.ndarray) -> Stage:
    """Compare sum(parts) / sum(totals) with the rule of a stage. An episode may have several parts and totals [N].

    A row is the sum of parts of an episode / the mean sum of totals, so that the mean of the rows is the value.
    """
    numbers, group = np.unique(episodes, return_inverse=True)
    part, total = (np.bincount(group, weights=values) for values in (parts, totals))
    with np.errstate(divide="ignore", invalid="ignore"):  # the totals may sum to 0, in all episodes or in a resample
        sums = np.stack([part, total], 1)
        low, high = cluster_bootstrap(sums, np.arange(len(part)), lambda sums: sums[:, 0] / sums[:, 1])
        rows = part / total.mean()
        value = float(part.sum() / total.sum())
    known = len(numbers) > 1 and np.isfinite([low, high]).all()
    return compare(rule, value, (float(low), float(high)) if known else None, rows, numbers)


def compare(
    rule: Rule, value: float, interval: tuple[float, float] | None, rows: np.ndarray, episodes: np.ndarray
) -> Stage:
    """Compare a value with the rule of its stage; the value is computed from rows [N] of episodes [N]."""
    if not np.isfinite(value):  # all inputs are finite, so it is 0 / 0
        return unknown(rule, "the measurement is not finite: look for states that never vary")
    passes = value >= rule.threshold if rule.higher else value <= rule.threshold
    outcome, advice = ("pass", "") if passes else ("fail", rule.advice)
    measured = {"value": value, "interval": interval, "n": len(rows), "rows": rows, "episodes": episodes}
    return replace(unknown(rule, advice), outcome=outcome, **measured)
