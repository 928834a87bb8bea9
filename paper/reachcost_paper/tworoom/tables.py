"""The study of TwoRoom: its audit tables, tables of our labels, and the complete study."""

from __future__ import annotations

from typing import Any

from reachcost.experiments.study import Study
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.tasks.tworoom import TwoRoom
from reachcost_paper.tworoom import (
    attribution,
    beyond,
    control,
    labels,
    probe,
    rankings,
    recipes,
    stress,
    trace,
    unseen,
)
from reachcost_paper.tworoom.figures import FIGURES
from reachcost_paper.tworoom.settings import (
    COSTS,
    FOREIGN_SETS,
    HEADS,
    LOGS,
    MEMBERS,
    MODELS,
    NOTES,
    POOLS,
    SET,
)


def _plan(
    name: str,
    metrics: tuple[str, ...],
    rows: TableRows,
    title: str = "",
    drawn: tuple[str, ...] = (),
    **more: Any,
) -> TablePlan:
    return TablePlan(NOTES[name], metrics, rows, legend=False, title=title, drawn=drawn, **more)


AUDITS = {
    "sasc": _plan(
        "sasc",
        ("rho_euclid", "rho_geo", "rank", "selected"),
        TableRows(rankings.sasc_runs, rankings.sasc_rows),
        picture=rankings.draw_ranks,
    ),
    "statistics": _plan(
        "statistics",
        ("rho_geo", "rank", "selected", "success", "p_value"),
        TableRows(rankings.statistics_runs, rankings.statistics_rows),
        intervals="",
    ),
    "logged-audit": _plan(
        "logged-audit",
        ("rho_logged", "rho_geo", "success", "agreement"),
        TableRows(rankings.logged_runs, rankings.logged_rows),
        "Costs judged by logs alone, by executed candidates, by closed-loop success",
        ("rho_logged", "rho_geo", "success"),
        intervals="",
    ),
    "probe": _plan("probe", ("rmse", "r2"), TableRows(probe.PROBES, probe.probe_rows), intervals=""),
    "subspace": _plan(
        "subspace",
        ("success", "mse_share"),
        probe.SUBSPACE,
        "Planning by two of 192 dimensions (rowspace), or by the other 190 (residual)",
        ("success",),
    ),
    "attribution": _plan(
        "attribution",
        ("rho_geo", "rank", "gradient_share"),
        attribution.ATTRIBUTION_ROWS,
        "What a head makes of parts of the difference",
        ("rho_geo", "rank", "gradient_share"),
        references={"gradient_share": (100 * 2 / 192, "isotropic: 1.04 %")},
    ),
    "features": _plan("features", ("rho_geo", "rank", "swap_steps", "swap_percent"), attribution.FEATURES_ROWS),
    "temporal-geodesic": _plan(
        "temporal-geodesic",
        ("pairs", "pearson", "spearman"),
        labels.TEMPORAL,
        "Correlation of logged times with the true distance",
        ("pearson", "spearman"),
        intervals="",
    ),
    "coverage": _plan(
        "coverage",
        stress.COVERAGE_METRICS,
        TableRows(stress.coverage_runs, stress.coverage_rows),
        "Heads by the states they were trained on",
        ("success", "rank"),
    ),
    "layout": _plan(
        "layout",
        stress.LAYOUT_METRICS,
        plain_rows(stress.LAYOUT_METRICS, stress.layout_lines),
        "The public layout, and worlds that nothing was trained on",
        ("success", "rho_geo"),
    ),
    "trace": _plan("trace", trace.METRICS, trace.TRACE, intervals=""),
    "pair-sampling": _plan("pair-sampling", tuple(labels.GAPS), labels.SAMPLING, intervals=""),
}
BEYOND = {
    "tworoom-solved": _plan(
        "tworoom-solved",
        beyond.METRICS,
        plain_rows(beyond.METRICS, beyond.solved),
        "The default repair on the published set and three more",
        ("success", "rho_geo"),
    ),
    "coverage-repair": _plan(
        "coverage-repair",
        beyond.METRICS,
        plain_rows(beyond.METRICS, beyond.repaired),
        "Heads by what is left of the logs",
        ("success", "rho_geo"),
    ),
    "budget": _plan(
        "budget",
        beyond.BUDGET_METRICS,
        plain_rows(beyond.BUDGET_METRICS, beyond.budget_lines),
        "Planners by the rollouts that a plan may score",
        ("success", "steps"),
    ),
    "layouts-unseen": _plan("layouts-unseen", unseen.METRICS, TableRows(unseen.unseen_runs, unseen.unseen_rows)),
}
"""Tables of our labels, which the paper does not have."""
RECIPES = _plan("tworoom-recipes", ("rho_logged", "validation_rmse"), recipes.ROWS, intervals="")

STUDY = Study(
    name="tworoom",
    protocol=2,
    task=TwoRoom,
    logs=LOGS,
    models=MODELS,
    members=MEMBERS,
    planner=CEM(),
    pools=POOLS,
    evaluation=SET,
    tables={**control.TABLES, **AUDITS, **BEYOND, "tworoom-recipes": RECIPES},
    heads=HEADS,
    costs=COSTS,
    foreign_sets=FOREIGN_SETS,
    groups={"same": "same room", "cross": "cross wall"},
    categories=("wrong_room", "stuck"),
    bins=control.BINS,
    headings={
        "same": ("same room %", 1),
        "cross": ("cross wall %", 1),
        "wrong_room": ("wrong room %", 1),
        "stuck": ("stuck %", 1),
        "distance": ("distance px", 2),
        "selected": ("selected px", 2),
        "rmse": ("RMSE px", 3),
        "cross_pairs": ("cross-wall pairs %", 1),
        "near_pairs": ("near-door pairs %", 1),
        **{name: (f"{low}-{high} px", 1) for name, (low, high) in control.BINS.items()},
        **{name: (f"gap {low}-{high} %", 1) for name, (low, high) in labels.GAPS.items()},
        "latent": ("latent MSE", 3),
        "pc_1": ("variance in component 1 %", 1),
        "pc_2": ("in component 2 %", 1),
    },
    table_groups={"tworoom": tuple(control.TABLES), "audits": tuple(AUDITS), "beyond": tuple(BEYOND)},
    figures=FIGURES,
    legend=NOTES["legend"],
)
