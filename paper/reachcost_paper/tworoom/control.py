"""The TwoRoom control tables of the paper, as rows with the paper's values."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment, HeadRun
from reachcost.experiments.rows import BOUNDS, RowPlan, row_runs, table_row
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.results.tables import TableRow
from reachcost_paper.rows import bounds, per_seed
from reachcost_paper.tworoom.settings import ABLATION, FAR_SET, KINDS, LEWM, NEAR_SET, NOTES, PAPER, SEEDS

OUTCOMES = ("success", "same", "cross", "wrong_room", "stuck")
RANKING = ("success", "rho_geo", "rank", "distance")
CHECKED_HEADS = (*PAPER["exclusion-check"], "trm")
CHECKED = ("rows", "row_overlap", "episode_overlap", "validation_rmse")
BINS = {"geo_120_140": (120, 140), "geo_140_160": (140, 160), "geo_160_180": (160, 180), "geo_180_205": (180, 205)}
"""Geodesic distance from start to goal, in pixels."""
LABELS = {NEAR_SET: "", FAR_SET: "far set"}
"""The two readings of the paper's distance-controlled set, and their names in rows."""
CONTROLLED = {NEAR_SET: "distance-controlled set", FAR_SET: "distance-controlled set, far set"}
"""The same in tables that also have other sets."""
BEST: dict[str, Any] = {"changes": {"planner": CEM(execute="best")}, "setting": "best candidate executed"}


def high_distance() -> list[RowPlan]:
    """The main table: every cost on both kinds of models, then unclamped models and fresh evaluation sets."""
    unclamped: dict[str, Any] = {"changes": {"clamp": False}, "setting": "unclamped"}
    several = {("lewm", "trm-paper"), ("lewm", "trm"), ("pldm", "trm")}

    def rows(kind: str, *costs: str, **more: Any) -> list[RowPlan]:
        printed = PAPER["high-distance"][kind]
        seeds = {cost: SEEDS if (kind, cost) in several and not more else (None,) for cost in costs}
        return [RowPlan(kind, cost, printed.get(cost), head_seeds=seeds[cost], **more) for cost in costs]

    return [
        *rows("lewm", "raw", "trm-complete", "trm-paper", "trm", "shuffled", "trm-shuffled"),
        RowPlan("lewm", "oracle", {"success": 100.0}),
        RowPlan("lewm", "oracle", {"success": 100.0}, **BEST),
        *rows("lewm", "trm", **BEST),
        *rows("lewm", "random"),
        *rows("pldm", "raw", "trm-complete", "trm-paper", "trm", "shuffled"),
        *rows("lewm", "raw", "trm-paper", "trm", **unclamped),
        *rows("pldm", "raw", "trm", **unclamped),
        *fresh_sets(),
    ]


def fresh_sets() -> list[RowPlan]:
    lines = [RowPlan("lewm", "raw"), RowPlan("lewm", "trm", head_seeds=SEEDS)]
    lines += [RowPlan("lewm", cost) for cost in BOUNDS]
    return [
        replace(line, changes={"evaluation": f"fresh-{number}"}, setting=f"fresh set {number}")
        for number in (1, 2)
        for line in lines
    ]


def seeds_apart() -> list[RowPlan]:
    lines = [
        line
        for kind in ("lewm", "pldm")
        for cost in ("raw", "trm-complete", "trm-paper", "trm", "shuffled")
        for line in per_seed(RowPlan(kind, cost), SEEDS, PAPER["per-seed"][kind].get(cost))
    ]
    return [*lines, *(line for bound in bounds([RowPlan("lewm", "raw")]) for line in per_seed(bound, SEEDS))]


def exclusion() -> list[RowPlan]:
    lines = [RowPlan("lewm", cost, PAPER["exclusion"].get(cost)) for cost in ("raw", "trm-paper", "trm", "shuffled")]
    return [*lines, *bounds(lines)]


def _with_seeds(line: RowPlan, printed: Sequence[float] | None) -> list[RowPlan]:
    """A row over all seeds, then each seed, with the success that the paper prints by seed."""
    if printed is None:
        return [line, *per_seed(line, SEEDS)]
    mean = {"success": round(float(np.mean(printed)), 1)}
    return [replace(line, paper=mean), *per_seed(line, SEEDS, [{"success": value} for value in printed])]


def horizon() -> list[RowPlan]:
    """Full episodes against short gaps, on both distance-controlled sets and on the high-distance set."""
    costs = ("raw", "trm-paper", "trm-gap50", "trm")
    lines, raws = [], []
    for name, setting in CONTROLLED.items():
        here = [RowPlan("lewm", cost, changes={"evaluation": name}, setting=setting) for cost in costs]
        lines += [row for line in here for row in _with_seeds(line, PAPER["horizon"].get(line.cost))]
        raws.append(here[0])
    far = [RowPlan("lewm", cost, setting="high-distance set") for cost in costs]
    return [*lines, *far, *bounds([*raws, far[0]])]


