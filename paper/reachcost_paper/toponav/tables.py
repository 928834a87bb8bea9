"""The study of TopoNav: the paper's table, and other readings of its text."""

from dataclasses import replace
from typing import cast

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.study import Study
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.results.tables import TableRow
from reachcost.tasks.toponav.task import BASE_SEED, TopoNav
from reachcost_paper.package_data import read_notes, read_paper
from reachcost_paper.rows import difference_row, per_seed
from reachcost_paper.toponav.recipes import HEADS, KIND, LOGS, MEMBERS, POOLS, ROWS, SEEDS, RouteProposal, exact
from reachcost_paper.toponav.tabular import tabulate

NOTES = read_notes("reachcost_paper.toponav")
PAPER = read_paper("reachcost_paper.toponav")
METRICS = ("success", "rho_geo", "rank", "final_geo")
TIE_BREAK = {"planner": CategoricalCEM(tie_break=1e-3)}


def lines(*costs: str) -> list[RowPlan]:
    """A row for each cost; the suffix `+tie-break` stands for the other planner."""
    return [
        RowPlan(
            KIND,
            cost.removesuffix("+tie-break"),
            PAPER["results"].get(cost),
            changes=TIE_BREAK if cost.endswith("+tie-break") else {},
            shown=cost,
        )
        for cost in costs
    ]


MEANS = lines("raw", "trm-paper", "shuffled", "trm", "oracle", "oracle+tie-break", "trm+tie-break", "random")


def with_seeds(means: list[RowPlan]) -> list[RowPlan]:
    singles = zip(*(per_seed(line, SEEDS) for line in means), strict=True)
    return [*means, *(line for one_seed in singles for line in one_seed)]


def readings() -> list[RowPlan]:
    """Other readings of the paper's text."""
    heads = ("trm-paper", "trm-printed", "trm-printed-256", "shuffled", "shuffled-train")
    return with_seeds(lines("raw", *heads, "oracle", "random"))


def toponav_runs(experiment: Experiment) -> list[Cell]:
    return row_runs(experiment, with_seeds(MEANS), METRICS)


def toponav_rows(experiment: Experiment) -> list[TableRow]:
    raw, temporal, _, ours, *_ = MEANS
    printed = PAPER["differences"]
    rows = [table_row(experiment, line, METRICS) for line in with_seeds(MEANS)]
    mean = {metric: printed[metric] for metric in ("success", "p_value")}
    differences = [difference_row(experiment, temporal, raw, mean), difference_row(experiment, ours, raw)]
    rows[len(MEANS) : len(MEANS)] = differences
    for number, seed in enumerate(SEEDS):
        one, base = (replace(line, seeds=(seed,), single=True) for line in (temporal, raw))
        difference = difference_row(experiment, one, base, {"success": printed["by_seed"][number]})
        rows.append(replace(difference, ours={"success": difference.ours["success"]}))
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
        "toponav": TablePlan(NOTES["toponav"], (*METRICS, "p_value"), TableRows(toponav_runs, toponav_rows)),
        "toponav-readings": TablePlan(NOTES["toponav-readings"], METRICS, plain_rows(METRICS, readings)),
        "toponav-recipes": TablePlan(NOTES["toponav-recipes"], ("validation_rmse",), ROWS, intervals="", legend=False),
    },
    heads=HEADS,
    pair_seed=BASE_SEED,
    proposal=lambda task: RouteProposal(cast(TopoNav, task)),
    prepare=tabulate,
)
