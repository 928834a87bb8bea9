"""A TopoNav reproduction that takes seconds; run as a script, it is what the kill test kills."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from reachcost.base.progress import Progress
from reachcost.experiments.toponav import OUR_HEAD, PAPER_HEAD, SHUFFLED_HEAD, HeadPlan, Settings
from reachcost.experiments.toponav_tables import reproduce_toponav


def shorter(plan: HeadPlan) -> HeadPlan:
    return replace(plan, recipe=replace(plan.recipe, epochs=2, hidden=16))


SMALL = Settings(
    head_seeds=(1, 2),
    episodes=6,
    log_episodes=60,
    train_pairs=2000,
    validation_pairs=200,
    resamples=500,
    heads={"trm-paper": shorter(PAPER_HEAD), "shuffled": shorter(SHUFFLED_HEAD), "trm": shorter(OUR_HEAD)},
)

if __name__ == "__main__":
    reproduce_toponav(Path(sys.argv[1]), Progress(), SMALL)
