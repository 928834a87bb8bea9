"""The study of PushT: the paper's tables at three goal offsets, the limits of the planner, and further tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from reachcost.audits.sasc import to_goals
from reachcost.audits.stages import STAGES
from reachcost.core.seeding import EpisodeStreams, generator
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment, SettingRun
from reachcost.experiments.rows import (
    RowPlan,
    mean_intervals,
    ranked,
    row_runs,
    table_row,
    together,
)
from reachcost.experiments.runs import SascRun
from reachcost.experiments.study import Setting, Study
from reachcost.experiments.tables import TablePlan, TableRows, plain_rows
from reachcost.planning.cem import CEM
from reachcost.planning.planner import PlanContext, Round
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import compare_rankings
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task
from reachcost.tasks.pusht.physics import require_pymunk
from reachcost.tasks.pusht.task import PushT
from reachcost_paper.package_data import read_notes, read_paper
from reachcost_paper.pusht import settings
from reachcost_paper.pusht.figures import contact_cells, draw_contact
from reachcost_paper.pusht.settings import BLOCK, FRESH, FULL, MEMBER, MODEL, NEW, OFFSETS, READINGS, SEEDS, sets
from reachcost_paper.rows import audit_cell, audit_row, difference_row, metric_row, row_values

Rows = list[TableRow]
NOTES = read_notes("reachcost_paper.pusht")
PAPER = read_paper("reachcost_paper.pusht")
OUTCOMES = ("success", "final_success", "distance")
MAIN = ("raw", "task-state", "hybrid", "shuffled", "shuffled-hybrid", "trm")
COMPARED = ("raw", "hybrid", "shuffled-hybrid")
RANKED = (*PAPER["sasc"]["50"], "trm", "trm-paper", "trm-hybrid")
SELECTED = ("raw", "task-state", "hybrid", "shuffled-hybrid", "trm")
EVALUATIONS = [name for offset in OFFSETS for name in sets(offset)]
RANKINGS = [SascRun(Setting(MEMBER, cost, evaluation=name)) for name in EVALUATIONS for cost in RANKED]
SELECTION = CEM(candidates=64, iterations=10)
SIZE: dict[str, Any] = {"horizon": 15, "candidates": 300, "iterations": 10, "elites": 10, "keep_elites": 10}
TO_THE_END = CEM(**SIZE, blocks=1, warm_start=True, deviation=0.7, correlation=0.7, shrink=True)
"""Plans to the end of the budget, and again after every block; chosen on tuning sets."""
FROM_LOGS = replace(TO_THE_END, from_logs=True, least_deviation=0.3)
"""Begins every plan with actions logged from similar states; inspected on tuning sets."""
FEWER = replace(FROM_LOGS, candidates=37, iterations=5, elites=8, keep_elites=4)
"""The same with a sixteenth of the rollouts, in the size of `CEM.experienced()`."""
DISTANCES = ("refined", "pool_best", "selected", "rank")
SHARES = ("selected_success", "selected_final")
"""Shares of selected candidates that reach the goal at any time, and that end there."""


@dataclass(frozen=True)
class SelectionRun(SettingRun):
    """One plan from every start; rows are episodes.

    Columns are oracle distances: `refined` after the mean of the last elites, `selected` after the candidate of the
    last pool with the lowest cost, `pool_best` after the candidate that ends nearest; and `rank`, the percentage of
    other candidates that the cost prefers to the nearest one.
    """

    kind: ClassVar[str] = "selection"
    planner: CEM

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {
            **recording.behind(self.setting),
            "clamp": self.setting.clamp,
            "planner": type(self.planner).__name__,
            "planner_settings": self.planner,
            "planner_seed": self.setting.member.seed,
        }

    @torch.no_grad()
    def compute(self, recording: Experiment, directory: Path) -> Columns:
        setting, member = self.setting, self.setting.member
        task, goals = recording.place(setting.evaluation)
        model = recording.model(member.model, setting.clamp)
        if (blocks := blocks_of(model)) is None:
            raise ReachcostError(f"{member.model} has no `actions`: its blocks cannot be executed")
        context, goal = (encode_rows(model, task.observe(states), len(goals)) for states in (goals.starts, goals.goals))
        streams = EpisodeStreams(member.seed, "plan", goals.episodes, 0)
        rounds: list[Round] = []
        watched = PlanContext(model, recording.cost(setting), context[:, None], goal, streams, watch=rounds.append)
        mean, found = self.planner.plan(watched), rounds[-1]
        plans = torch.cat([found.pool, mean[:, None]], dim=1)
        ends, reached = execute_watched(task, goals, blocks.unroll(plans.cpu().numpy()))
        distance, rows = to_goals(task.distance, ends, goals), np.arange(len(goals))
        costs, chosen = found.costs.cpu().numpy(), found.costs.argmin(1).cpu().numpy()
        return {
            "episode": goals.episodes,
            "refined": distance[:, -1],
            "pool_best": distance[:, :-1].min(1),
            "selected": distance[rows, chosen],
            "rank": compare_rankings({"": costs}, distance[:, :-1])[""].oracle_best_rank,
            "selected_success": reached[rows, chosen],
            "selected_final": task.success(ends[rows, chosen], goals.goals),
        }


def execute_watched(task: Task, goals: EvaluationSet, plans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Execute actions [E, S, T, a]; returns the last states [E, S, ...], and whether the goal was reached [E, S]."""
    shape = plans.shape[:2]
    states, there = (np.repeat(part, shape[1], axis=0) for part in (goals.starts, goals.goals))
    reached = np.array(task.success(states, there))
    for actions in plans.reshape(-1, *plans.shape[2:]).swapaxes(0, 1):
        states = task.step(states, actions)
        reached |= task.success(states, there)
    return states.reshape(*shape, *states.shape[1:]), reached.reshape(shape)


