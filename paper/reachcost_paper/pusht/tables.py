"""The study of PushT: the paper's tables at three goal offsets, what limits the planner, and what goes beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from reachcost.core.seeding import generator
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment
from reachcost.experiments.rows import (
    RowPlan,
    audit_cell,
    audit_row,
    difference_row,
    mean_intervals,
    metric_row,
    ranked,
    row_runs,
    row_values,
    table_row,
    together,
)
from reachcost.experiments.runs import SascRun, SelectionRun, selections
from reachcost.experiments.study import Setting, Study
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.results.tables import TableRow
from reachcost.tasks.pusht.contacts import require_pymunk
from reachcost.tasks.pusht.evaluation_sets import BUDGETS
from reachcost.tasks.pusht.task import PushT
from reachcost_paper.pusht import paper
from reachcost_paper.pusht.figures import FIGURES
from reachcost_paper.pusht.pictures import contact_cells, draw_contact
from reachcost_paper.pusht.settings import (
    BLOCK,
    COSTS,
    FOREIGN_SETS,
    FRESH,
    HEADS,
    LOGS,
    MEMBER,
    MODEL,
    NEW,
    OFFSETS,
    PLANNER,
    POOLS,
    READINGS,
    SECOND_HEAD,
    SEEDS,
    WHOLE,
    bundled,
    sets,
)

OUTCOMES = ("success", "final_success", "distance")
COMPARED = ("raw", "hybrid", "shuffled-hybrid")
FAR_OFFSETS = OFFSETS[1:]
SELECTION = CEM(candidates=64, iterations=10)
BEYOND = CEM(
    horizon=15,
    candidates=300,
    iterations=10,
    elites=10,
    blocks=1,
    warm_start=True,
    deviation=0.7,
    correlation=0.7,
    keep_elites=10,
    shrink=True,
)
"""Plans to the end of the budget, and again after every block; chosen on sets to tune on."""
FROM_LOGS = replace(BEYOND, from_logs=True, least_deviation=0.3)
"""Begins every plan with what was logged from states like the present one; looked at on sets to tune on."""
FEWER = replace(FROM_LOGS, candidates=37, iterations=5, elites=8, keep_elites=4)
"""The same with a sixteenth of the rollouts, in the size of `CEM.experienced()`."""
Rows = list[TableRow]


def line(cost: str, names: Sequence[str], reading: str = WHOLE, setting: str = "") -> RowPlan:
    """A cost on the episodes of some evaluation sets."""
    changes = {} if cost == RANDOM else READINGS[reading]
    return RowPlan(MODEL, cost, changes=changes, sets=tuple(names), setting=setting)


def offset_lines(offset: int, costs: Sequence[str], blockwise: Sequence[str] = ()) -> list[RowPlan]:
    """Costs over all evaluation seeds, floor and ceiling, in both readings, then single evaluation seeds."""
    names, means, by_seed = sets(offset), paper.means(offset), paper.by_seed(offset)
    lines = [replace(line(cost, names), paper=means.get(cost)) for cost in costs] + bounds(offset)
    lines += [replace(line(cost, names, BLOCK, BLOCK), paper=means.get(cost)) for cost in COMPARED]
    lines += [line(cost, names[:1], BLOCK, f"{_pairs(SEEDS[0])}, {BLOCK}") for cost in (*blockwise, ORACLE)]
    for number, seed in enumerate(SEEDS):
        for cost in costs:
            known = {"success": by_seed[cost][number]} if number < len(by_seed.get(cost, ())) else None
            lines.append(replace(line(cost, names[number : number + 1], setting=_pairs(seed)), paper=known))
    return lines


def bounds(offset: int, setting: str = "") -> list[RowPlan]:
    """Floor, and ceiling on the pairs of the first evaluation seed."""
    few = f"{setting}, {_pairs(SEEDS[0])}" if setting else _pairs(SEEDS[0])
    return [line(RANDOM, sets(offset), setting=setting), line(ORACLE, sets(offset)[:1], setting=few)]


def _pairs(seed: int) -> str:
    return f"pairs of seed {seed}"


def sweep_lines() -> list[RowPlan]:
    """Hybrids by weight, then with heads of another seed."""
    lines = [replace(line(cost, sets(50)), paper={"success": value}) for cost, value in paper.SWEEP.items()]
    for cost, value in paper.SECOND_HEAD.items():
        one = line(cost, sets(50), setting=f"heads of seed {SECOND_HEAD}")
        lines.append(replace(one, paper={"success": value}, head_seeds=(SECOND_HEAD,)))
    return [*lines, *bounds(50)]


def difference_runs(experiment: Experiment) -> list[Cell]:
    """The closed loops that are compared."""
    lines = [line(cost, sets(offset), reading) for cost in COMPARED for offset in OFFSETS for reading in READINGS]
    return row_runs(experiment, lines)


def difference_rows(experiment: Experiment) -> Rows:
    """How much more success hybrids have than latent distance, and than their shuffled controls."""
    rows = []
    for reading, offset in product(READINGS, OFFSETS):
        raw, hybrid, shuffled = (
            replace(line(cost, sets(offset), reading), setting=f"offset {offset}, {reading}") for cost in COMPARED
        )
        rows += [_difference(experiment, offset, *two) for two in ((hybrid, raw), (shuffled, raw), (hybrid, shuffled))]
    return rows


def _difference(experiment: Experiment, offset: int, one: RowPlan, against: RowPlan) -> TableRow:
    row = difference_row(experiment, one, against, paper.difference(offset, one.cost, against.cost))
    gains = row_values(experiment, one)["distance"] - row_values(experiment, against)["distance"]
    ours = {"success": row.ours["success"], "distance": float(gains.mean())}
    return replace(row, ours=ours, interval={**row.interval, **mean_intervals({"distance": gains})}, extra=None)


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools."""
    return [_sasc_row(experiment, offset, cost) for offset in OFFSETS for cost in RANKED]


