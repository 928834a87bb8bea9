"""Draw the picture of docs/toponav.md: one episode under raw latent distance and under TRM. Takes a minute.

python examples/draw_toponav.py docs/images
"""

import sys
from pathlib import Path

import numpy as np

from reachcost.costs.tabular import CostMap
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import outcomes
from reachcost.experiments.study import Setting
from reachcost.planning.control import control
from reachcost.results.episode_figures import Panel, draw_replay
from reachcost.results.records import exclusive
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import SIZE, RouteProposal
from reachcost_paper.toponav import STUDY
from reachcost_paper.toponav.recipes import KIND

MEMBER = STUDY.members_of(KIND)[0]


def draw_repaired_episode(experiment: Experiment, path: Path) -> None:
    """Draw raw and TRM side by side for the first episode that only TRM solves."""
    settings = {name: Setting(MEMBER, name) for name in ("raw", "trm")}
    raw, trm = (outcomes(experiment, setting)["success"] == 100 for setting in settings.values())
    row = int(np.argmax(trm & ~raw))
    episode = experiment.evaluation().subset(slice(row, row + 1))
    model, costs = ExactTopoNav(), {name: experiment.cost(setting) for name, setting in settings.items()}
    task = model.task
    # Random streams belong to the episode, so it takes the same path here as among all others.
    proposal = RouteProposal(task)
    runs = control(task, model, costs, episode, STUDY.planner, seed=MEMBER.seed, proposal=proposal)
    cells, panels = CostMap(task, model), []
    fields = {name: cells.field(cost, episode.goals) for name, cost in costs.items()}
    titles = {"raw": "raw latent distance (squared latent difference)", "trm": "TRM (predicted steps)"}
    for number, (name, title) in enumerate(titles.items()):
        steps, reached = int(runs.steps[number, 0]), bool(runs.success[number, 0])
        end = f"goal reached in {steps} steps" if reached else f"{runs.final_distance[number, 0]} steps away at the end"
        panels.append(Panel(title, end, fields[name][0], runs.paths[number, 0, : steps + 1], reached))
    shortest = task.distance(episode.starts, episode.goals)[0]
    heading = f"TopoNav episode {episode.episodes[0]}, {shortest} steps: same planner and random numbers, two costs"
    draw_replay(episode.goals[0], panels, (-0.5, SIZE - 0.5), path, heading)


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    with exclusive(Path("results")):
        draw_repaired_episode(Experiment(STUDY, Path("results")), out / "toponav.png")
