"""Stages measured in success: goals within reach, and closed loops with true or predicted ends of candidates."""

from __future__ import annotations

from typing import cast

import numpy as np

from reachcost.audits.measurements import audited_runs, exact_dynamics, oracle_runs, run
from reachcost.audits.stage import Rule, Stage, apply_rule, unknown
from reachcost.audits.stages import ranking
from reachcost.audits.subject import Subject, once
from reachcost.core.seeding import generator
from reachcost.costs.oracle import EncodedCost
from reachcost.planning.control import ControlRuns, budget_of


def _rule(stage: str, measured: str, advice: str) -> Rule:
    return Rule(stage, measured, 80.0, True, advice, share=True)


GOALS = _rule(
    "goals",
    "% of goals within reach",
    "too many goals cannot be reached within the budget: give nearer goals or a larger budget",
)
SAMPLING = _rule(
    "sampling",
    "% success, oracle planner",
    "this planner misses its goals even with true dynamics and distance: use more candidates, iterations or horizon, "
    "or nearer goals",
)
FORESIGHT = _rule(
    "foresight",
    "% success, true ends",
    "the cost fails even if it knows where candidates end: fit a better head (reachcost fit)",
)
EXECUTION = _rule(
    "execution",
    "% success in closed loop",
    "no stage explains the failures: try more episodes, a better head (more logs, more pairs), a longer budget",
)
MOVES = 20_000  # logged moves from which the maximum speed is estimated
STEPS = (1, 2, 4)  # steps of a move; single steps overestimate the speed if distances count cells
SLACK = 1.1  # factor on the maximum speed, as logs may not contain the fastest possible move
ADDS_UP = 2.0  # maximum ratio of the speed over several steps to that of single steps
EPISODES = 12  # episodes of foresight: every candidate of every plan is executed and encoded
CLEAR = 0.5  # share of its threshold below which a ranking is clearly at fault, so that foresight is not measured


@once
def goals(subject: Subject) -> Stage:
    """Share of goals whose true distance is at most the budget times the maximum known speed.

    A goal that the oracle planner reached counts as within reach at any distance.
    """
    rule = subject.rule(GOALS)
    if not subject.has_distance:
        return unknown(rule, "needs a simulator with an oracle distance")
    task, evaluation = subject.require_simulator()
    speeds = {steps: moves / steps for steps in STEPS if len(moves := _moves(subject, steps))}
    if not speeds:
        return unknown(rule, "needs logs with a column `state`")
    typical = [np.percentile(speed, 99) for speed in speeds.values()]
    if max(typical) > ADDS_UP * typical[0]:
        return unknown(rule, "the distance grows faster than steps add up: give one that adds up along a path")
    farthest = SLACK * budget_of(task, evaluation) * min(speed.max() for speed in speeds.values())
    far = np.asarray(task.distance(evaluation.starts, evaluation.goals))
    within = (far <= farthest) | task.success(evaluation.starts, evaluation.goals)
    if (oracle := oracle_runs(subject)) is not None:
        within |= oracle.success[0]
    return apply_rule(rule, 100.0 * within, evaluation.episodes)


def _moves(subject: Subject, steps: int) -> np.ndarray:
    """Distances covered in this number of steps, in the logs and by the oracle planner [N]."""
    (task, _), logs = subject.require_simulator(), subject.latents.logs
    ends = []
    if "state" in logs.columns:
        rows = generator(0, "moves").permutation(logs.window_starts(steps + 1))[:MOVES]
        ends += [tuple(np.asarray(logs.columns["state"])[rows + step] for step in (0, steps))]
    if (oracle := oracle_runs(subject)) is not None:
        path = oracle.paths[0]
        ends += [tuple(part.reshape(-1, *path.shape[2:]) for part in (path[:, :-steps], path[:, steps:]))]
    found = np.concatenate([np.empty(0), *(np.asarray(task.distance(*pair), float) for pair in ends)])
    return found[np.isfinite(found)]


@once
def sampling(subject: Subject) -> Stage:
    """Success of the same search with true dynamics and true distance."""
    missing = "needs a simulator with an oracle distance, and states that are vectors"
    return _of_runs(subject.rule(SAMPLING), oracle_runs(subject), missing)


def foresight(subject: Subject) -> Stage:
    """Success of the planner on some episodes with true dynamics and the audited cost."""
    rule = subject.rule(FORESIGHT)
    if not _needs_foresight(subject):
        return unknown(rule, "not needed: other stages decide the verdict")
    exact = exact_dynamics(subject)
    if exact is None:
        return unknown(rule, "needs a simulator, and states that are vectors")
    _, evaluation = subject.require_simulator()
    some = evaluation.spread(min(EPISODES, len(evaluation)))
    runs = run(subject, {"audited": EncodedCost(exact, subject.model, subject.cost)}, some, model=exact)
    return apply_rule(rule, 100.0 * runs.success[0], runs.episodes)


def _needs_foresight(subject: Subject) -> bool:
    """Whether episodes fail although goals and search do not, and the ranking is not clearly at fault."""
    if execution(subject).outcome != "fail":
        return False
    if goals(subject).outcome == "fail" or sampling(subject).outcome == "fail":
        return False
    order = ranking.measure(subject)
    return order.outcome != "fail" or cast(float, order.value) >= CLEAR * order.threshold


@once
def execution(subject: Subject) -> Stage:
    """Success in closed loop."""
    return _of_runs(subject.rule(EXECUTION), audited_runs(subject), "needs a simulator or trials")


def _of_runs(rule: Rule, runs: ControlRuns | None, missing: str) -> Stage:
    return unknown(rule, missing) if runs is None else apply_rule(rule, 100.0 * runs.success[0], runs.episodes)
