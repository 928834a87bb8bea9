"""The repair inside stable-worldmodel: its TwoRoom, its CEM, its `World.evaluate`; only the cost changes.

Four minutes on two cores. Needs the extra `swm`: pip install 'reachcost[swm]'.
"""

import sys
from pathlib import Path

import tyro
from rich.console import Console

import reachcost as rc
from reachcost.core.progress import ConsoleProgress
from reachcost.swm import RepairedModel, SwmModel
from reachcost.swm.evaluation import evaluate_in_world, import_stable_worldmodel


def main(episodes: int = 20, log_episodes: int = 3000, pairs: int = 100_000) -> None:
    """Print success with latent distance, with a head, and of random actions.

    Args:
        episodes: Number of episodes of the high-distance evaluation set, at most 100.
        log_episodes: Number of logged episodes that the head learns from.
        pairs: Number of training pairs in an epoch.
    """
    import_stable_worldmodel()
    progress = ConsoleProgress(Console(stderr=True))
    task, model = rc.make_task("tworoom"), rc.load_world_model("lewm-tworoom-3072")
    goals = task.evaluation_set("high-distance")
    few = goals.spread(episodes)

    progress.step("latents")
    head = rc.repair(model, task.generate_logs(log_episodes), exclude=goals, pairs=pairs, progress=progress)

    raw = SwmModel(model)  # a bundled model as one of theirs
    repaired = RepairedModel(raw, head)  # the repair: any solver takes it in place of the model

    for name, cost in {"raw": raw, "repaired": repaired, "random": None}.items():
        progress.step(name)
        success = evaluate_in_world(task, cost, model.actions, few, progress=progress)
        print(f"{name:<8} {100 * success.mean():3.0f} %", flush=True)


if __name__ == "__main__":
    # This file has the name of the package that it imports, so its directory must not be searched for imports.
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]
    tyro.cli(main)