def _sasc_row(experiment: Experiment, offset: int, cost: str) -> TableRow:
    known = paper.SASC.get(offset, {}).get(cost)
    values = together([ranked(experiment, [Setting(MEMBER, cost, evaluation=name)]) for name in sets(offset)])
    metrics = {metric: values[metric] for metric in ("rho_geo", "rank", "selected")}
    return metric_row(experiment, MODEL, cost, None, metrics, known, f"offset {offset}")


def selection_runs(experiment: Experiment) -> list[Cell]:
    """Every cost on every evaluation set."""
    settings = [Setting(MEMBER, cost, evaluation=name) for name in EVALUATIONS for cost in SELECTED]
    return experiment.cells(SelectionRun(setting, SELECTION) for setting in settings)


def selection_rows(experiment: Experiment) -> Rows:
    """One plan of 64 candidates and 10 iterations from every start."""
    return [_selection_row(experiment, offset, cost) for offset in OFFSETS for cost in SELECTED]


def _selection_row(experiment: Experiment, offset: int, cost: str) -> TableRow:
    settings = [Setting(MEMBER, cost, evaluation=name) for name in sets(offset)]
    found = [selections(experiment, setting, SELECTION) for setting in settings]
    values = {metric: np.concatenate([one[metric] for one in found])[None] for metric in found[0]}
    known = paper.SELECTED.get(offset, {}).get(cost)
    return metric_row(experiment, MODEL, cost, None, values, known, f"offset {offset}")


def final_lines() -> list[RowPlan]:
    """Where episodes end, at the paper's offset and evaluation seed, then at every offset over all pairs."""
    lines = [
        replace(line(cost, sets(50)[:1], reading, f"offset 50, {_pairs(SEEDS[0])}, {reading}"), paper=printed)
        for reading in READINGS
        for cost, printed in paper.FINAL_DISTANCE.items()
    ]
    for offset in OFFSETS:
        lines += [line(cost, sets(offset), setting=f"offset {offset}") for cost in COMPARED]
        lines += bounds(offset, f"offset {offset}")
    return lines


def final_rows(experiment: Experiment) -> Rows:
    """The lines, with the median of the distance."""
    return [_final_row(experiment, one) for one in final_lines()]


def _final_row(experiment: Experiment, one: RowPlan) -> TableRow:
    row, distances = table_row(experiment, one, OUTCOMES), row_values(experiment, one)["distance"][0]
    ours = {**row.ours, "median": float(np.median(distances))}
    return replace(row, ours=ours, interval={**row.interval, "median": _median_interval(distances)})


def audit_rows(experiment: Experiment) -> Rows:
    """Which stage limits the planner, by offset and reading."""
    rows = []
    for (reading, offset), one in AUDITED.items():
        row = audit_row(experiment, one)
        rows.append(replace(row, seed=None, setting=f"offset {offset}, {reading}, {row.setting}"))
    return rows


def _median_interval(values: np.ndarray, resamples: int = 20_000) -> list[float]:
    drawn = generator(0, "median").choice(values, (resamples, len(values)))
    return np.quantile(np.median(drawn, axis=1), (0.025, 0.975)).tolist()


