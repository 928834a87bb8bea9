"""Tables of our labels: the default on several sets, heads from incomplete logs, and success against rollouts."""

from dataclasses import replace
from typing import Any

from reachcost.experiments.rows import BOUNDS, RowPlan
from reachcost.planning.cem import CEM
from reachcost_paper.rows import bounds
from reachcost_paper.tworoom.settings import FRESH_LOGS, KINDS, REPAIRED, REPLANNING, SEEDS, SET

SETS = (SET, *FRESH_LOGS)
SECOND_HEAD = 4072
"""Seed of a second head on every world model; the seed of the first is that of the model."""
BUDGET_SETS = SETS[:3]
METRICS = ("success", "same", "cross", "rho_geo")
BUDGET_METRICS = ("success", "same", "cross", "steps")
SETTINGS = {"limited": "no door", "500": "500 episodes", "1000": "1000 episodes", "frames": "frames only"}
"""Names in rows of the parts of the logs."""
BOTH_KINDS = ("trm", "trm-auto")
"""Labels that are also run on the second kind of world models."""
FEWER = ((128, 5), (75, 5), (37, 5))
"""Candidates and iterations: a fifth, an eighth and a sixteenth of the paper's rollouts."""
PLANNERS = {"CEM": CEM(), "iCEM": CEM.improved(), "MPPI": CEM.mppi(), "from logs": CEM.experienced()}
ALONE = ("iCEM", "from logs")
"""Planners that are also run with costs that are not repaired, because they reach many goals without one."""


def solved() -> list[RowPlan]:
    """All sets together, by number of executed blocks, then one by one."""

    def defaults(**given: Any) -> list[RowPlan]:
        return [RowPlan(kind, "trm-auto", head_seeds=(None, SECOND_HEAD), **given) for kind in KINDS]

    replanning: dict[str, Any] = {"changes": {"planner": REPLANNING}, "setting": "replanning"}
    lines = [RowPlan(KINDS[0], cost, sets=SETS) for cost in ("raw", "trm", "oracle", "random")]
    lines += [*defaults(sets=SETS), RowPlan(KINDS[0], "oracle", sets=SETS, **replanning)]
    lines += defaults(sets=SETS, **replanning)
    for name in SETS:
        lines += defaults(changes={"planner": REPLANNING, "evaluation": name}, setting=f"replanning, {name}")
    return lines


def repaired() -> list[RowPlan]:
    raw, lines = RowPlan(KINDS[0], "raw", seeds=SEEDS[:1], single=True), []
    for kind in KINDS:
        for name in REPAIRED:
            cost, _, part = name.rpartition("-")
            if kind != KINDS[0] and cost not in BOTH_KINDS:
                continue
            line = replace(raw, kind=kind, cost=name, setting=SETTINGS[part], shown=cost)
            lines.append(line)
            if cost == "trm-auto":
                again = {"setting": f"{line.setting}, replanning", "changes": {"planner": REPLANNING}}
                lines.append(replace(line, **again))
        lines.append(replace(raw, kind=kind))
    return [*lines, *bounds([raw])]


def planned(name: str, candidates: int, iterations: int) -> CEM:
    planner = PLANNERS[name]
    elites = candidates if planner.temperature else planner.elites if planner.from_logs else round(candidates / 10)
    size = {"candidates": candidates, "iterations": iterations, "elites": elites}
    return replace(planner, **size, keep_elites=min(planner.keep_elites, elites // 2))


def budget_lines() -> list[RowPlan]:
    """The paper's planner, then all planners with fewer rollouts, then planners with costs that are not repaired."""

    def fewer(kind: str, cost: str, name: str, candidates: int, iterations: int) -> RowPlan:
        changes, setting = {"planner": planned(name, candidates, iterations)}, f"{name} {candidates} x {iterations}"
        return RowPlan(kind, cost, sets=BUDGET_SETS, changes=changes, setting=setting)

    full = RowPlan(KINDS[0], "trm-auto", sets=BUDGET_SETS, setting="CEM 300 x 10")
    return [
        *(replace(full, kind=kind) for kind in KINDS),
        *(fewer(kind, "trm-auto", name, *size) for size in FEWER for name in PLANNERS for kind in KINDS),
        replace(full, cost="raw"),
        *(fewer(KINDS[0], cost, name, *FEWER[-1]) for name in ALONE for cost in ("raw", "trm-shuffled")),
        *(RowPlan(KINDS[0], cost, sets=BUDGET_SETS) for cost in BOUNDS),
    ]
