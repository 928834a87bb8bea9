"""The study of TopoNav: the paper's table, and how else its text can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, difference_row, per_seed, row_runs, table_row
from reachcost.experiments.study import Study
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.tabular import tabulate
from reachcost.results.tables import TableRow
from reachcost.tasks.toponav.task import BASE_SEED, RouteProposal, TopoNav
from reachcost_paper.toponav import paper, recipes
from reachcost_paper.toponav.figures import FIGURES
from reachcost_paper.toponav.settings import HEADS, KIND, LOGS, MEMBERS, POOLS, SEEDS, exact

METRICS = (*paper.METRICS, "p_value")
NOTE = (
    "TopoNav, 120 start and goal pairs for each head seed (3072, 3073, 3074). Success and final graph distance come "
    "from closed-loop control, ρ_geo and oracle best rank from SASC on shared pools. Differences are paired by "
    "episode; p is the exact two-sided sign-flip test, which cannot fall below 0.25 with three seeds."
)
LEGEND = (
    "`trm-paper` is the paper's recipe in our reading of it, `shuffled` its control with permuted labels, `trm` our "
    "recipe. `+tie-break` is a planner that also weighs the state after the first action, by 0.001. `random` is the "
    "floor; `oracle`, with the true distance, is a yardstick: ties among candidates cost it what the tie-break returns."
)
READINGS_LEGEND = (
    "How else the text can be read. `trm-paper`: label scale 29 (the grid), batch 1024. `trm-printed`: the printed "
    "head defaults, scale 224, batch 1024. `trm-printed-256`: scale 224, batch 256. `shuffled`: validation labels "
    "permuted too. `shuffled-train`: only training labels permuted, so true labels choose the epoch."
)
TIE_BREAK = {"planner": CategoricalCEM(tie_break=1e-3)}


def lines(*costs: str) -> list[RowPlan]:
    """A line for each cost; `+tie-break` after its name stands for the other planner."""
    return [
        RowPlan(
            KIND,
            cost.removesuffix("+tie-break"),
            paper.RESULTS.get(cost),
            changes=TIE_BREAK if cost.endswith("+tie-break") else {},
            shown=cost,
        )
        for cost in costs
    ]


MEANS = lines("raw", "trm-paper", "shuffled", "trm", "oracle", "oracle+tie-break", "trm+tie-break", "random")
READINGS = lines(
    *("raw", "trm-paper", "trm-printed", "trm-printed-256", "shuffled", "shuffled-train", "oracle", "random")
)


def with_seeds(means: list[RowPlan]) -> list[RowPlan]:
    """Means, then single seeds."""
    singles = zip(*(per_seed(line, SEEDS) for line in means), strict=True)
    return [*means, *(line for one_seed in singles for line in one_seed)]


def toponav_rows(experiment: Experiment) -> list[TableRow]:
    """Means, paired differences to latent distance, then single seeds."""
    raw, temporal, _, ours, *_ = MEANS
    rows = [table_row(experiment, line, METRICS) for line in with_seeds(MEANS)]
    differences = [difference_row(experiment, temporal, raw, paper.DIFFERENCE), difference_row(experiment, ours, raw)]
    rows[len(MEANS) : len(MEANS)] = differences
    for number, seed in enumerate(SEEDS):
        one, base = (replace(line, seeds=(seed,), single=True) for line in (temporal, raw))
        apart = difference_row(experiment, one, base, {"success": paper.DIFFERENCES[number]})
        rows.append(replace(apart, ours={"success": apart.ours["success"]}))
    return rows


STUDY = Study(
    name="toponav",
    protocol=2,
    task=TopoNav,
    logs=LOGS,
    models={KIND: exact},
    members=MEMBERS,
    planner=CategoricalCEM(),
    pools=POOLS,
    evaluation="detour",
    tables={
        "toponav": TablePlan(
            f"{NOTE}\n\n{LEGEND}",
            METRICS,
            TableRows(lambda experiment: row_runs(experiment, with_seeds(MEANS), METRICS), toponav_rows),
        ),
        "toponav-readings": TablePlan(
            f"{NOTE}\n\n{READINGS_LEGEND}", paper.METRICS, plain_rows(paper.METRICS, lambda: with_seeds(READINGS))
        ),
        "toponav-recipes": recipes.TABLE,
    },
    figures=FIGURES,
    heads=HEADS,
    pair_seed=BASE_SEED,
    proposal=lambda task: RouteProposal(cast(TopoNav, task)),
    prepare=tabulate,
)
