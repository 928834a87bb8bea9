"""A sweep as a study: its lists become members, heads, costs and rows, with floor and reference in its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from reachcost.audits.sasc import draw_pools
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, call_foreign
from reachcost.experiments.experiment import ORACLE, RANDOM
from reachcost.experiments.rows import BOUNDS, RowPlan
from reachcost.experiments.study import COSTS, CostPlan, Member, PoolPlan, Study, hybrid
from reachcost.experiments.sweep_file import MOST, MOST_RUNS, Sweep, told
from reachcost.experiments.tables import TablePlan, plain_rows
from reachcost.planning.planner import Planner
from reachcost.protocols import WorldModel
from reachcost.tasks.contract import Task

RAW = "raw"
NOTE = (
    "A sweep: success and steps from closed loops, each line the mean over the seeds of heads and planners. `raw` is "
    "latent distance, `random` acts at random."
)
RANKED_NOTE = (
    " `oracle` plans with the simulator and the true distance. ρ_geo and rank are from SASC on shared pools, which no "
    "planner changes."
)


@dataclass(frozen=True)
class Finders:
    """What the names in a file stand for."""

    task: Callable[[str], Task]
    """The world of that name."""
    logs: Callable[[Path, Task], Logs]
    """The logs in a file, of a world."""
    model: Callable[[str, Task, Logs, bool], WorldModel]
    """The world model of that name in a world, with its logs, whose actions are clamped or not."""


def sweep_study(sweep: Sweep, find: Finders) -> Study:
    """The study that a sweep declares; its one table is called as the sweep."""
    with told(f"{sweep.file}: task"):
        task = find.task(sweep.task)
    sets, planners, heads = _sets(sweep, task), sweep.all_planners(task.discrete_actions), sweep.head_plans()
    hybrids = _hybrids(sweep, heads)
    costs = _costs(sweep, [*heads], [*hybrids])
    models, logs = _labels(sweep), cache(lambda world: _logs(sweep, find, world))
    first = task.evaluation_set(sets[0])
    groups = {name.replace(" ", "_"): name for name in task.groups(first.starts, first.goals)}
    ranked = task.offers("distance")
    metrics = ("success", "steps", *(("rho_geo", "rank") if ranked else ()), *groups)
    lines = _lines(sweep, [*models], sets, planners, costs, BOUNDS if ranked else (RANDOM,))
    note = NOTE + RANKED_NOTE * ranked
    with told(sweep.file):
        return Study(
            name=sweep.name,
            protocol=1,
            task=lambda: task,
            logs={},
            open_logs=logs,
            models={label: _model(sweep, find, text, logs) for label, text in models.items()},
            members={label: [Member(label, seed, f"{label}-{seed}") for seed in sweep.seeds] for label in models},
            planner=next(iter(planners.values())),
            pools=PoolPlan(_drawn, seed=lambda seed: seed, candidates=300, horizon=5),
            evaluation=sets[0],
            heads=heads,
            costs=hybrids,
            groups=groups,
            headings={metric: (f"{name} %", 1) for metric, name in groups.items()},
            tables={sweep.name: TablePlan(note, metrics, plain_rows(metrics, lambda: lines))},
        )


def _lines(
    sweep: Sweep,
    models: Sequence[str],
    sets: Sequence[str],
    planners: Mapping[str, Planner],
    costs: Sequence[str],
    bounds: Sequence[str],
) -> list[RowPlan]:
    """Every combination, set by set and budget by budget, each of these with floor and ceiling."""
    parts = sets, sweep.budgets or (None,), planners, models, costs, sweep.seeds
    if (count := math.prod(map(len, parts))) > MOST_RUNS:
        raise ReachcostError(f"{sweep.file} asks for {count:,} closed loops: ask for at most {MOST_RUNS:,}")
    lines: list[RowPlan] = []
    for name, budget in product(sets, sweep.budgets or (None,)):
        protocol = {"evaluation": name, **({} if budget is None else {"budget": budget})}
        said = [name] * (len(sets) > 1) + [f"{budget} actions"] * (len(sweep.budgets) > 1)
        for number, (called, planner) in enumerate(planners.items()):
            changes: dict[str, Any] = {**protocol, **({} if sweep.clamp else {"clamp": False})}
            changes |= {"planner": planner} if number else {}  # the first is the study's own
            setting = ", ".join([*said, *([called] * (len(planners) > 1))])
            lines += [RowPlan(model, cost, changes=changes, setting=setting) for model in models for cost in costs]
        lines += [RowPlan(models[0], bound, changes=protocol, setting=", ".join(said)) for bound in bounds]
    return lines


def _sets(sweep: Sweep, task: Task) -> tuple[str, ...]:
    if not task.sets:
        raise ReachcostError(f"{sweep.file}: the task {task.name!r} has no evaluation sets: give it `sets`")
    if unknown := next((name for name in sweep.sets if name not in task.sets), None):
        raise ReachcostError(
            f"{sweep.file}: sets holds {unknown!r}, which {task.name} has not: choose among {', '.join(task.sets)}"
        )
    return sweep.sets or task.sets[:1]


def _costs(sweep: Sweep, heads: Sequence[str], hybrids: Sequence[str]) -> list[str]:
    """The costs of the table; the name of a head whose settings were combined stands for all of them."""
    if taken := next((name for name in heads if name in (*COSTS, ORACLE, RANDOM)), None):
        raise ReachcostError(f"{sweep.file}: heads.{taken} is called as a cost that is there: give it another name")
    known = {**{name: [name] for name in (*heads, *hybrids, *COSTS)}}
    for base in sweep.heads:
        known.setdefault(base, [name for name in heads if name.startswith(f"{base}-")])
    if unknown := next((name for name in sweep.costs if name not in known), None):
        hint = "leave it out, it is always there" if unknown in BOUNDS else f"choose among {', '.join(known)}"
        raise ReachcostError(f"{sweep.file}: costs holds {unknown!r}: {hint}")
    found = [name for cost in sweep.costs for name in known[cost]] or [RAW, *heads, *hybrids]
    return [*dict.fromkeys(found)]


def _hybrids(sweep: Sweep, heads: Collection[str]) -> dict[str, CostPlan]:
    """Every head with every weight."""
    if (count := len(heads) * len(sweep.hybrids)) > MOST:
        raise ReachcostError(f"{sweep.file}: hybrids makes {count:,} costs: ask for at most {MOST:,}")
    made: dict[str, CostPlan] = {}
    for head, weight in product(heads, sweep.hybrids):
        name = f"{head}-hybrid" if weight == 1 else f"{head}-hybrid-{weight:g}"
        if name in made or name in heads:
            raise ReachcostError(
                f"{sweep.file}: hybrids holds {weight!r}, but there is another {name!r}: give weights that differ in "
                "six digits, and other names to heads"
            )
        made[name] = hybrid(head, weight)
    return made


def _labels(sweep: Sweep) -> dict[str, str]:
    """World models by what records call them: names of directories."""
    labels: dict[str, str] = {}
    for text in sweep.models:
        label = text.replace("/", "-").replace(":", "-").strip(".-")
        if label in labels:
            raise ReachcostError(
                f"{sweep.file}: models holds {labels[label]!r} and {text!r}: name one of them otherwise"
            )
        labels[label] = text
    return labels


def _logs(sweep: Sweep, find: Finders, task: Task) -> Logs:
    where = f"{sweep.file}: logs"
    if isinstance(sweep.logs, str):
        with told(where):
            return find.logs(Path(sweep.logs), task)
    given = dict(sweep.logs)
    return call_foreign(
        lambda: task.generate_logs(**given), f"{where} failed", "give what the task generates logs with"
    )


def _model(sweep: Sweep, find: Finders, text: str, logs: Callable[[Task], Logs]) -> Callable[[Task, bool], WorldModel]:
    def build(task: Task, clamp: bool) -> WorldModel:
        with told(f"{sweep.file}: models"):
            return find.model(text, task, logs(task), clamp)

    return build


def _drawn(task: Task, model: WorldModel, goals: EvaluationSet, seed: int) -> Any:
    return draw_pools(task, model, goals, seed=seed)
