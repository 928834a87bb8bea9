"""The TwoRoom control tables of the paper, as lines with the paper's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment, HeadRun
from reachcost.experiments.rows import RowPlan, bounds, per_seed, row_runs, table_row
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.results.tables import TableRow
from reachcost_paper.tworoom import paper
from reachcost_paper.tworoom.settings import ABLATION, FAR_SET, KINDS, LEWM, NEAR_SET, SEEDS

OUTCOMES, RANKING = paper.OUTCOMES, paper.RANKING
CHECKED_HEADS = (*paper.EXCLUSION_CHECK, "trm")
CHECKED = ("rows", "row_overlap", "episode_overlap", "validation_rmse")
BINS = {"geo_120_140": (120, 140), "geo_140_160": (140, 160), "geo_160_180": (160, 180), "geo_180_205": (180, 205)}
"""Geodesic distance from start to goal, in pixels."""
CONTROLLED = {NEAR_SET: "", FAR_SET: "far set"}
"""The paper's distance-controlled set, whose distances it does not print, read in two ways; what lines say of it."""
SETS = (
    "The paper does not print the distances of its distance-controlled set. Ours is read in two ways, 40 episodes of "
    "50 actions each: near, 60 to 120 px, where latent MSE reaches half of the goals, and far, 160 to 190 px, about as "
    "far as both groups can fill the same range, fixed by what `raw` does on it before any other cost met it."
)
BEST: dict[str, Any] = {"changes": {"planner": CEM(execute="best")}, "setting": "best candidate executed"}
LEGEND = (
    "`raw` is latent MSE. `trm-paper` is the paper's head, trained without the episodes that hold a start or goal of "
    "the evaluation set it is run on; `trm-complete` the same on all episodes; `shuffled` the control of `trm-paper` "
    "with permuted labels, those for validation too. `trm` is our recipe, also without those episodes, "
    "`trm-shuffled` its control. `oracle` plans with the simulator and the true geodesic. It is a yardstick and no "
    "ceiling: what is executed is the mean of its elites, which was never scored; where a line says so, the best "
    "candidate is executed instead. `random` acts at random (the floor). World models see actions clamped to the "
    "logged range unless a line says unclamped. The paper excludes evaluation episodes in one audit only (LeWM, "
    "high-distance set); elsewhere its heads are of the complete cache."
)


def high_distance() -> list[RowPlan]:
    """The headline: every cost on both kinds of models, then unclamped models and fresh evaluation sets."""
    printed = paper.HIGH_DISTANCE
    lines = [
        RowPlan("lewm", "raw", printed["lewm", "raw"]),
        RowPlan("lewm", "trm-complete", printed["lewm", "trm-complete"]),
        RowPlan("lewm", "trm-paper", printed["lewm", "trm-paper"], head_seeds=SEEDS),
        RowPlan("lewm", "trm", head_seeds=SEEDS),
        RowPlan("lewm", "shuffled", printed["lewm", "shuffled"]),
        RowPlan("lewm", "trm-shuffled"),
        RowPlan("lewm", "oracle", {"success": 100.0}),
        RowPlan("lewm", "oracle", {"success": 100.0}, **BEST),
        RowPlan("lewm", "trm", **BEST),
        RowPlan("lewm", "random"),
        RowPlan("pldm", "raw", printed["pldm", "raw"]),
        RowPlan("pldm", "trm-complete", printed["pldm", "trm-complete"]),
        RowPlan("pldm", "trm-paper"),
        RowPlan("pldm", "trm", head_seeds=SEEDS),
        RowPlan("pldm", "shuffled", printed["pldm", "shuffled"]),
    ]
    unclamped = {"changes": {"clamp": False}, "setting": "unclamped"}
    lines += [
        RowPlan("lewm", "raw", printed["lewm", "raw"], **unclamped),
        RowPlan("lewm", "trm-paper", printed["lewm", "trm-paper"], **unclamped),
        RowPlan("lewm", "trm", **unclamped),
        RowPlan("pldm", "raw", printed["pldm", "raw"], **unclamped),
        RowPlan("pldm", "trm", **unclamped),
    ]
    return lines + fresh_sets()


def fresh_sets() -> list[RowPlan]:
    """The default head on two further high-distance sets."""
    return [
        RowPlan(
            "lewm", cost, head_seeds=heads, changes={"evaluation": f"fresh-{number}"}, setting=f"fresh set {number}"
        )
        for number in (1, 2)
        for cost, heads in (("raw", (None,)), ("trm", SEEDS), ("oracle", (None,)), ("random", (None,)))
    ]


def seeds_apart() -> list[RowPlan]:
    """Every world model by itself."""
    lines = [
        line
        for kind in ("lewm", "pldm")
        for cost in ("raw", "trm-complete", "trm-paper", "trm", "shuffled")
        for line in per_seed(RowPlan(kind, cost), SEEDS, paper.PER_SEED.get((kind, cost)))
    ]
    return [*lines, *(line for bound in bounds([RowPlan("lewm", "raw")]) for line in per_seed(bound, SEEDS))]


