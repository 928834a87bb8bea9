"""The study of PushT: the paper's tables at three goal offsets, what limits the planner, and what goes beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from reachcost.planning.cem import CEM
from reachcost.results.tables import TableRow
from reachcost.studies.experiment import ORACLE, RANDOM, Experiment
from reachcost.studies.lines import (
    Line,
    audit_row,
    difference_row,
    line_values,
    mean_intervals,
    ranked,
    table_row,
    together,
)
from reachcost.studies.pusht import paper
from reachcost.studies.pusht.settings import (
    COSTS,
    FOREIGN_SETS,
    FRESH,
    HEADS,
    KIND,
    LOGS,
    MEMBERS,
    MODELS,
    OFFSETS,
    PLANNER,
    POOLS,
    SECOND_HEAD,
    SEEDS,
    sets,
)
from reachcost.studies.selection import SHARES, selections
from reachcost.studies.study import Setting, Study
from reachcost.studies.tables import TablePlan
from reachcost.tasks.pusht.evaluation_sets import BUDGETS
from reachcost.tasks.pusht.task import PushT

OUTCOMES = ("success", "final_success", "distance")
FIRST = SEEDS[:1]
SELECTION = CEM(candidates=64, iterations=10)
BEYOND = CEM(horizon=15, iterations=30, blocks=1, shrink=True)
"""Plans to the end of the budget, and again after every block; chosen on sets to tune on."""
BEYOND_COST = "hybrid"
Rows = list[TableRow]


def line(cost: str, names: Sequence[str], paper: Mapping[str, float] | None = None, setting: str = "") -> Line:
    """A cost on the first world model, over the episodes of some evaluation sets."""
    return Line(KIND, cost, paper, FIRST, sets=tuple(names), setting=setting, single=True)


def offset_rows(experiment: Experiment, offset: int, costs: Sequence[str]) -> Rows:
    """Costs over all evaluation seeds, floor and ceiling, then single evaluation seeds."""
    names = sets(offset)
    printed: Mapping[str, Mapping[str, float]] = {25: {}, 50: paper.OFFSET_50_MEANS, 75: paper.OFFSET_75}[offset]
    per_set: Mapping[str, Sequence[float]] = {25: paper.OFFSET_25, 50: paper.OFFSET_50, 75: {}}[offset]
    lines = [line(cost, names, printed.get(cost)) for cost in (*costs, RANDOM)]
    lines.append(replace(line(ORACLE, names[:1]), setting="the first 50 pairs"))
    for number, seed in enumerate(SEEDS):
        for cost in costs:
            values = per_set.get(cost, ())
            known = {"success": values[number]} if number < len(values) else None
            lines.append(line(cost, names[number : number + 1], known, setting=f"pairs of seed {seed}"))
    return [table_row(experiment, one, OUTCOMES) for one in lines]


def sweep_rows(experiment: Experiment) -> Rows:
    """Hybrids by weight, then with heads of another seed."""
    names = sets(50)
    lines = [line(cost, names, {"success": value}) for cost, value in paper.SWEEP.items()]
    for cost, value in paper.SECOND_HEAD.items():
        one = line(cost, names, {"success": value}, setting=f"heads of seed {SECOND_HEAD}")
        lines.append(replace(one, head_seeds=(SECOND_HEAD,)))
    return [table_row(experiment, one, OUTCOMES) for one in lines]


def difference_rows(experiment: Experiment) -> Rows:
    """How much more success hybrids have than latent distance, and than their shuffled controls."""
    rows = []
    for offset in OFFSETS:
        raw, hybrid, shuffled = (line(cost, sets(offset)) for cost in ("raw", "hybrid", "shuffled-hybrid"))
        for one, against in ((hybrid, raw), (shuffled, raw), (hybrid, shuffled)):
            known = paper.difference(offset, one.cost, against.cost)
            row = difference_row(experiment, replace(one, setting=f"offset {offset}"), against, known)
            gains = line_values(experiment, one)["distance"] - line_values(experiment, against)["distance"]
            ours = {"success": row.ours["success"], "distance": float(gains.mean())}
            row = replace(row, ours=ours, interval={**row.interval, **mean_intervals({"distance": gains})}, extra=None)
            rows.append(row)
    return rows


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools."""
    rows = []
    for offset in OFFSETS:
        known = paper.SASC.get(offset, {})
        for cost in (*paper.SASC[50], "trm", "trm-paper", "trm-hybrid"):
            settings = [part.settings(experiment) for part in line(cost, sets(offset)).parts()]
            values = together([ranked(experiment, one) for one in settings])
            metrics = {metric: values[metric] for metric in ("rho_geo", "rank", "selected")}
            rows.append(metric_row(cost, metrics, known.get(cost), f"offset {offset}"))
    return rows


