"""Draw episodes that only the repaired cost solves: python examples/draw_repair.py docs/images. Takes two minutes.

repair.gif (README) is an episode of `reachcost demo`, toponav.png (docs/toponav.md) one of the published TopoNav runs.
"""

import sys
from pathlib import Path

import numpy as np

from reachcost.core.progress import Progress
from reachcost.costs.maps import CostMap
from reachcost.errors import ReachcostError
from reachcost.experiments import demo
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.runs import closed_loop, outcomes
from reachcost.experiments.study import Member, Setting
from reachcost.results.records import exclusive
from reachcost.tasks.toponav.task import SIZE
from reachcost.tasks.tworoom.layout import BORDER, SUCCESS_DISTANCE
from reachcost.tasks.tworoom.layout import SIZE as PIXELS
from reachcost_paper.episode_figures import Panel, draw_replay
from reachcost_paper.toponav import STUDY
from reachcost_paper.toponav.recipes import KIND

TITLES = {"raw": "raw latent distance (squared latent difference)", "trm": "TRM, learned from logs (predicted steps)"}


def draw_repaired_episode(
    experiment: Experiment, member: Member, path: Path, extent: tuple[float, float], within: float = 0.0
) -> None:
    """Draw raw and TRM side by side for the longest path that only TRM solves."""
    settings = {name: Setting(member, name) for name in TITLES}
    raw, trm = (outcomes(experiment, setting)["success"] == 100 for setting in settings.values())
    if not (trm & ~raw).any():
        raise ReachcostError("no episode was repaired: run more episodes")
    task, goals, model = experiment.task, experiment.evaluation(), experiment.model(member.model)
    lengths = task.distance(goals.starts, goals.goals)
    row = int(np.argmax(np.where(trm & ~raw, lengths, -1)))
    episode = goals.subset(slice(row, row + 1))
    # Random streams belong to the episode, so it runs here exactly as it did among all others.
    runs = [closed_loop(experiment, setting, episode) for setting in settings.values()]
    cells, panels = CostMap(task, model), []
    for (name, setting), run in zip(settings.items(), runs, strict=True):
        field = cells.field(experiment.cost(setting), episode.goals)[0]
        steps, reached, left = int(run.steps[0, 0]), bool(run.success[0, 0]), run.final_distance[0, 0]
        end = (
            f"reached the goal in {steps} steps"
            if reached
            else f"{left:.0f} {task.distance_unit} left after {steps} steps"
        )
        panels.append(Panel(TITLES[name], end, field, run.paths[0, 0, : steps + 1], reached, within))
    heading = (
        f"Episode {episode.episodes[0]} of {task.name}, shortest path {lengths[row]:.0f} {task.distance_unit}: same "
        "world model, planner and random numbers, two terminal costs"
    )
    draw_replay(episode.goals[0], panels, extent, path, heading)


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    for _, experiment in demo.run_demo(Path("reachcost-demo"), Progress(), episodes=100, log_episodes=3000):
        assert isinstance(experiment, Experiment)
        extent = (BORDER, PIXELS - BORDER)
        draw_repaired_episode(experiment, demo.MEMBER, out / "repair.gif", extent, SUCCESS_DISTANCE)
    with exclusive(Path("results")):
        member = STUDY.members_of(KIND)[0]
        draw_repaired_episode(Experiment(STUDY, Path("results")), member, out / "toponav.png", (-0.5, SIZE - 0.5))
