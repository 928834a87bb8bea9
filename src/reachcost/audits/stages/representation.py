"""Representation: can a probe read every coordinate that a frame shows from its latent?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reachcost.audits.coordinates import split
from reachcost.audits.stage import Rule, Stage, judge, unknown
from reachcost.audits.subject import Subject
from reachcost.data.probe import deviation, fit_probe, lift

NAME = "representation"
RULE = Rule(
    "R2 of the worst coordinate",
    0.9,
    True,
    "a coordinate cannot be read from the latent: look at the world model first, and at what one frame can show",
)
LOST = 0.5
"""Without a simulator the stage fails below this R2, and is unknown between this and the threshold."""


def measure(subject: Subject) -> Stage:
    """R2 of a probe on episodes that it was not fitted on; the worst coordinate counts."""
    rule = subject.rule(NAME, RULE)
    parts = split(subject)
    if parts is None:
        return unknown(NAME, rule, "needs logs with a column `state`, of five or more episodes")
    (latents, targets), (unseen, known) = parts
    varies = known.std(0) > 1e-6 * np.abs(known).max(initial=1e-12)
    if not varies.any():
        return unknown(NAME, rule, "no coordinate varies in the logs: look at their column `state`")
    middle, unit = latents.mean(0), deviation(latents)
    latents, unseen = (lift((part - middle) / unit) for part in (latents, unseen))
    read = fit_probe(latents, targets)(unseen).double().numpy()
    r2 = 1 - ((read - known) ** 2).sum(0)[varies] / ((known - known.mean(0)) ** 2).sum(0)[varies]
    worst = float(r2.min())
    if subject.place is None and LOST <= worst < rule.threshold:
        return replace(
            judge(NAME, rule, worst), outcome="unknown", advice="a coordinate is read poorly: " + rule.advice
        )
    return judge(NAME, rule, worst)