def selections(experiment: Experiment, setting: Setting, planner: CEM) -> dict[str, np.ndarray]:
    """The results of one plan, from its recorded rows: each [episodes]; shares in percent."""
    keys = {"episode": experiment.evaluation(setting.evaluation).episodes.tolist()}
    read = require_rows(experiment.read(SelectionRun(setting, planner)), keys, (*DISTANCES, *SHARES))
    return {name: 100 * value if name in SHARES else value for name, value in read.items()}


def line(cost: str, names: Sequence[str], reading: str = FULL, setting: str = "") -> RowPlan:
    """A cost on the episodes of some evaluation sets."""
    changes = {} if cost == RANDOM else READINGS[reading]
    return RowPlan(MODEL, cost, changes=changes, sets=tuple(names), setting=setting)


def offset_lines(offset: int, costs: Sequence[str], blockwise: Sequence[str] = ()) -> list[RowPlan]:
    """Costs over all evaluation seeds and references, in both readings, then single evaluation seeds."""
    names, means, by_seed = sets(offset), _printed("means", offset), _printed("by-seed", offset)
    lines = [replace(line(cost, names), paper=means.get(cost)) for cost in costs] + bounds(offset)
    lines += [replace(line(cost, names, BLOCK, BLOCK), paper=means.get(cost)) for cost in COMPARED]
    lines += [line(cost, names[:1], BLOCK, f"{_pairs(SEEDS[0])}, {BLOCK}") for cost in (*blockwise, ORACLE)]
    for (number, name), cost in product(enumerate(names), costs):
        known = by_seed.get(cost, ())[number : number + 1]
        one = line(cost, [name], setting=_pairs(SEEDS[number]))
        lines.append(replace(one, paper={"success": known[0]} if known else None))
    return lines


def bounds(offset: int, setting: str = "") -> list[RowPlan]:
    """Random actions, and the oracle on the pairs of the first evaluation seed."""
    few = f"{setting}, {_pairs(SEEDS[0])}" if setting else _pairs(SEEDS[0])
    return [line(RANDOM, sets(offset), setting=setting), line(ORACLE, sets(offset)[:1], setting=few)]


def _printed(table: str, offset: int) -> dict[str, Any]:
    return PAPER[table].get(str(offset), {})


def _pairs(seed: int) -> str:
    return f"pairs of seed {seed}"


def sweep_lines() -> list[RowPlan]:
    """Hybrids by weight, then with heads of another seed."""
    first = [replace(line(cost, sets(50)), paper={"success": value}) for cost, value in PAPER["sweep"].items()]
    other: dict[str, Any] = {"setting": f"heads of seed {settings.SECOND_HEAD}", "head_seeds": (settings.SECOND_HEAD,)}
    second = [
        replace(line(cost, sets(50)), paper={"success": value}, **other) for cost, value in PAPER["second-head"].items()
    ]
    return [*first, *second, *bounds(50)]


