"""The study of `reachcost demo`: a planner fails under latent distance and is repaired, on TwoRoom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from reachcost.core.progress import Progress
from reachcost.costs.tabular import CostMap
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.runs import AuditRun, SascRun, outcomes
from reachcost.experiments.study import HeadPlan, Member, PoolPlan, Setting, Study
from reachcost.experiments.tables import TablePlan, TableRows, Then, make_table
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.results.episode_figures import Panel, draw_replay
from reachcost.results.tables import ResultTable
from reachcost.tasks.tworoom import TwoRoom
from reachcost.tasks.tworoom.layout import BORDER, SIZE, SUCCESS_DISTANCE
from reachcost.worldmodels.loading import load_world_model

MODEL = "lewm-tworoom-3072"
MEMBER = Member(MODEL, 3072, "lewm-3072")
SET = "high-distance"
COSTS = ("raw", "trm", "trm-shuffled", "oracle", "random")
PLANNER = CEM(candidates=128, iterations=5, elites=13)
"""The paper's planner with a fifth of its rollouts, so that the demo takes a minute."""
HEAD = HeadPlan(pairs=50_000)
"""Half of the default training pairs."""
AUDITED, CANDIDATES = 8, 64
"""Number of episodes that are audited, and of candidates that are ranked, for the report."""
OUTCOMES = ("success", "same", "cross", "wrong_room", "stuck")
PAPER: dict[str, dict[str, float]] = {"raw": dict(zip(OUTCOMES, (7.0, 10.0, 4.0, 45.3, 10.3), strict=True))}
"""The paper's outcomes: means over three world models, with all rollouts."""


NOTE = (
    "Closed loop on the high-distance set with the bundled lewm-tworoom-3072: only the terminal cost changes. The "
    "planner is the paper's with a fifth of its rollouts, 128 candidates x 5 rounds. `raw` is latent MSE; `trm` our "
    "head, trained on half of the default pairs of logged times, without the episodes of the evaluation set; "
    "`trm-shuffled` its control with permuted times; `oracle` plans with the simulator and the true distance, "
    "`random` acts at random. The last row starts plans from logged action sequences, 37 candidates x 5 rounds "
    "(`rc.CEM.experienced()`), and is the default of `rc.control(..., logs=...)`. The paper's values are means over "
    "its three world models, with all rollouts."
)


def row_plans() -> list[RowPlan]:
    """Return every cost on one world model, then the repaired cost with plans that start from logs."""
    found = [RowPlan("lewm", cost, PAPER.get(cost), (MEMBER.seed,), single=True) for cost in COSTS]
    return [*found, replace(found[1], changes={"planner": CEM.experienced()}, setting="from logs, 37 x 5")]


def report_cells(experiment: Experiment) -> list[Cell]:
    """Return runs for the report: an audit of latent distance, and rankings of latent distance and TRM."""
    rankings = [SascRun(Setting(MEMBER, cost)) for cost in ("raw", "trm")]
    few = experiment.derive(Experiment.fewer, AUDITED)
    return [few.cell(AuditRun(Setting(MEMBER, "raw"))), *experiment.cells(rankings)]


def run_demo(
    out: Path,
    progress: Progress,
    episodes: int | None = None,
    log_episodes: int = 3000,
    then: Then | None = None,
) -> tuple[ResultTable, Path | None]:
    """Train a head and its control, plan, and draw a repaired episode; returns the table and the picture, if any."""
    if episodes is not None:
        TwoRoom().evaluation_set(SET).spread(episodes)  # refuses more episodes than the set has
    picture = out / "tworoom.png"
    for kind in (".png", ".gif"):
        picture.with_suffix(kind).unlink(missing_ok=True)
    plan = TablePlan(
        NOTE,
        OUTCOMES,
        TableRows(
            lambda experiment: [*row_runs(experiment, row_plans(), OUTCOMES), *report_cells(experiment)],
            lambda experiment: [table_row(experiment, plan, OUTCOMES) for plan in row_plans()],
        ),
        legend=False,
        picture=lambda experiment, _: _draw(experiment, picture),
    )
    study = Study(
        name="tworoom",
        protocol=2,
        task=TwoRoom,
        logs={"episodes": log_episodes, "seed": 0},
        models={MODEL: lambda task, clamp: load_world_model(MODEL, clamp=clamp)},
        members={"lewm": (MEMBER,)},
        planner=PLANNER,
        pools=PoolPlan(CANDIDATES, seed=lambda seed: 123),
        evaluation=SET,
        tables={"demo": plan},
        heads={"trm": HEAD, "trm-shuffled": replace(HEAD, shuffled="all")},
        groups={"same": "same room", "cross": "cross wall"},
        categories=("wrong_room", "stuck"),
        headings={
            "same": ("same room %", 1),
            "cross": ("cross wall %", 1),
            "wrong_room": ("wrong room %", 1),
            "stuck": ("stuck %", 1),
        },
    )
    table = make_table(study, "demo", out, progress, episodes, command="reachcost demo", then=then)
    return table, picture if picture.exists() else None


def _draw(experiment: Experiment, path: Path) -> None:
    """Draw raw and TRM side by side for the first episode (across the wall, if there is one) that only TRM solves."""
    for cell in report_cells(experiment):
        cell.read()  # the report shows what was read
    task, evaluation, model = experiment.task, experiment.evaluation(), experiment.model(MEMBER.model)
    settings = {name: Setting(MEMBER, name) for name in ("raw", "trm")}
    raw, trm = (outcomes(experiment, setting)["success"] == 100 for setting in settings.values())
    across = task.groups(evaluation.starts, evaluation.goals)["cross wall"]
    repaired = trm & ~raw
    if not repaired.any():
        return
    row = int(np.argmax(repaired & across if (repaired & across).any() else repaired))
    episode = evaluation.subset(slice(row, row + 1))
    costs = {name: experiment.cost(setting) for name, setting in settings.items()}
    # Random streams belong to the episode: it runs as it did among all others.
    runs = control(task, model, costs, episode, PLANNER, seed=MEMBER.seed)
    titles = {
        "raw": "raw latent distance (squared latent difference)",
        "trm": "TRM, learned from logs (predicted steps)",
    }
    cells, panels = CostMap(task, model), []
    fields = {name: cells.field(cost, episode.goals) for name, cost in costs.items()}
    for number, (name, title) in enumerate(titles.items()):
        reached, steps = bool(runs.success[number, 0]), int(runs.steps[number, 0])
        end = (
            f"reached the goal in {steps} steps"
            if reached
            else f"still {runs.final_distance[number, 0]:.0f} px away after {steps} steps"
        )
        path_of_run = runs.paths[number, 0, : steps + 1]
        panels.append(Panel(title, end, fields[name][0], path_of_run, reached, SUCCESS_DISTANCE))
    heading = (
        f"TwoRoom episode {episode.episodes[0]}, path of {task.distance(episode.starts, episode.goals)[0]:.0f} px: "
        "same world model, same planner, same random numbers, two terminal costs"
    )
    for kind in (".png", ".gif"):
        draw_replay(episode.goals[0], panels, (BORDER, SIZE - BORDER), path.with_suffix(kind), heading)
