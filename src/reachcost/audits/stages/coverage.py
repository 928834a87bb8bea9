"""Coverage: do the logs that a head learned from hold the places it has to judge?"""

from __future__ import annotations

import numpy as np
import torch

from reachcost.audits.coverage import uncovered
from reachcost.audits.stage import Rule, Stage, judge_grouped, unknown
from reachcost.audits.subject import EXECUTED, Subject
from reachcost.base.seeding import generator

NAME = "coverage"
RULE = Rule(
    "% of places not in the logs",
    10.0,
    False,
    "log episodes where the planner has to judge (bottlenecks, passages), then fit the head again",
    share=True,
)
PLACES = 2_000
"""Held-out rows that the logs are asked to cover."""


def measure(subject: Subject) -> Stage:
    """Share of the places to judge that lie farther from the logs than these do from each other."""
    if not subject.learned:
        return unknown(NAME, RULE, "no logs were learned from")
    if subject.executed is not None:
        numbers = subject.require_place()[1].episodes
        places = torch.cat([subject.executed[2], subject.goal_latents])
        episodes = np.concatenate([np.repeat(numbers, EXECUTED), numbers])
    elif subject.held_out is not None:
        chosen = generator(0, "coverage").permutation(len(subject.held_out.values))[:PLACES]
        places = subject.held_out.values[torch.from_numpy(chosen)]
        episodes = subject.held_out.logs.episode_of(chosen)
    else:
        return unknown(NAME, RULE, "needs --held-out or --task")
    logs = subject.latents.logs
    learned = ~np.isin(logs.episode_of(np.arange(logs.rows)), subject.evaluated_episodes)
    logged = subject.latents.values[torch.from_numpy(learned)]
    return judge_grouped(NAME, RULE, 100.0 * uncovered(places, logged).numpy(), episodes)
