"""The repair inside stable-worldmodel: its TwoRoom, its CEM, its `World.evaluate`; only the cost changes.

Two minutes on two cores. Needs the extra `swm`: pip install 'reachcost[swm]'.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tyro

import reachcost as rc
from reachcost.swm import RepairedModel, SwmModel
from reachcost.swm.evaluation import evaluate_in_world


def main(episodes: int = 20, log_episodes: int = 3000) -> dict[str, float]:
    """Success in percent with latent distance, with a head, and of random actions.

    Args:
        episodes: Of the high-distance evaluation set, at most 100.
        log_episodes: Logged episodes that the head learns from.
    """
    task, model = rc.make_task("tworoom"), rc.load_world_model("lewm-tworoom-3072")
    goals = task.evaluation_set("high-distance")
    head = rc.fit(rc.TemporalPairs(rc.encode_logs(model, task.generate_logs(log_episodes)), exclude=goals))

    raw = SwmModel(model)  # a bundled model as one of theirs
    repaired = RepairedModel(raw, head)  # the repair: any solver takes it in place of the model

    costs = {"raw": raw, "repaired": repaired, "random": None}
    few = goals.spread(episodes)
    return {name: 100 * evaluate_in_world(cost, model.actions, few).mean() for name, cost in costs.items()}


if __name__ == "__main__":
    # This file has the name of the package it shows: its directory must not be where imports are looked for.
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]
    for name, success in tyro.cli(main).items():
        print(f"{name:<8} {success:3.0f} %")