def fresh_lines() -> list[RowPlan]:
    """The paper's protocol and ours on pairs that nothing was chosen on."""
    lines = []
    for offset in FAR_OFFSETS:
        for costs, planner, searched in (
            (("raw",), None, WHOLE),
            (("raw", "trm-hybrid"), BEYOND, "to the end of the budget"),
        ):
            lines += [_fresh_line(cost, offset, FRESH, planner, f", {searched}") for cost in costs]
        lines.append(_fresh_line(RANDOM, offset, FRESH, None, ""))
    for offset in FAR_OFFSETS:
        for cost, planner, searched in (
            ("raw", None, f", {WHOLE}"),
            ("raw", FROM_LOGS, ", to the end of the budget, from logs"),
            ("raw", FEWER, ", to the end of the budget, from logs, 37 x 5"),
            (RANDOM, None, ""),
        ):
            lines.append(_fresh_line(cost, offset, NEW, planner, f"{searched}, new pairs"))
    return lines


def _fresh_line(cost: str, offset: int, seeds: tuple[int, ...], planner: CEM | None, setting: str) -> RowPlan:
    one = line(cost, sets(offset, seeds), setting=f"offset {offset}{setting}")
    return one if planner is None else replace(one, changes={"planner": planner})


def _offset(offset: int, costs: Sequence[str], blockwise: Sequence[str] = ()) -> TablePlan:
    note = (
        f"Goals {offset} steps after the start in an episode of the scripted pusher, {BUDGETS[offset]} actions, 50 "
        "pairs for each of the evaluation seeds 3072 to 3074. Success is that at any time, final success that of the "
        "last state, distance the final task distance."
    )
    rows = plain_rows(OUTCOMES, lambda: offset_lines(offset, costs, blockwise))
    return TablePlan(
        f"{note} {PROTOCOL}",
        OUTCOMES,
        replace(rows, further=contact_cells) if offset == 50 else rows,
        picture=draw_contact if offset == 50 else None,
    )