def compared_lines() -> list[RowPlan]:
    return [line(cost, sets(offset), reading) for cost in COMPARED for offset in OFFSETS for reading in READINGS]


def difference_rows(experiment: Experiment) -> Rows:
    """How much more success hybrids have than latent distance, and than their shuffled controls."""
    rows = []
    for reading, offset in product(READINGS, OFFSETS):
        raw, hybrid, shuffled = (
            replace(line(cost, sets(offset), reading), setting=f"offset {offset}, {reading}") for cost in COMPARED
        )
        rows += [_difference(experiment, offset, *two) for two in ((hybrid, raw), (shuffled, raw), (hybrid, shuffled))]
    return rows


def _difference(experiment: Experiment, offset: int, one: RowPlan, base: RowPlan) -> TableRow:
    row = difference_row(experiment, one, base, _printed_difference(offset, one.cost, base.cost))
    gains = row_values(experiment, one)["distance"] - row_values(experiment, base)["distance"]
    ours = {"success": row.ours["success"], "distance": float(gains.mean())}
    return replace(row, ours=ours, interval={**row.interval, **mean_intervals({"distance": gains})}, extra=None)


def _printed_difference(offset: int, cost: str, base: str) -> dict[str, float]:
    """Difference of two printed means, or of values of the first evaluation seed where the paper has no others."""
    first = {name: {"success": values[0]} for name, values in _printed("by-seed", offset).items()}
    known = _printed("means", offset) or first
    metrics = [metric for metric in known[cost] if metric != "final_success"]
    return {metric: round(known[cost][metric] - known[base][metric], 1) for metric in metrics}


def sasc_rows(experiment: Experiment) -> Rows:
    rows = []
    for offset, cost in product(OFFSETS, RANKED):
        values = together([ranked(experiment, [Setting(MEMBER, cost, evaluation=name)]) for name in sets(offset)])
        metrics = {metric: values[metric] for metric in ("rho_geo", "rank", "selected")}
        known = _printed("sasc", offset).get(cost)
        rows.append(metric_row(experiment, MODEL, cost, None, metrics, known, f"offset {offset}"))
    return rows


def selection_runs(experiment: Experiment) -> list[Cell]:
    all_settings = [Setting(MEMBER, cost, evaluation=name) for name in EVALUATIONS for cost in SELECTED]
    return experiment.cells(SelectionRun(setting, SELECTION) for setting in all_settings)


def selection_rows(experiment: Experiment) -> Rows:
    """One plan of 64 candidates and 10 iterations from every start."""
    rows = []
    for offset, cost in product(OFFSETS, SELECTED):
        found = [selections(experiment, Setting(MEMBER, cost, evaluation=name), SELECTION) for name in sets(offset)]
        values = {metric: np.concatenate([one[metric] for one in found])[None] for metric in found[0]}
        known = _printed("selected", offset).get(cost)
        rows.append(metric_row(experiment, MODEL, cost, None, values, known, f"offset {offset}"))
    return rows


def final_lines() -> list[RowPlan]:
    """Final distances at the paper's offset and evaluation seed, then at every offset over all pairs."""
    lines = [
        replace(line(cost, sets(50)[:1], reading, f"offset 50, {_pairs(SEEDS[0])}, {reading}"), paper=printed)
        for reading in READINGS
        for cost, printed in PAPER["final-distance"].items()
    ]
    for offset in OFFSETS:
        lines += [line(cost, sets(offset), setting=f"offset {offset}") for cost in COMPARED]
        lines += bounds(offset, f"offset {offset}")
    return lines


def final_rows(experiment: Experiment) -> Rows:
    rows = []
    for one in final_lines():
        row, distances = table_row(experiment, one, OUTCOMES), row_values(experiment, one)["distance"][0]
        ours = {**row.ours, "median": float(np.median(distances))}
        interval = {**row.interval, "median": _median_interval(distances)}
        rows.append(replace(row, ours=ours, interval=interval))
    return rows


def _median_interval(values: np.ndarray, resamples: int = 20_000) -> list[float]:
    samples = generator(0, "median").choice(values, (resamples, len(values)))
    return np.quantile(np.median(samples, axis=1), (0.025, 0.975)).tolist()


