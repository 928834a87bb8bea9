"""The TwoRoom control tables of the paper, each with ours beside it, made from recorded rows alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from reachcost.base.progress import Progress
from reachcost.experiments import tworoom_paper as paper
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_rows import BINS, SEEDS, Line, bounds, per_seed, table_row
from reachcost.experiments.tworoom_settings import HEADS, PAPER_HEAD, HeadPlan
from reachcost.planning.cem import CEM
from reachcost.results.records import exclusive, require_intact_runs
from reachcost.results.tables import ResultTable, TableRow

OUTCOMES, RANKING = paper.OUTCOMES, paper.RANKING
CONTROLLED = {"evaluation": "distance-controlled"}
LEGEND = (
    "`raw` is latent MSE. `trm-paper` is the paper's head, trained without the episodes that hold a start or goal of "
    "the evaluation set it is run on; `trm-complete` the same on all episodes; `shuffled` the control of `trm-paper` "
    "with permuted labels, those for validation too. `trm` is our recipe, also without those episodes, "
    "`trm-shuffled` its control. `oracle` plans with the simulator and the true geodesic (the ceiling), `random` "
    "acts at random (the floor). World models see actions clamped to the logged range unless a line says unclamped. "
    "The paper excludes evaluation episodes in one audit only (LeWM, high-distance set); elsewhere its heads are of "
    "the complete cache."
)
INTERVALS = (
    "Brackets are 95 % intervals: bootstrap over world models (for `oracle` and `random`: their planner seeds) and "
    "over episodes, which all models share (20,000 resamples), heads on one world model averaged first. Where all "
    "episodes agree, and for a single world model, shares have the Wilson interval of the distinct episodes. n "
    "counts episodes in all runs of a line."
)
ABLATION = {
    "random-5k-20k": replace(PAPER_HEAD, sampling="random-rows", rows=5_000, pairs=20_000),
    "random-10k-20k": replace(PAPER_HEAD, sampling="random-rows", rows=10_000, pairs=20_000),
    "random-20k-20k": replace(PAPER_HEAD, sampling="random-rows", rows=20_000, pairs=20_000),
    "random-20k-100k": replace(PAPER_HEAD, sampling="random-rows", rows=20_000),
    "random-100k-20k": replace(PAPER_HEAD, sampling="random-rows", rows=100_000, pairs=20_000),
    "random-100k-100k": replace(PAPER_HEAD, sampling="random-rows", rows=100_000),
    "balanced-20k": replace(PAPER_HEAD, pairs=20_000),
    "trm-paper": PAPER_HEAD,
    "gap50-20k": replace(PAPER_HEAD, pairs=20_000, max_gap=50),
    "trm-gap50": replace(PAPER_HEAD, max_gap=50),
}
"""Heads of the temporal ablation, in the order of the paper's table."""


@dataclass(frozen=True)
class TableSpec:
    """A table: what it is about, its columns and its lines."""

    note: str
    metrics: tuple[str, ...]
    lines: Callable[[], list[Line]]


def high_distance() -> list[Line]:
    """The headline: every cost on both kinds of models, then unclamped models and fresh evaluation sets."""
    printed = paper.HIGH_DISTANCE
    lines = [
        Line("lewm", "raw", printed["lewm", "raw"]),
        Line("lewm", "trm-complete", printed["lewm", "trm-complete"]),
        Line("lewm", "trm-paper", printed["lewm", "trm-paper"], head_seeds=SEEDS),
        Line("lewm", "trm", head_seeds=SEEDS),
        Line("lewm", "shuffled", printed["lewm", "shuffled"]),
        Line("lewm", "trm-shuffled"),
        Line("lewm", "oracle", {"success": 100.0}),
        Line("lewm", "random"),
        Line("pldm", "raw", printed["pldm", "raw"]),
        Line("pldm", "trm-complete", printed["pldm", "trm-complete"]),
        Line("pldm", "trm-paper"),
        Line("pldm", "trm", head_seeds=SEEDS),
        Line("pldm", "shuffled", printed["pldm", "shuffled"]),
    ]
    unclamped = {"changes": {"clamp": False}, "setting": "unclamped"}
    lines += [
        Line("lewm", "raw", printed["lewm", "raw"], **unclamped),
        Line("lewm", "trm-paper", printed["lewm", "trm-paper"], **unclamped),
        Line("lewm", "trm", **unclamped),
        Line("pldm", "raw", printed["pldm", "raw"], **unclamped),
        Line("pldm", "trm", **unclamped),
    ]
    return lines + fresh_sets()


def fresh_sets() -> list[Line]:
    """The default head on evaluation sets that nothing was chosen on."""
    return [
        Line("lewm", cost, head_seeds=heads, changes={"evaluation": f"fresh-{number}"}, setting=f"fresh set {number}")
        for number in (1, 2)
        for cost, heads in (("raw", (None,)), ("trm", SEEDS), ("oracle", (None,)), ("random", (None,)))
    ]