def selection_rows(experiment: Experiment) -> Rows:
    """One plan of 64 candidates and 10 iterations from every start."""
    rows = []
    for offset in OFFSETS:
        for cost in ("raw", "task-state", "hybrid", "shuffled-hybrid", "trm"):
            settings = [Setting(MEMBERS[KIND][0], cost, evaluation=name) for name in sets(offset)]
            found = [selections(experiment, setting, SELECTION) for setting in settings]
            values = {metric: np.concatenate([one[metric] for one in found])[None] for metric in found[0]}
            known = paper.SELECTED.get(offset, {}).get(cost)
            rows.append(metric_row(cost, values, known, f"offset {offset}"))
    return rows


def final_rows(experiment: Experiment) -> Rows:
    """Where episodes end, at the paper's offset and evaluation seed, then at every offset over all pairs."""
    rows = []
    places = [(sets(50)[:1], "offset 50, pairs of seed 3072", paper.FINAL_DISTANCE)]
    places += [(sets(offset), f"offset {offset}", {}) for offset in OFFSETS]
    for names, setting, printed in places:
        for cost in ("raw", "hybrid", "shuffled-hybrid"):
            one = line(cost, names, printed.get(cost), setting)
            row = table_row(experiment, one, OUTCOMES)
            distances = line_values(experiment, one)["distance"][0]
            low, high = _median_interval(distances)
            ours = {**row.ours, "median": float(np.median(distances))}
            rows.append(replace(row, ours=ours, interval={**row.interval, "median": [low, high]}))
    return rows