def temporal_ablation() -> list[RowPlan]:
    """Number of rows and pairs, and gaps: one world model, both distance-controlled sets."""
    lines = []
    for name, label in LABELS.items():
        one = RowPlan("lewm", "trm", None, SEEDS[:1], changes={"evaluation": name}, setting=label, single=True)
        heads = [
            replace(one, cost=head, shown="trm-paper", setting=_joined(label, sampled), paper={"success": value})
            for head, (sampled, value) in zip(ABLATION, PAPER["temporal-ablation"].items(), strict=True)
        ]
        lines += [replace(one, cost="raw"), *heads, one, *(replace(bound, setting=label) for bound in bounds([one]))]
    return lines


def _joined(label: str, text: str) -> str:
    return f"{label}: {text}" if label else text


def baselines() -> list[RowPlan]:
    """Other costs, some with oracle labels, on the same candidates."""
    printed = PAPER["baselines"]
    costs = [*printed, "decoded-xy", "trm-paper", "trm-symmetric", "hybrid", "trm", "random"]
    return [RowPlan("lewm", cost, printed.get(cost)) for cost in costs]


def balanced_and_controlled() -> list[RowPlan]:
    """Latent MSE on the smaller sets with budgets of 50 and 150 actions, and our head with 50."""
    lines = []
    sets = (("B", "", "balanced"), ("D", "", NEAR_SET), ("D", ", far set", FAR_SET))
    for kind in KINDS:
        for letter, which, name in sets:
            for budget in (50, 150):
                changes = {"evaluation": name, **({"budget": budget} if budget != 50 else {})}
                raw = RowPlan(kind, "raw", changes=changes, setting=f"{letter}{budget}{which}")
                lines += _with_seeds(raw, PAPER["balanced-and-controlled"][kind][f"{letter}{budget}"])
                lines += [replace(raw, cost="trm")] if budget == 50 else []
    return [*lines, *bounds([line for line in lines if line.kind == "lewm" and line.cost == "raw" and not line.single])]


def solver_budget() -> list[RowPlan]:
    planners = {"300 x 10, 30 elites": {}, "1000 x 20, 100 elites": {"planner": CEM(5, 1000, 20, 100)}}
    lines = []
    for name, label in LABELS.items():
        one = RowPlan("lewm", "raw", None, SEEDS[:1], changes={"evaluation": name}, setting=label, single=True)
        for size, planner in planners.items():
            printed, changes = PAPER["solver-budget"][size], {**one.changes, **planner}
            lines.append(replace(one, paper=printed, changes=changes, setting=_joined(label, size)))
        lines += [replace(bound, setting=label) for bound in bounds([one])]
    return lines


def geodesic_bins() -> list[RowPlan]:
    published = [RowPlan("lewm", cost, head_seeds=SEEDS) for cost in ("trm-paper", "trm")]
    raw = RowPlan("lewm", "raw")
    return [raw, *published, *bounds([raw]), *fresh_sets()]


def exclusion_runs(experiment: Experiment) -> list[Cell]:
    heads = [HeadRun(member, cost) for cost in CHECKED_HEADS for member in LEWM]
    return [*row_runs(experiment, exclusion(), RANKING), *experiment.cells(heads)]


def exclusion_rows(experiment: Experiment) -> list[TableRow]:
    """The rows, then the overlap of the pairs of heads with the evaluation set, as measured after sampling."""
    rows = [table_row(experiment, line, RANKING) for line in exclusion()]
    for cost in CHECKED_HEADS:
        for number, member in enumerate(LEWM):
            record, printed = experiment.head_record(member, cost), PAPER["exclusion-check"].get(cost)
            pairs, proof = record["pairs"]["train_pairs"], record["pairs"]["exclusion"]
            found = (proof["rows"], proof["overlapping_rows"], proof["overlapping_episodes"], record["validation_rmse"])
            ours: dict[str, float] = dict(zip(CHECKED, found, strict=True))
            extra = {"excluded_episodes": proof["excluded_episodes"]}
            known = printed and printed[number]
            rows.append(TableRow(cost, "lewm", pairs, ours, {}, known, member.seed, extra=extra))
    return rows


PLAIN: dict[str, tuple[tuple[str, ...], Callable[[], list[RowPlan]]]] = {
    "high-distance": (OUTCOMES, high_distance),
    "per-seed": (OUTCOMES, seeds_apart),
    "exclusion": ((*RANKING, *CHECKED), exclusion),
    "horizon": (("success",), horizon),
    "temporal-ablation": (("success", "validation_rmse"), temporal_ablation),
    "baselines": (RANKING, baselines),
    "balanced-and-controlled": (("success",), balanced_and_controlled),
    "solver-budget": (("success", "same", "cross"), solver_budget),
    "geodesic-bins": (("success", *BINS), geodesic_bins),
}
TABLES = {name: TablePlan(NOTES[name], metrics, plain_rows(metrics, lines)) for name, (metrics, lines) in PLAIN.items()}
TABLES["exclusion"] = replace(TABLES["exclusion"], rows=TableRows(exclusion_runs, exclusion_rows))