def seeds_apart() -> list[Line]:
    """Every world model by itself."""
    lines = [
        line
        for kind in ("lewm", "pldm")
        for cost in ("raw", "trm-complete", "trm-paper", "trm", "shuffled")
        for line in per_seed(Line(kind, cost), paper.PER_SEED.get((kind, cost)))
    ]
    return [*lines, *(line for bound in bounds([Line("lewm", "raw")]) for line in per_seed(bound))]


def exclusion() -> list[Line]:
    """What keeping the evaluation's episodes out of training changes."""
    lines = [Line("lewm", cost, paper.EXCLUSION.get(cost)) for cost in ("raw", "trm-paper", "trm", "shuffled")]
    return [*lines, *bounds(lines)]


def horizon() -> list[Line]:
    """Whole episodes against short gaps, on the paper's distance-controlled set and on the high-distance set."""
    costs = ("raw", "trm-paper", "trm-gap50", "trm")
    controlled, far = [], [Line("lewm", cost, setting="high-distance set") for cost in costs]
    for cost in costs:
        printed = paper.HORIZON.get(cost)
        mean = None if printed is None else {"success": round(float(np.mean(printed)), 1)}
        whole = Line("lewm", cost, mean, changes=CONTROLLED, setting="distance-controlled set")
        controlled += [whole, *per_seed(whole, None if printed is None else [{"success": value} for value in printed])]
    return [*controlled, *far, *bounds([controlled[0], far[0]])]


def temporal_ablation() -> list[Line]:
    """How many rows and pairs, which gaps: one world model, the distance-controlled set."""
    one = Line("lewm", "trm", None, SEEDS[:1], changes=CONTROLLED, single=True)
    lines = [
        replace(one, cost=name, shown="trm-paper", setting=setting, paper={"success": value})
        for name, (setting, value) in zip(ABLATION, paper.TEMPORAL_ABLATION.items(), strict=True)
    ]
    return [replace(one, cost="raw"), *lines, one, *bounds([one])]


def baselines() -> list[Line]:
    """Other costs, some with oracle labels, on the same candidates."""
    costs = [*paper.BASELINES, "decoded-xy", "trm-paper", "trm-symmetric", "hybrid", "trm", "random"]
    return [Line("lewm", cost, paper.BASELINES.get(cost)) for cost in costs]


def balanced_and_controlled() -> list[Line]:
    """Latent MSE on the two smaller sets with budgets of 50 and 150 actions, and our head with 50."""
    lines = []
    for kind in ("lewm", "pldm"):
        for letter, name in (("B", "balanced"), ("D", "distance-controlled")):
            for budget in (50, 150):
                setting = f"{letter}{budget}"
                printed = paper.BALANCED_AND_CONTROLLED[kind, setting]
                mean = {"success": round(float(np.mean(printed)), 1)}
                raw = Line(kind, "raw", mean, changes={"evaluation": name, "budget": budget}, setting=setting)
                lines += [raw, *per_seed(raw, [{"success": value} for value in printed])]
                lines += [replace(raw, cost="trm", paper=None)] if budget == 50 else []
    return [*lines, *bounds([line for line in lines if line.kind == "lewm" and line.cost == "raw" and not line.single])]


def solver_budget() -> list[Line]:
    """Whether more search helps latent MSE."""
    planners = {"300 x 10, 30 elites": CEM(), "1000 x 20, 100 elites": CEM(candidates=1000, iterations=20, elites=100)}
    lines = [
        Line(
            "lewm",
            "raw",
            dict(zip(("success", "same", "cross"), paper.SOLVER_BUDGET[setting], strict=True)),
            SEEDS[:1],
            changes={**CONTROLLED, "planner": planner},
            setting=setting,
            single=True,
        )
        for setting, planner in planners.items()
    ]
    return [*lines, *bounds(lines)]


def geodesic_bins() -> list[Line]:
    """How success depends on the length of the way, on the published and the fresh sets."""
    published = [Line("lewm", cost, head_seeds=SEEDS) for cost in ("trm-paper", "trm")]
    raw = Line("lewm", "raw")
    return [raw, *published, *bounds([raw]), *fresh_sets()]


