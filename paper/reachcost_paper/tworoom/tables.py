"""The study of TwoRoom: its audit tables, and everything put together."""

from __future__ import annotations

from typing import Any

from reachcost.experiments.study import Study
from reachcost.experiments.tables import INTERVALS, TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.tasks.tworoom import TwoRoom
from reachcost_paper.trace import METRICS
from reachcost_paper.tworoom import audits, beyond, budget, control, recipes, stress, subspace, trace, unseen
from reachcost_paper.tworoom.figures import FIGURES
from reachcost_paper.tworoom.settings import (
    COSTS,
    FOREIGN_SETS,
    HEADS,
    LOGS,
    MEMBERS,
    MODELS,
    POOLS,
    SET,
)

CANDIDATES = (
    "300 Gaussian candidates of 25 actions for each of 100 episodes of the high-distance set (candidate seed 123), "
    "rolled out and executed once for all costs."
)
SAME_COSTS = "The costs are those of the table baselines; `rowspace` and `residual` those of subspace."


def _plan(
    note: str,
    metrics: tuple[str, ...],
    rows: TableRows,
    title: str = "",
    drawn: tuple[str, ...] = (),
    own_intervals: bool = False,
    **more: Any,
) -> TablePlan:
    return TablePlan(note, metrics, rows, "" if own_intervals else INTERVALS, False, title, drawn, **more)


