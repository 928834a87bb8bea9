"""Tables of our labels: the default on several sets, heads from incomplete logs, and success against rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reachcost.experiments.rows import BOUNDS, RowPlan, bounds
from reachcost.planning.cem import CEM
from reachcost_paper.tworoom.settings import FRESH_LOGS, KINDS, REPAIRED, REPLANNING, SEEDS, SET

SETS = (SET, *FRESH_LOGS)
SECOND_HEAD = 4072
"""Seed of a second head on every world model; the first has that of the model."""
BUDGET_SETS = SETS[:3]
METRICS = ("success", "same", "cross", "rho_geo")
BUDGET_METRICS = ("success", "same", "cross", "steps")
SETTINGS = {"limited": "no door", "500": "500 episodes", "1000": "1000 episodes", "frames": "frames only"}
"""Names in rows of the parts of the logs."""
BOTH_KINDS = ("trm", "trm-auto")
"""Labels that the second kind of world models is also run with."""
FEWER = ((128, 5), (75, 5), (37, 5))
"""Candidates and iterations: a fifth, an eighth and a sixteenth of the paper's rollouts."""
PLANNERS = {"CEM": CEM(), "iCEM": CEM.improved(), "MPPI": CEM.mppi(), "from logs": CEM.experienced()}
ALONE = ("iCEM", "from logs")
"""Planners that are also run with costs that are not repaired, because they reach many goals without one."""


def solved() -> list[RowPlan]:
    """All sets together, by number of executed blocks, then one by one."""
    first = KINDS[0]
    lines = [RowPlan(first, cost, sets=SETS) for cost in ("raw", "trm", "oracle", "random")]
    lines += [_default(kind, sets=SETS) for kind in KINDS]
    replanning = {"changes": {"planner": REPLANNING}, "setting": "replanning"}
    lines.append(RowPlan(first, "oracle", sets=SETS, **replanning))
    lines += [_default(kind, sets=SETS, **replanning) for kind in KINDS]
    for name in SETS:
        here = {"changes": {"planner": REPLANNING, "evaluation": name}, "setting": f"replanning, {name}"}
        lines += [_default(kind, **here) for kind in KINDS]
    return lines


def _default(kind: str, **given: Any) -> RowPlan:
    return RowPlan(kind, "trm-auto", head_seeds=(None, SECOND_HEAD), **given)


def repaired() -> list[RowPlan]:
    """Each source of labels on each part of the logs."""
    lines = []
    for kind in KINDS:
        for name in REPAIRED:
            cost, _, part = name.rpartition("-")
            if kind != KINDS[0] and cost not in BOTH_KINDS:
                continue
            line = RowPlan(kind, name, seeds=SEEDS[:1], setting=SETTINGS[part], shown=cost, single=True)
            lines.append(line)
            if cost == "trm-auto":
                again = {"setting": f"{line.setting}, replanning", "changes": {"planner": REPLANNING}}
                lines.append(replace(line, **again))
        lines.append(RowPlan(kind, "raw", seeds=SEEDS[:1], single=True))
    return [*lines, *bounds([RowPlan(KINDS[0], "raw", seeds=SEEDS[:1], single=True)])]


def planned(name: str, candidates: int, iterations: int) -> CEM:
    """A planner of that name with fewer rollouts."""
    planner = PLANNERS[name]
    elites = candidates if planner.temperature else planner.elites if planner.from_logs else round(candidates / 10)
    return replace(
        planner,
        candidates=candidates,
        iterations=iterations,
        elites=elites,
        keep_elites=min(planner.keep_elites, elites // 2),
    )


def budget_lines() -> list[RowPlan]:
    """The paper's planner, then all planners with fewer rollouts, then planners with costs that are not repaired."""
    found = [RowPlan(kind, "trm-auto", sets=BUDGET_SETS, setting="CEM 300 x 10") for kind in KINDS]
    for candidates, iterations in FEWER:
        for name in PLANNERS:
            planner = planned(name, candidates, iterations)
            setting = f"{name} {candidates} x {iterations}"
            found += [
                RowPlan(kind, "trm-auto", sets=BUDGET_SETS, changes={"planner": planner}, setting=setting)
                for kind in KINDS
            ]
    found.append(RowPlan(KINDS[0], "raw", sets=BUDGET_SETS, setting="CEM 300 x 10"))
    candidates, iterations = FEWER[-1]
    for name in ALONE:
        changes, setting = {"planner": planned(name, candidates, iterations)}, f"{name} {candidates} x {iterations}"
        found += [
            RowPlan(KINDS[0], cost, sets=BUDGET_SETS, changes=changes, setting=setting)
            for cost in ("raw", "trm-shuffled")
        ]
    return [*found, *(RowPlan(KINDS[0], cost, sets=BUDGET_SETS) for cost in BOUNDS)]
