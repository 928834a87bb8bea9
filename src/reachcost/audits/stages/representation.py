"""Representation: can the state be read out of the latent?"""

from __future__ import annotations

from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject
from reachcost.data.probe import score_probe

NAME = "representation"
RULE = Rule(
    "R2 of a probe of the state",
    0.95,
    True,
    "the state cannot be read linearly from the latent: look at the world model first (a head may still read it)",
)


def measure(subject: Subject) -> Stage:
    """R2 of a linear probe of the coordinates, on episodes that it was not fitted on."""
    if subject.probe is None or subject.split is None:
        return unknown(NAME, RULE, "needs logs with a column `state`, of five or more episodes")
    return judge(NAME, RULE, score_probe(subject.probe, *subject.split[1]).r2)