def exclusion() -> list[RowPlan]:
    """What keeping the evaluation's episodes out of training changes."""
    lines = [RowPlan("lewm", cost, paper.EXCLUSION.get(cost)) for cost in ("raw", "trm-paper", "trm", "shuffled")]
    return [*lines, *bounds(lines)]


def horizon() -> list[RowPlan]:
    """Whole episodes against short gaps, on both distance-controlled sets and on the high-distance set."""
    costs = ("raw", "trm-paper", "trm-gap50", "trm")
    lines, raws = [], []
    for name, label in CONTROLLED.items():
        setting = ", ".join(filter(None, ("distance-controlled set", label)))
        here = [RowPlan("lewm", cost, changes={"evaluation": name}, setting=setting) for cost in costs]
        for line in here:
            printed = paper.HORIZON.get(line.cost)
            mean = None if printed is None else {"success": round(float(np.mean(printed)), 1)}
            singles = per_seed(line, SEEDS, printed and [{"success": value} for value in printed])
            lines += [replace(line, paper=mean), *singles]
        raws.append(here[0])
    far = [RowPlan("lewm", cost, setting="high-distance set") for cost in costs]
    return [*lines, *far, *bounds([*raws, far[0]])]


def temporal_ablation() -> list[RowPlan]:
    """How many rows and pairs, which gaps: one world model, both distance-controlled sets."""
    lines = []
    for name, label in CONTROLLED.items():
        one = RowPlan("lewm", "trm", None, SEEDS[:1], changes={"evaluation": name}, setting=label, single=True)
        heads = [
            replace(one, cost=head, shown="trm-paper", setting=_joined(label, drawn), paper={"success": value})
            for head, (drawn, value) in zip(ABLATION, paper.TEMPORAL_ABLATION.items(), strict=True)
        ]
        lines += [replace(one, cost="raw"), *heads, one, *(replace(bound, setting=label) for bound in bounds([one]))]
    return lines


def _joined(label: str, text: str) -> str:
    return f"{label}: {text}" if label else text


def baselines() -> list[RowPlan]:
    """Other costs, some with oracle labels, on the same candidates."""
    costs = [*paper.BASELINES, "decoded-xy", "trm-paper", "trm-symmetric", "hybrid", "trm", "random"]
    return [RowPlan("lewm", cost, paper.BASELINES.get(cost)) for cost in costs]


def balanced_and_controlled() -> list[RowPlan]:
    """Latent MSE on the smaller sets with budgets of 50 and 150 actions, and our head with 50."""
    lines = []
    sets = (("B", "", "balanced"), ("D", "", NEAR_SET), ("D", ", far set", FAR_SET))
    for kind in KINDS:
        for letter, which, name in sets:
            for budget in (50, 150):
                setting = f"{letter}{budget}{which}"
                printed = paper.BALANCED_AND_CONTROLLED[kind, f"{letter}{budget}"]
                mean = {"success": round(float(np.mean(printed)), 1)}
                changes = {"evaluation": name, **({"budget": budget} if budget != 50 else {})}
                raw = RowPlan(kind, "raw", mean, changes=changes, setting=setting)
                lines += [raw, *per_seed(raw, SEEDS, [{"success": value} for value in printed])]
                lines += [replace(raw, cost="trm", paper=None)] if budget == 50 else []
    return [*lines, *bounds([line for line in lines if line.kind == "lewm" and line.cost == "raw" and not line.single])]


def solver_budget() -> list[RowPlan]:
    """Whether more search helps latent MSE."""
    planners = {"300 x 10, 30 elites": {}, "1000 x 20, 100 elites": {"planner": CEM(5, 1000, 20, 100)}}
    lines = []
    for name, label in CONTROLLED.items():
        one = RowPlan("lewm", "raw", None, SEEDS[:1], changes={"evaluation": name}, setting=label, single=True)
        for size, planner in planners.items():
            printed = dict(zip(("success", "same", "cross"), paper.SOLVER_BUDGET[size], strict=True))
            larger = {**one.changes, **planner}
            lines.append(replace(one, paper=printed, changes=larger, setting=_joined(label, size)))
        lines += [replace(bound, setting=label) for bound in bounds([one])]
    return lines


def geodesic_bins() -> list[RowPlan]:
    """How success depends on the length of the way, on the published and the fresh sets."""
    published = [RowPlan("lewm", cost, head_seeds=SEEDS) for cost in ("trm-paper", "trm")]
    raw = RowPlan("lewm", "raw")
    return [raw, *published, *bounds([raw]), *fresh_sets()]


def _plan(note: str, metrics: tuple[str, ...], lines: Callable[[], list[RowPlan]]) -> TablePlan:
    return TablePlan(note, metrics, plain_rows(metrics, lines))


