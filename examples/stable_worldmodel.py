"""The repair inside stable-worldmodel: its environment, its CEM, its `World.evaluate`; only the cost changes.

Two minutes on two cores; needs the extra `swm`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import reachcost as rc
from reachcost.swm import RepairedModel, SwmModel
from reachcost.swm.evaluation import evaluate_in_world, goals_dataset


def main(episodes: int = 20, log_episodes: int = 3000) -> dict[str, float]:
    """Success in percent with latent distance and with a head."""
    task, model = rc.make_task("tworoom"), rc.load_world_model("lewm-tworoom-3072")
    goals = task.evaluation_set("high-distance").spread(episodes)
    head = rc.fit(rc.TemporalPairs(rc.encode_logs(model, task.generate_logs(log_episodes)), exclude=goals))

    theirs = SwmModel(model)  # or a model of stable-worldmodel
    costs = {"raw": theirs, "trm": RepairedModel(theirs, head)}  # the two lines: import, wrap
    with tempfile.TemporaryDirectory() as folder:
        dataset = goals_dataset(goals, task, Path(folder) / "goals.h5")
        return {
            name: 100 * evaluate_in_world(cost, model.actions, dataset, episodes).mean() for name, cost in costs.items()
        }


if __name__ == "__main__":
    for name, success in main().items():
        print(f"{name} {success:.0f}%")