AUDITED = {
    (reading, offset): line("raw", sets(offset)[:1], reading).parts()[0]
    for reading, offset in ((FULL, 25), (FULL, 50), (FULL, 75), (BLOCK, 50))
}


def audit_rows(experiment: Experiment) -> Rows:
    """The stage that limits the planner, by offset and reading."""
    rows = []
    for (reading, offset), one in AUDITED.items():
        row = audit_row(experiment, one)
        rows.append(replace(row, seed=None, setting=f"offset {offset}, {reading}, {row.setting}"))
    return rows


def fresh_lines() -> list[RowPlan]:
    """The paper's protocol and ours on pairs that no setting was chosen on."""
    to_the_end = "to the end of the budget"
    fresh = (
        ("raw", None, f", {FULL}"),
        ("raw", TO_THE_END, f", {to_the_end}"),
        ("trm-hybrid", TO_THE_END, f", {to_the_end}"),
        (RANDOM, None, ""),
    )
    new = (
        ("raw", None, f", {FULL}, new pairs"),
        ("raw", FROM_LOGS, f", {to_the_end}, from logs, new pairs"),
        ("raw", FEWER, f", {to_the_end}, from logs, 37 x 5, new pairs"),
        (RANDOM, None, ", new pairs"),
    )
    return [
        replace(one, changes={"planner": planner}) if planner else one
        for seeds, rows in ((FRESH, fresh), (NEW, new))
        for offset, (cost, planner, setting) in product(OFFSETS[1:], rows)
        for one in [line(cost, sets(offset, seeds), setting=f"offset {offset}{setting}")]
    ]


def _plain(plans: Callable[[], list[RowPlan]]) -> dict[str, Any]:
    return {"metrics": OUTCOMES, "rows": plain_rows(OUTCOMES, plans)}


AT_50 = _plain(lambda: offset_lines(50, MAIN, ("task-state", "shuffled")))
PLANS: dict[str, dict[str, Any]] = {
    "pusht-25": _plain(lambda: offset_lines(25, MAIN)),
    "pusht-50": {**AT_50, "rows": replace(AT_50["rows"], further=contact_cells), "picture": draw_contact},
    "pusht-75": _plain(lambda: offset_lines(75, (*PAPER["means"]["75"], "trm"))),
    "pusht-sweep": _plain(sweep_lines),
    "pusht-differences": {
        "metrics": ("success", "distance"),
        "rows": TableRows(lambda experiment: row_runs(experiment, compared_lines()), difference_rows),
    },
    "pusht-sasc": {
        "metrics": ("rho_geo", "rank", "selected"),
        "rows": TableRows(RANKINGS, sasc_rows),
        "title": "PushT: how each cost ranks the same candidates",
        "drawn": ("rho_geo", "rank", "selected"),
    },
    "pusht-selected": {
        "metrics": ("refined", "pool_best", "selected", "selected_success", "selected_final", "rank"),
        "rows": TableRows(selection_runs, selection_rows),
        "title": "PushT: distance and success after one plan",
        "drawn": ("selected", "selected_success"),
    },
    "pusht-final-distance": {
        "metrics": ("success", "distance", "median", "final_success"),
        "rows": TableRows(lambda experiment: row_runs(experiment, final_lines()), final_rows),
    },
    "pusht-audit": {
        "metrics": tuple(STAGES),
        "rows": TableRows(lambda experiment: [audit_cell(experiment, one) for one in AUDITED.values()], audit_rows),
        "intervals": "",
    },
    "pusht-fresh": {
        **_plain(fresh_lines),
        "title": "PushT, fresh pairs: the paper's planner, and one that plans to the end of the budget",
        "drawn": ("success", "distance"),
    },
}
TABLES = {name: TablePlan(NOTES[name], **plan) for name, plan in PLANS.items()}
STUDY = Study(
    name="pusht",
    protocol=1,
    task=PushT,
    logs=settings.LOGS,
    models={MODEL: settings.load_model},
    members={MODEL: (MEMBER,)},
    planner=settings.PLANNER,
    pools=settings.POOLS,
    evaluation=sets(50)[0],
    tables=TABLES,
    heads=settings.HEADS,
    costs=settings.COSTS,
    foreign_sets=settings.FOREIGN_SETS,
    require=require_pymunk,
    shares=SHARES,
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
    legend=NOTES["legend"],
)