AUDITED = {
    (reading, offset): line("raw", sets(offset)[:1], reading).parts()[0]
    for reading, offset in ((WHOLE, 25), (WHOLE, 50), (WHOLE, 75), (BLOCK, 50))
}
RANKED = (*paper.SASC[50], "trm", "trm-paper", "trm-hybrid")
SELECTED = ("raw", "task-state", "hybrid", "shuffled-hybrid", "trm")
EVALUATIONS = [name for offset in OFFSETS for name in sets(offset)]
RANKINGS = [SascRun(Setting(MEMBER, cost, evaluation=name)) for name in EVALUATIONS for cost in RANKED]
PROTOCOL = (
    "CEM as the paper runs it here: 300 candidates of five blocks, 30 elites, 30 iterations, final mean. How much of a "
    "plan is executed can be read in two ways: all 25 actions, as in other tasks and public configurations, which is "
    f"meant unless a line says otherwise, or the first block ({BLOCK}), as the paper's section on PushT says. The "
    "paper's world model is the public checkpoint on expert logs that cannot be had here, so the pattern can be "
    "compared, not the numbers. `oracle` plans with the simulator and the task distance by the same "
    "rules."
)
LEGEND = (
    f"The world model of all lines is `{MODEL}`, so intervals say nothing about other models. `raw` is latent "
    "distance. `task-state` is the paper's diagnostic head on the task distance of 50,000 logged rows, `shuffled` its "
    "control: training labels are permuted, and true validation labels choose its epoch, as in the paper. `hybrid` and "
    "`shuffled-hybrid` add them to `raw`, each standardised within the pool, with the weight that follows the name, or "
    "1. `trm` is our temporal head, which needs no state, `trm-hybrid` adds it to `raw`, `trm-paper` is the paper's "
    "recipe for it. `random` is the floor."
)
HYBRIDS = tuple(paper.OFFSET_75)
MAIN = ("raw", "task-state", "hybrid", "shuffled", "shuffled-hybrid")
TABLES = {
    "pusht-25": _offset(25, (*MAIN, "trm")),
    "pusht-50": _offset(50, (*MAIN, "trm"), ("task-state", "shuffled")),
    "pusht-75": _offset(75, (*HYBRIDS, "trm")),
    "pusht-sweep": TablePlan(
        f"The hybrid by the weight of its head, goal offset 50, 150 pairs, and with heads of another seed. {PROTOCOL}",
        OUTCOMES,
        plain_rows(OUTCOMES, sweep_lines),
    ),
    "pusht-differences": TablePlan(
        "Paired differences over the 150 pairs of an offset: success in points, final task distance in its own unit. "
        "The paper prints means alone (of one evaluation seed at offset 25); the differences of these stand beside.",
        ("success", "distance"),
        TableRows(difference_runs, difference_rows),
    ),
    "pusht-sasc": TablePlan(
        "SASC: 96 Gaussian candidates of 25 actions for each of 150 pairs, rolled out and executed once for all costs. "
        "ρ is the rank correlation with the task distance of where a candidate really ends, rank the percentage of the "
        "others that the cost puts before the truly best one, selected the task distance of the one it puts first.",
        ("rho_geo", "rank", "selected"),
        TableRows(RANKINGS, sasc_rows),
        title="PushT: how each cost ranks the same candidates",
        drawn=("rho_geo", "rank", "selected"),
    ),
    "pusht-selected": TablePlan(
        "One plan of 64 candidates and 10 iterations from each of 150 starts, the same random numbers for all costs, "
        "executed whole in the simulator. refined: task distance after the final mean; selected: after the candidate "
        "of the last pool with the lowest cost, how many of these were at the goal at any time and at the end; pool "
        "best: after the candidate that ends nearest, and rank the percentage of the others that the cost puts before "
        "it.",
        ("refined", "pool_best", "selected", "selected_success", "selected_final", "rank"),
        TableRows(selection_runs, selection_rows),
        title="PushT: distance and success after one plan",
        drawn=("selected", "selected_success"),
    ),
    "pusht-final-distance": TablePlan(
        f"Where episodes end. The median's interval resamples episodes, too. {PROTOCOL}",
        ("success", "distance", "median", "final_success"),
        TableRows(lambda experiment: row_runs(experiment, final_lines()), final_rows),
    ),
    "pusht-audit": TablePlan(
        "Which stage limits latent distance in the paper's protocol, by `reachcost audit`: 50 pairs of seed 3072 of "
        "each offset. goals: % within reach; sampling: % success of the oracle planner; representation: R² of the "
        "coordinate that a probe reads worst; ranking: share of the possible gain; dynamics: skill of predicting "
        "states; execution: % success. Brackets are 95 % intervals of the audit, over episodes.",
        ("goals", "sampling", "representation", "coverage", "ranking", "dynamics", "foresight", "execution"),
        TableRows(lambda experiment: [audit_cell(experiment, one) for one in AUDITED.values()], audit_rows),
        intervals="",
    ),
    "pusht-fresh": TablePlan(
        "Pairs that no setting was chosen on: 150 of each offset, drawn by the same rule with seeds 5001 to 5003. They "
        "are of the scripted pusher, which also made most of the logs, though of none of their episodes. World model, "
        "logs, pairs and the second planner are not the paper's, so its numbers cannot be compared with these. One "
        "world model, two planners: the paper's, which always looks 25 steps ahead, and one that plans to the end of "
        "the budget and again after every block, with a third of the iterations, a warm start, correlated noise and "
        "kept elites. It was chosen on `offset-50-tune-1` (about fifteen tries); offset 75 was looked at once, on "
        "`offset-75-tune-1`. `trm-hybrid` adds our temporal head, which needs no state, to `raw`. The lines `from "
        "logs` begin each plan with the logged action sequences that started nearest to the present latent, and keep a "
        "deviation of 0.3; that was tried once on `offset-50-tune-1` and `offset-75-tune-1`, as was which logged rows "
        "count, and then run on new pairs of seeds 7001 to 7003 alone. `37 x 5` has a sixteenth of its 3,000 rollouts "
        "a plan, in the size of `CEM.experienced()`, and came later, on the same pairs; the paper's planner has 9,000 "
        "a plan, for five times as many actions. (Pairs of seeds 6001 to 6003 were given up after 50 of each offset, "
        "on which the paper's `hybrid` did as `raw`.)",
        OUTCOMES,
        plain_rows(OUTCOMES, fresh_lines),
        title="PushT, fresh pairs: the paper's planner, and one that plans to the end of the budget",
        drawn=("success", "distance"),
    ),
}
STUDY = Study(
    name="pusht",
    protocol=1,
    task=PushT,
    logs=LOGS,
    models={MODEL: bundled},
    members={MODEL: (MEMBER,)},
    planner=PLANNER,
    pools=POOLS,
    quick_planner=replace(PLANNER, blocks=None),
    evaluation=sets(50)[0],
    tables=TABLES,
    figures=FIGURES,
    heads=HEADS,
    costs=COSTS,
    foreign_sets=FOREIGN_SETS,
    require=require_pymunk,
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