def _median_interval(values: np.ndarray, resamples: int = 20_000) -> tuple[float, float]:
    drawn = np.random.default_rng(0).choice(values, (resamples, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), float(high)


def fresh_rows(experiment: Experiment) -> Rows:
    """The paper's protocol and ours on pairs that nothing was chosen on."""
    rows = []
    for offset in OFFSETS:
        names = sets(offset, FRESH)
        setting = f"offset {offset}"
        lines = [line(cost, names, setting=f"{setting}, the paper's planner") for cost in ("raw", "hybrid")]
        planner = {"planner": BEYOND}
        lines += [
            replace(line(cost, names, setting=f"{setting}, to the end of the budget"), changes=planner)
            for cost in ("raw", BEYOND_COST)
        ]
        lines.append(line(RANDOM, names, setting=setting))
        rows += [table_row(experiment, one, OUTCOMES) for one in lines]
    return rows


def audit_rows(experiment: Experiment) -> Rows:
    """Which stage limits the planner, at each offset."""
    rows = []
    for offset in OFFSETS:
        for cost in ("raw", "hybrid"):
            one = Line(KIND, cost, seeds=FIRST, changes={"evaluation": sets(offset)[0]}, single=True)
            row = audit_row(experiment, one)
            rows.append(replace(row, setting=f"offset {offset}: {row.setting}"))
    return rows


def metric_row(
    cost: str, values: Mapping[str, np.ndarray], printed: Mapping[str, float] | None, setting: str
) -> TableRow:
    """A line from the values of each metric [1, episodes]."""
    return TableRow(
        cost=cost,
        model=KIND,
        n=max(value.size for value in values.values()),
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval=mean_intervals(values, SHARES),
        paper=printed,
        seed=MEMBERS[KIND][0].seed,
        setting=setting,
    )


def _offset(offset: int, *costs: str) -> TablePlan:
    note = (
        f"Goals {offset} steps after the start in an episode of the scripted pusher, {BUDGETS[offset]} actions, 50 "
        "pairs for each of the evaluation seeds 3072 to 3074. Success is that at any time, final success that of the "
        "last state, distance the final task distance."
    )
    return TablePlan(
        f"{note} {PROTOCOL}",
        OUTCOMES,
        lambda experiment: offset_rows(experiment, offset, costs),
        title=f"PushT, goal offset {offset}",
    )


PROTOCOL = (
    "CEM as the paper runs it here: 300 candidates of five blocks, 30 elites, 30 iterations, then one block of five "
    "actions of the final mean. The world model is `lewm-pusht-3072`; the paper's is the public checkpoint on expert "
    "logs that cannot be had here, so it is the pattern that can be compared, not the numbers. `oracle` plans with the "
    "simulator and the task distance by the same rules, on 50 pairs."
)
LEGEND = (
    "`raw` is latent distance. `task-state` is the paper's diagnostic head on the task distance of 50,000 logged rows, "
    "`shuffled` its control with permuted training labels; `hybrid` and `shuffled-hybrid` add them to `raw`, each "
    "standardised within the pool, with the weight that follows the name, or 1. `trm` is our temporal head, which "
    "needs no state, `trm-paper` the paper's recipe for it. `random` is the floor."
)
MAIN = ("raw", "task-state", "hybrid", "shuffled", "shuffled-hybrid", "trm")
OFFSET_TABLES = {
    "pusht-25": _offset(25, *MAIN),
    "pusht-50": _offset(50, *MAIN, "trm-hybrid"),
    "pusht-75": _offset(75, "raw", "hybrid-0.5", "hybrid", "shuffled-hybrid-0.5", "shuffled-hybrid", "trm"),
}
TABLES = {
    **OFFSET_TABLES,
    "pusht-sweep": TablePlan(
        f"The hybrid by the weight of its head, goal offset 50, and with heads of another seed. {PROTOCOL}",
        OUTCOMES,
        sweep_rows,
    ),
    "pusht-differences": TablePlan(
        "Paired differences over the 150 pairs of an offset: success in points, final task distance in its own unit. "
        "The paper prints means alone (of one evaluation seed at offset 25); the differences of these stand beside.",
        ("success", "distance"),
        difference_rows,
    ),
    "pusht-sasc": TablePlan(
        "SASC: 96 Gaussian candidates of 25 actions for each of 150 pairs, rolled out and executed once for all costs. "
        "ρ is the rank correlation with the task distance of where a candidate really ends, rank the percentage of the "
        "others that the cost puts before the truly best one, selected the task distance of the one it puts first.",
        ("rho_geo", "rank", "selected"),
        sasc_rows,
        title="How each cost ranks the same candidates",
        drawn=("rho_geo", "rank", "selected"),
    ),
    "pusht-selected": TablePlan(
        "One plan of 64 candidates and 10 iterations from each of 150 starts, the same random numbers for all costs, "
        "executed whole in the simulator. refined: task distance after the final mean; selected: after the candidate "
        "of the last pool with the lowest cost, how many of these were at the goal at any time and at the end; pool "
        "best: after the candidate that ends nearest, and the percentage of the others that the cost puts before it.",
        ("refined", "pool_best", "selected", "selected_success", "selected_final", "rank"),
        selection_rows,
    ),
    "pusht-final-distance": TablePlan(
        f"Where episodes end. The median's interval resamples episodes, too. {PROTOCOL}",
        ("success", "distance", "median", "final_success"),
        final_rows,
    ),
    "pusht-fresh": TablePlan(
        "Pairs that nothing was chosen on: 150 of each offset, drawn by the same rule with seeds 5001 to 5003. Same "
        "world model, same logs, two planners: the paper's, which always looks 25 steps ahead, and one that plans to "
        f"the end of the budget and again after every block, `{BEYOND}`, whose settings were chosen on the sets "
        "`offset-50-tune-1` and `offset-75-tune-1`.",
        OUTCOMES,
        fresh_rows,
        title="Fresh pairs: the paper's planner, and one that plans to the end of the budget",
        drawn=("success", "distance"),
    ),
    "pusht-audit": TablePlan(
        "Which stage limits the planner of the paper's protocol, by `reachcost audit`, 50 pairs of seed 3072.",
        ("goals", "sampling", "representation", "coverage", "ranking", "dynamics", "foresight", "execution"),
        audit_rows,
        "Intervals are those of the audit.",
    ),
}
STUDY = Study(
    name="pusht",
    protocol=1,
    task=PushT,
    logs=LOGS,
    models=MODELS,
    members=MEMBERS,
    planner=PLANNER,
    pools=POOLS,
    evaluation=sets(50)[0],
    tables=TABLES,
    heads=HEADS,
    costs=COSTS,
    foreign_sets=FOREIGN_SETS,
    last_states={"final_success": lambda task, states, goals: task.success(states, goals)},
    headings={
        "final_success": ("final success %", 1),
        "median": ("median distance", 1),
        "distance": ("distance", 1),
        "selected": ("selected", 1),
        "refined": ("refined", 1),
        "pool_best": ("pool best", 1),
        "selected_success": ("selected success %", 1),
        "selected_final": ("selected final %", 1),
        "rho_geo": ("ρ", 3),
    },
    table_groups={"pusht": tuple(TABLES)},
    legend=LEGEND,
)
