"""The study of TwoRoom: its audit tables, tables of our labels, and the complete study."""

from collections.abc import Callable
from typing import Any

from reachcost.experiments.rows import RowPlan
from reachcost.experiments.study import Study
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.tasks.tworoom import TwoRoom
from reachcost_paper.tworoom import (
    attribution,
    control,
    labels,
    new_layouts,
    probe,
    rankings,
    recipes,
    robustness,
    settings,
    trace,
)

SOLVED = "The default repair on the published set and three more"
REPAIRED = "Heads by the part of the logs that they learn from"
BUDGET = "Planners by the rollouts that a plan may score"
LAYOUT = "The public layout, and worlds that nothing was trained on"


def _drawn(metrics: tuple[str, ...], lines: Callable[[], list[RowPlan]], other: str = "rho_geo") -> dict[str, Any]:
    """A table of row plans, with a picture of success and another metric."""
    return {"metrics": metrics, "rows": plain_rows(metrics, lines), "drawn": ("success", other)}


AUDITS: dict[str, dict[str, Any]] = {
    "sasc": {
        "metrics": ("rho_euclid", "rho_geo", "rank", "selected"),
        "rows": TableRows(rankings.SASC, rankings.sasc_rows),
        "picture": rankings.draw_ranks,
    },
    "statistics": {
        "metrics": ("rho_geo", "rank", "selected", "success", "p_value"),
        "rows": TableRows(rankings.statistics_runs, rankings.statistics_rows),
        "intervals": "",
    },
    "logged-audit": {
        "metrics": ("rho_logged", "rho_geo", "success", "agreement"),
        "rows": TableRows(rankings.logged_runs, rankings.logged_rows),
        "intervals": "",
        "title": "Costs scored by logs alone, by executed candidates, by closed-loop success",
        "drawn": ("rho_logged", "rho_geo", "success"),
    },
    "probe": {"metrics": ("rmse", "r2"), "rows": TableRows(probe.PROBES, probe.probe_rows), "intervals": ""},
    "subspace": {
        "metrics": ("success", "mse_share"),
        "rows": probe.SUBSPACE,
        "title": "Planning by two of 192 dimensions (rowspace), or by the other 190 (residual)",
        "drawn": ("success",),
    },
    "attribution": {
        "metrics": ("rho_geo", "rank", "gradient_share"),
        "rows": TableRows(attribution.ATTRIBUTIONS, attribution.attribution_rows),
        "title": "What a head makes of parts of the difference",
        "drawn": ("rho_geo", "rank", "gradient_share"),
        "references": {"gradient_share": (100 * 2 / 192, "isotropic: 1.04 %")},
    },
    "features": {
        "metrics": ("rho_geo", "rank", "swap_steps", "swap_percent"),
        "rows": TableRows(attribution.FEATURES, attribution.features_rows),
    },
    "temporal-geodesic": {
        "metrics": ("pairs", "pearson", "spearman"),
        "rows": labels.TEMPORAL,
        "intervals": "",
        "title": "Correlation of logged times with the true distance",
        "drawn": ("pearson", "spearman"),
    },
    "coverage": {
        "metrics": robustness.COVERAGE_METRICS,
        "rows": TableRows(robustness.coverage_runs, robustness.coverage_rows),
        "title": "Heads by the states they were trained on",
        "drawn": ("success", "rank"),
    },
    "layout": {**_drawn(robustness.LAYOUT_METRICS, robustness.layout_lines), "title": LAYOUT},
    "trace": {"metrics": trace.METRICS, "rows": trace.TRACE, "intervals": ""},
    "pair-sampling": {"metrics": tuple(labels.GAPS), "rows": labels.SAMPLING, "intervals": ""},
}
BEYOND: dict[str, dict[str, Any]] = {
    "tworoom-solved": {**_drawn(robustness.METRICS, robustness.solved), "title": SOLVED},
    "coverage-repair": {**_drawn(robustness.METRICS, robustness.repaired), "title": REPAIRED},
    "budget": {**_drawn(robustness.BUDGET_METRICS, robustness.budget_lines, "steps"), "title": BUDGET},
    "layouts-unseen": {
        "metrics": new_layouts.METRICS,
        "rows": new_layouts.ROWS,
    },
}
"""Tables of our labels, which the paper does not have."""
RECIPES = {"metrics": ("rho_logged", "validation_rmse"), "rows": recipes.ROWS, "intervals": ""}
OTHERS = {
    name: TablePlan(settings.NOTES[name], legend=False, **plan)
    for name, plan in {**AUDITS, **BEYOND, "tworoom-recipes": RECIPES}.items()
}

STUDY = Study(
    name="tworoom",
    protocol=2,
    task=TwoRoom,
    logs=settings.LOGS,
    models=settings.MODELS,
    members=settings.MEMBERS,
    planner=CEM(),
    pools=settings.POOLS,
    evaluation=settings.SET,
    tables={**control.TABLES, **OTHERS},
    heads=settings.HEADS,
    costs=settings.COSTS,
    foreign_sets=settings.FOREIGN_SETS,
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
        "rows": ("rows", 0),
        "row_overlap": ("row overlap", 0),
        "episode_overlap": ("episode overlap", 0),
        "r2": ("R²", 5),
        "mse_share": ("MSE share %", 2),
        "gradient_share": ("gradient share %", 2),
        "swap_percent": ("swap %", 1),
        "pairs": ("pairs %", 1),
        "pearson": ("Pearson", 3),
        "agreement": ("agreement", 3),
        "cross_pairs": ("cross-wall pairs %", 1),
        "near_pairs": ("near-door pairs %", 1),
        **{name: (f"{low}-{high} px", 1) for name, (low, high) in control.BINS.items()},
        **{name: (f"gap {low}-{high} %", 1) for name, (low, high) in labels.GAPS.items()},
        "latent": ("latent MSE", 3),
        "pc_1": ("variance in component 1 %", 1),
        "pc_2": ("in component 2 %", 1),
    },
    table_groups={"tworoom": tuple(control.TABLES), "audits": tuple(AUDITS), "beyond": tuple(BEYOND)},
    legend=settings.NOTES["legend"],
)
