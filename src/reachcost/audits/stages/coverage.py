"""Coverage: do the logs that a head learned from hold the ways it has to judge?"""

from __future__ import annotations

import numpy as np
import torch

from reachcost.audits.coverage import uncovered
from reachcost.audits.stage import Rule, Stage, judge, judge_grouped, unknown
from reachcost.audits.subject import Subject
from reachcost.base.seeding import generator
from reachcost.data.rollouts import encoded

NAME = "coverage"
RULE = Rule(
    "% of ways through a gap",
    30.0,
    False,
    "log episodes on the ways to such goals (bottlenecks, passages) and fit the head again, or let the world model "
    "imagine them (reachcost fit --labels imagined)",
    share=True,
)
PLACES_RULE = Rule("% of places not in the logs", 10.0, False, RULE.advice, share=True)
"""The rule where no way is known: of the ends of candidates or, without a simulator, of held-out rows."""
GAP = 3
"""States in a row that the logs do not hold."""
PLACES = 2_000
"""Held-out rows that the logs are asked to cover."""


def measure(subject: Subject) -> Stage:
    """Share of episodes (of those that fail, if any do) whose way leads through states that the logs do not hold.

    Ways are those of the planner that knows everything. A state is not held if it lies farther from the logs than 99 %
    of these do from each other.
    """
    rule = subject.rule(NAME, RULE)
    if not subject.learned:
        return unknown(NAME, rule, "no logs were learned from")
    if subject.oracle_runs is not None:
        episodes, gaps = _ways(subject)
        return judge(NAME, rule, 100.0 * gaps, episodes)
    rule = subject.rule("coverage-places", PLACES_RULE)
    if subject.executed is not None:
        ends = subject.executed
        places, episodes = ends.true.flatten(0, 1), ends.episodes.repeat(ends.true.shape[1])
    elif subject.held_out is not None:
        chosen = generator(0, "coverage").permutation(len(subject.held_out.values))[:PLACES]
        places, episodes = subject.held_out.values[torch.from_numpy(chosen)], subject.held_out.logs.episode_of(chosen)
    else:
        return unknown(NAME, rule, "needs --held-out, or --task without --logs-only")
    return judge_grouped(NAME, rule, 100.0 * uncovered(places, _learned_from(subject)).numpy(), episodes)


def _ways(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the episodes that are asked about [N], and whether their ways lead through a gap: bool [N]."""
    task, _ = subject.require_place()
    known, tried = subject.oracle_runs, subject.runs
    assert known is not None
    failed = np.zeros(len(known.episodes), bool) if tried is None else ~tried.success[0]
    asked = np.flatnonzero(failed if failed.any() else np.ones_like(failed))
    paths, steps = known.paths[0][asked], known.steps[0][asked]
    states = paths.reshape(-1, *paths.shape[2:])
    latents = encoded(subject.model, task.observe(states), len(states)).cpu()
    missed = uncovered(latents, _learned_from(subject)).numpy().reshape(paths.shape[:2])
    missed &= np.arange(paths.shape[1]) <= steps[:, None]  # where a task stops at success, the last state repeats
    in_a_row = [missed[:, shift : max(0, missed.shape[1] - GAP + 1) + shift] for shift in range(GAP)]
    return known.episodes[asked], np.all(in_a_row, axis=0).any(1)


def _learned_from(subject: Subject) -> torch.Tensor:
    """Latents of the logs, without the episodes that hold a start or goal [R, D]."""
    logs = subject.latents.logs
    learned = ~logs.in_episodes(subject.evaluated_episodes)
    return subject.latents.values[torch.from_numpy(learned)]