AUDITS = {
    "sasc": _plan(
        f"SASC: every cost ranks the same candidates. {CANDIDATES} ρ_geo and ρ_euclid are rank correlations with the "
        "true geodesic and straight distance of where a candidate ends, rank the percentage of candidates that a cost "
        "puts before the truly best one, selected the geodesic distance of the one it puts first. Lines of seed 3072 "
        "stand beside the paper's, whose temporal head is of the complete cache; the others are means over LeWM "
        "3072-3074. " + SAME_COSTS,
        ("rho_euclid", "rho_geo", "rank", "selected"),
        TableRows(audits.sasc_runs, audits.sasc_rows),
        picture=audits.draw_ranks,
    ),
    "statistics": _plan(
        f"Paired differences. {CANDIDATES} Intervals of rankings resample the episodes of LeWM 3072 (100,000 "
        "resamples, both costs of an episode together); the paper's are in the JSON file. Success is compared over "
        "three world models, its interval resamples models and episodes, and by model; p is the exact two-sided "
        "sign-flip test, which cannot fall below 0.25 with three of them.",
        ("rho_geo", "rank", "selected", "success", "p_value"),
        TableRows(audits.statistics_runs, audits.statistics_rows),
        own_intervals=True,
    ),
    "logged-audit": _plan(
        "Ranking judged without a simulator (ρ logged: correlation with the fastest logged way to 200 goals, 300 "
        "logged states each, on 1,000 episodes that no model and no head has seen) beside SASC, which executes "
        f"candidates, and closed-loop success on the high-distance set, 300 episodes each. {SAME_COSTS} Intervals "
        "resample world models, and goals or episodes once for all models; n counts goals. The last lines are rank "
        "correlations over n costs, means of three world models: how far two judges agree about their order, over "
        "all costs and over those with ρ logged at most 0.1 below the best, which the audit lets pass. Some costs are "
        "near relatives of each other, so fourteen of them are fewer independent trials.",
        ("rho_logged", "rho_geo", "success", "agreement"),
        TableRows(audits.logged_runs, audits.logged_rows),
        "Costs judged by logs alone, by executed candidates, by closed-loop success",
        ("rho_logged", "rho_geo", "success"),
        own_intervals=True,
    ),
    "probe": _plan(
        "A ridge regression (alpha 1) reads the position out of latents: of 20,000 logged rows four fifths to fit, "
        "the others to score. Rows of one episode resemble each other, so the second split keeps whole episodes apart, "
        "and intervals resample episodes.",
        ("rmse", "r2"),
        TableRows(audits.PROBES, audits.probe_rows),
        own_intervals=True,
    ),
    "subspace": _plan(
        "Planning with the latent distance inside the rowspace of the probe alone, and with the rest alone: single "
        f"seeds on the distance-controlled sets, as the paper; means on the high-distance set. {control.SETS} The last "
        "lines: the rowspace's share of the squared latent difference between predicted ends and goals of the shared "
        "pools, on the high-distance set and on both readings of the distance-controlled one, where the paper has it; "
        "two of 192 dimensions would hold 1.04 % if all were alike.",
        ("success", "mse_share"),
        subspace.SUBSPACE,
        "Planning by two of 192 dimensions (rowspace), or by the other 190 (residual)",
        ("success",),
    ),
    "attribution": _plan(
        "What a head makes of the part of a predicted difference d in the probe's rowspace (goal + P d) and of the "
        f"rest. {CANDIDATES} The gradient share is the part of the squared gradient of the cost that lies in the "
        "rowspace, 2 of 192 dimensions: 1.04 % if no direction mattered more.",
        ("rho_geo", "rank", "gradient_share"),
        TableRows(subspace.ATTRIBUTIONS, subspace.attribution_rows),
        "What a head makes of parts of the difference",
        ("rho_geo", "rank", "gradient_share"),
        references={"gradient_share": (100 * 2 / 192, "isotropic: 1.04 %")},
    ),
    "features": _plan(
        f"The paper's head with some of its features [z, g, z - g, |z - g|] set to zero, and with its inputs swapped. "
        f"{CANDIDATES} swap is the mean absolute difference of both orders, in steps and in percent of the mean cost.",
        ("rho_geo", "rank", "swap_steps", "swap_percent"),
        TableRows(subspace.FEATURES, subspace.features_rows),
    ),
    "temporal-geodesic": _plan(
        "What logged times tell about the true distance: correlation over the 100,000 training pairs of `trm-paper`, "
        "in one room or across the wall, and by gap. What the paper calls doorway required is every pair that is not "
        "in one room. Intervals resample episodes.",
        ("pairs", "pearson", "spearman"),
        TableRows([audits.TEMPORAL], audits.temporal_rows),
        "Correlation of logged times with the true distance",
        ("pearson", "spearman"),
        own_intervals=True,
    ),
    "coverage": _plan(
        "Which states a head's pairs are of; LeWM 3072, high-distance set. `geodesic-mlp` has oracle labels, as in "
        "the paper: limited keeps 95 px from the door (25,000 states, 50,000 pairs); balanced has half of its states "
        "within 70 px, half of its pairs with an end there, half across the wall; mixed has half of its pairs across "
        "the wall; random any (30,000 states, 100,000 pairs). The paper does not test logged times: limited keeps "
        "every stretch of the logs that stays 95 px from the door, so no pair spans the door; that shortens gaps, "
        "too, which costs success by itself (`trm-gap50` in the table horizon). Validation RMSE is on pairs of the "
        "same kind, in px for oracle labels, else in steps; that of `trm`, which leans to short times, is larger by "
        "design. distance is the final geodesic distance.",
        stress.COVERAGE_METRICS,
        TableRows(stress.coverage_runs, stress.coverage_rows),
        "Heads by the states they were trained on",
        ("success", "rank"),
    ),
    "layout": _plan(
        "Worlds that neither the world model nor a head has seen, LeWM 3072: the door moved along the wall to 88 and "
        "150 px, and a horizontal wall with its door at 88 px. Each has 100 episodes of its own, drawn by the rule "
        "of the high-distance set; `hybrid` adds latent MSE to `geodesic-mlp`. The paper does not test temporal "
        "heads here.",
        stress.LAYOUT_METRICS,
        plain_rows(stress.LAYOUT_METRICS, stress.layout_lines),
        "The public layout, and worlds that nothing was trained on",
        ("success", "rho_geo"),
    ),
    "trace": _plan(
        "One episode, state by state: of those that latent MSE ends in the wrong room and `trm-paper` solves, the one "
        "that latent MSE brings nearest to its goal. LeWM 3072, high-distance set, a head of its own. steps until the "
        "goal is reached, or all of the budget; there, distance is the geodesic one to the goal and latent MSE the "
        "cost `raw` of being there. The last line: how much of the variance of the latents of all these states, and "
        "of the goal, their first two principal components hold. n counts states.",
        METRICS,
        trace.TRACE,
        own_intervals=True,
    ),
    "pair-sampling": _plan(
        "How many of 100,000 training pairs lie how many steps apart: of whole episodes (`trm-paper`) and with gaps up "
        "to 50 (`trm-gap50`), LeWM 3072, episodes of the high-distance set excluded. A gap is uniform up to the length "
        "of its episode, or up to 50. The paper's are the pairs of its table of labels.",
        tuple(trace.GAPS),
        trace.SAMPLING,
        own_intervals=True,
    ),
}
BEYOND = {
    "tworoom-solved": _plan(
        beyond.SOLVED_NOTE,
        beyond.METRICS,
        plain_rows(beyond.METRICS, beyond.solved),
        "The default repair on the published set and three more",
        ("success", "rho_geo"),
    ),
    "coverage-repair": _plan(
        beyond.REPAIRED_NOTE,
        beyond.METRICS,
        plain_rows(beyond.METRICS, beyond.repaired),
        "Heads by what is left of the logs",
        ("success", "rho_geo"),
    ),
    "budget": _plan(
        budget.NOTE,
        budget.METRICS,
        plain_rows(budget.METRICS, budget.lines),
        "Planners by the rollouts that a plan may score",
        ("success", "steps"),
    ),
    "layouts-unseen": _plan(unseen.NOTE, unseen.METRICS, TableRows(unseen.unseen_runs, unseen.unseen_rows)),
}
"""What the paper's repair cannot do."""

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
    tables={**control.TABLES, **AUDITS, **BEYOND, "tworoom-recipes": recipes.TABLE},
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
        **{name: (f"gap {low}-{high} %", 1) for name, (low, high) in trace.GAPS.items()},
        "latent": ("latent MSE", 3),
        "pc_1": ("variance in component 1 %", 1),
        "pc_2": ("in component 2 %", 1),
    },
    table_groups={"tworoom": tuple(control.TABLES), "audits": tuple(AUDITS), "beyond": tuple(BEYOND)},
    figures=FIGURES,
    legend=control.LEGEND,
)