SPECS = {
    "high-distance": TableSpec(
        "Closed loop on the high-distance set: 50 same-room and 50 cross-wall episodes of 50 actions, three world "
        "models of each kind (seeds 3072-3074). `trm` and, for LeWM, `trm-paper` have three head seeds on each; the "
        "other heads have the seed of their world model. The fresh sets were drawn by the same rule from logs of "
        "their own.",
        OUTCOMES,
        high_distance,
    ),
    "per-seed": TableSpec(
        "The high-distance set by world model; heads have the seed of their world model. The paper's per-seed values "
        "of temporal TRM on LeWM are those of the complete cache.",
        OUTCOMES,
        seeds_apart,
    ),
    "exclusion": TableSpec(
        "The high-distance set with evaluation episodes kept out of training: success and final geodesic distance from "
        "closed-loop control, ρ_geo and oracle best rank from SASC; three world models, one head on each. The lines of "
        "single seeds show the check: rows that the pairs of the first epoch and of validation use, their overlap with "
        "the evaluation set (that of later epochs is proved, too), validation RMSE in steps (of `shuffled`, against "
        "permuted labels; of `trm`, which leans to short times, larger by design); n counts training pairs there.",
        RANKING,
        exclusion,
    ),
    "horizon": TableSpec(
        "Success on the distance-controlled set (40 episodes of 50 actions): `trm-gap50` is the paper's head on "
        "pairs of at most 50 steps.",
        ("success",),
        horizon,
    ),
    "temporal-ablation": TableSpec(
        "Success of the paper's head on the distance-controlled set (40 episodes of 50 actions), LeWM 3072, by how "
        "its pairs are drawn. `random` pairs two of so many random rows that share an episode. The validation RMSE, "
        "in steps, tells heads that died, which predict about 0 for every pair: 41 for balanced pairs, 30 and more "
        "for random rows.",
        ("success", "validation_rmse"),
        temporal_ablation,
    ),
    "baselines": TableSpec(
        "Other terminal costs on the high-distance set, means over LeWM 3072-3074. `linear`, `mahalanobis`, "
        "`geodesic-mlp` and `geodesic-ranking` are trained on oracle distances, `decoded-xy` and `decoded-geodesic` "
        "read positions out of the latent by a linear probe: diagnostics, not repairs. `trm-symmetric` averages both "
        "input orders of `trm-paper`, `hybrid` adds it to latent MSE. ρ_geo and oracle best rank are from SASC.",
        RANKING,
        baselines,
    ),
    "balanced-and-controlled": TableSpec(
        "Success on the balanced (B) and the distance-controlled (D) set, 40 episodes each, with budgets of 50 and "
        "150 actions. The distances of our controlled set are our choice (60-120 px): the paper does not print its "
        "own. Means of the paper are of the seeds it prints.",
        ("success",),
        balanced_and_controlled,
    ),
    "solver-budget": TableSpec(
        "Latent MSE with a larger search, LeWM 3072, distance-controlled set (40 episodes of 50 actions).",
        ("success", "same", "cross"),
        solver_budget,
    ),
    "geodesic-bins": TableSpec(
        "Success by geodesic distance from start to goal, high-distance set and fresh sets, LeWM 3072-3074.",
        ("success", *(f"geo_{low}_{high}" for low, high in BINS)),
        geodesic_bins,
    ),
}


def reproduce_tworoom(
    name: str, out: Path, progress: Progress, heads: dict[str, HeadPlan] | None = None, **smaller: int
) -> ResultTable:
    """Run what is missing in `out`, then write one table with the paper's values beside ours."""
    spec = SPECS[name]
    experiment = Experiment(out, progress, heads or {**HEADS, **ABLATION}, **smaller)
    with exclusive(out):
        require_intact_runs(out)
        rows = [table_row(experiment, line, spec.metrics) for line in spec.lines()]
        metrics = spec.metrics
        if name == "exclusion":
            checks, columns = exclusion_check(experiment)
            rows, metrics = [*rows, *checks], (*metrics, *columns)
        command = f"reachcost reproduce {name}"
        table = ResultTable(
            name,
            f"{spec.note} {INTERVALS}\n\n{LEGEND} Made by `{command}`.",
            metrics,
            rows,
            provenance(experiment, command),
        )
        table.write(out)
    return table


def exclusion_check(experiment: Experiment) -> tuple[list[TableRow], tuple[str, ...]]:
    """What the heads' pairs share with the evaluation set, as measured after sampling."""
    rows = []
    columns = ("rows", "row_overlap", "episode_overlap", "validation_rmse")
    for cost in (*paper.EXCLUSION_CHECK, "trm"):
        for number, seed in enumerate(SEEDS):
            record = experiment.head_record(f"lewm-tworoom-{seed}", cost, seed)
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
                    ours=dict(zip(columns, ours, strict=True)),
                    interval={},
                    paper=printed and dict(zip(columns, printed[number], strict=True)),
                    seed=seed,
                    extra={"excluded_episodes": proof["excluded_episodes"]},
                )
            )
    return rows, columns


def provenance(experiment: Experiment, command: str) -> dict[str, object]:
    """What made the table, where, in what time, from which rows."""
    runs = experiment.used_runs()
    return {
        "command": command,
        "machine": sorted({run.manifest.get("machine", "unknown") for run in runs}),
        "seconds": round(sum(run.manifest["elapsed_seconds"] for run in runs)),
        "rows_sha256": {f"{run.path.parent.name}/{run.path.name}": run.sha256["rows.parquet"] for run in runs},
    }