def exclusion_runs(experiment: Experiment) -> list[Cell]:
    """The runs behind the lines, and the heads that are checked."""
    heads = [HeadRun(member, cost) for cost in CHECKED_HEADS for member in LEWM]
    return [*row_runs(experiment, exclusion(), RANKING), *experiment.cells(heads)]


def exclusion_rows(experiment: Experiment) -> list[TableRow]:
    """The lines, then the check that no head saw the evaluation set."""
    return [*(table_row(experiment, line, RANKING) for line in exclusion()), *exclusion_check(experiment)]


def exclusion_check(experiment: Experiment) -> list[TableRow]:
    """What the heads' pairs share with the evaluation set, as measured after sampling."""
    rows = []
    for cost in CHECKED_HEADS:
        for number, member in enumerate(LEWM):
            record = experiment.head_record(member, cost)
            proof = record["pairs"]["exclusion"]
            ours = (
                proof["rows"],
                proof["overlapping_rows"],
                proof["overlapping_episodes"],
                record["validation_rmse"],
            )
            printed = paper.EXCLUSION_CHECK.get(cost)
            rows.append(
                TableRow(
                    cost=cost,
                    model="lewm",
                    n=record["pairs"]["train_pairs"],
                    ours=dict(zip(CHECKED, ours, strict=True)),
                    interval={},
                    paper=printed and dict(zip(CHECKED, printed[number], strict=True)),
                    seed=member.seed,
                    extra={"excluded_episodes": proof["excluded_episodes"]},
                )
            )
    return rows


TABLES = {
    "high-distance": _plan(
        "Closed loop on the high-distance set: 50 same-room and 50 cross-wall episodes of 50 actions, three world "
        "models of each kind (seeds 3072-3074). `trm` and, for LeWM, `trm-paper` have three head seeds on each; the "
        "other heads have the seed of their world model. The fresh sets were drawn by the same rule from logs of "
        "their own.",
        OUTCOMES,
        high_distance,
    ),
    "per-seed": _plan(
        "The high-distance set by world model; heads have the seed of their world model. The paper's per-seed values "
        "of temporal TRM on LeWM are those of the complete cache.",
        OUTCOMES,
        seeds_apart,
    ),
    "exclusion": TablePlan(
        "The high-distance set with evaluation episodes kept out of training: success and final geodesic distance from "
        "closed-loop control, ρ_geo and oracle best rank from SASC; three world models, one head on each. The lines of "
        "single seeds show the check: rows that the pairs of the first epoch and of validation use, their overlap with "
        "the evaluation set (that of later epochs is proved, too), validation RMSE in steps (of `shuffled`, against "
        "permuted labels; of `trm`, which leans to short times, larger by design); n counts training pairs there.",
        (*RANKING, *CHECKED),
        TableRows(exclusion_runs, exclusion_rows),
    ),
    "horizon": _plan(
        f"Success on the distance-controlled set: `trm-gap50` is the paper's head on pairs of at most 50 steps. {SETS}",
        ("success",),
        horizon,
    ),
    "temporal-ablation": _plan(
        "Success of the paper's head on the distance-controlled set, LeWM 3072, by how its pairs are drawn. `random` "
        "pairs two of so many random rows that share an episode. The validation RMSE, in steps, tells heads that died, "
        "which predict about 0 for every pair: 41 for balanced pairs, 30 and more for random rows. Heads keep the "
        f"episodes of the set they are run on out, so each set has its own. {SETS}",
        ("success", "validation_rmse"),
        temporal_ablation,
    ),
    "baselines": _plan(
        "Other terminal costs on the high-distance set, means over LeWM 3072-3074. `linear`, `mahalanobis`, "
        "`geodesic-mlp` and `geodesic-ranking` are trained on oracle distances, `decoded-xy` and `decoded-geodesic` "
        "read positions out of the latent by a linear probe: diagnostics, not repairs. `trm-symmetric` averages both "
        "input orders of `trm-paper`, `hybrid` adds it to latent MSE. ρ_geo and oracle best rank are from SASC.",
        RANKING,
        baselines,
    ),
    "balanced-and-controlled": _plan(
        "Success on the balanced (B) and the distance-controlled (D) set, 40 episodes each, with budgets of 50 and "
        f"150 actions. Means of the paper are of the seeds it prints. {SETS}",
        ("success",),
        balanced_and_controlled,
    ),
    "solver-budget": _plan(
        f"Latent MSE with a larger search, LeWM 3072, distance-controlled set. {SETS}",
        ("success", "same", "cross"),
        solver_budget,
    ),
    "geodesic-bins": _plan(
        "Success by geodesic distance from start to goal, high-distance set and fresh sets, LeWM 3072-3074.",
        ("success", *BINS),
        geodesic_bins,
    ),
}
