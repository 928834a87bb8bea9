"""The study of `reachcost demo`: a planner fails under latent distance and is repaired, on TwoRoom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from reachcost.core.progress import Progress
from reachcost.experiments.cells import Cell, Recording, StudyRef
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.runs import AuditRun, SascRun
from reachcost.experiments.study import HeadPlan, Member, PoolPlan, Setting, Study
from reachcost.experiments.tables import TablePlan, TableRows, make_tables
from reachcost.planning.cem import CEM
from reachcost.results.tables import ResultTable, TableRow
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.loading import load_world_model

MODEL = "lewm-tworoom-3072"
MEMBER = Member(MODEL, 3072, "lewm-3072")
SET = "high-distance"
COSTS = ("raw", "trm", "trm-shuffled", "oracle", "random")
PLANNER = CEM(candidates=128, iterations=5, elites=13)
"""The paper's planner with a fifth of its rollouts, so that the demo is quick."""
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


def demo_rows(experiment: Experiment) -> list[TableRow]:
    """Return the rows of the table."""
    for cell in report_cells(experiment):
        cell.read()  # the report shows every run that was read
    return [table_row(experiment, plan, OUTCOMES) for plan in row_plans()]


def run_demo(
    out: Path, progress: Progress, episodes: int, log_episodes: int
) -> Iterable[tuple[ResultTable, Recording]]:
    """Train a head and its control, and plan with them; yields the table and its runs."""
    TwoRoom().evaluation_set(SET).spread(episodes)  # refuses more episodes than the set has
    runs = TableRows(lambda one: [*row_runs(one, row_plans(), OUTCOMES), *report_cells(one)], demo_rows)
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
        tables={"demo": TablePlan(NOTE, OUTCOMES, runs, legend=False)},
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
    request = TableRequest("demo", StudyRef(lambda: study, episodes=episodes), "reachcost demo")
    return make_tables([request], out, progress=progress)
