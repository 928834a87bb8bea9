"""Labels beyond one episode in this world: the default on many sets, and logs that leave out what matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reachcost.experiments.rows import RowPlan, bounds
from reachcost_paper.tworoom.settings import FRESH_LOGS, KINDS, REPAIRED, REPLANNING, SEEDS, SET

SETS = (SET, *FRESH_LOGS)
SECOND_HEAD = 4072
"""Seed of a second head on every world model; the first has that of the model."""
METRICS = ("success", "same", "cross", "rho_geo")
SETTINGS = {"limited": "no door", "500": "500 episodes", "1000": "1000 episodes", "frames": "frames only"}
"""What lines say is left of the logs."""
BESIDE = ("trm", "trm-auto")
"""Labels that the second kind of world models is shown with, too."""
SOLVED_NOTE = (
    "The default of `reachcost fit` (`trm-auto`) on the high-distance set and three more, drawn by the same rule from "
    "logs of their own; all but `fresh-3` had been published before, with `raw` and `trm`. Three world models of each "
    "kind, two heads on each. Beside it, with LeWM, latent distance and logged times (`trm`, one head). Replanning: "
    "`CEM.replanning()` looks after every block, the paper's planner after five, half of the budget; it was chosen on "
    "other sets. ρ_geo is from SASC, one head a model, and no planner changes it. The last lines are single sets."
)
REPAIRED_NOTE = (
    "What a head learns from when logs leave out what matters; high-distance set, world models of seed 3072, one head "
    "on each. No door: every stretch of the logs that stays 95 px from the door, so that no episode leads through it. "
    "500 and 1000 episodes: the first so many, before those of the evaluation set are taken out. Frames only: all "
    "states, without times, order or actions. Only what heads learn from is cut: the world models were trained on logs "
    "of their own, which lead through the door. Imagined labels have 300 transitions a place; a first setting, 100, "
    "had reached 89 % of this set without the door. `trm` learns from logged times, `trm-stitched` from shortest ways "
    "over logged transitions, `trm-imagined` from what the frozen world model imagines, `trm-auto` from what "
    "`reachcost fit` chooses by itself. Replanning: `CEM.replanning()` looks after every block, the paper's planner "
    "after five."
)


def solved() -> list[RowPlan]:
    """All sets together by what is executed, then one by one."""
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
    """What is left of the logs, and what each source of labels makes of it."""
    lines = []
    for kind in KINDS:
        for name in REPAIRED:
            cost, _, part = name.rpartition("-")
            if kind != KINDS[0] and cost not in BESIDE:
                continue
            line = RowPlan(kind, name, seeds=SEEDS[:1], setting=SETTINGS[part], shown=cost, single=True)
            lines.append(line)
            if cost == "trm-auto":
                again = {"setting": f"{line.setting}, replanning", "changes": {"planner": REPLANNING}}
                lines.append(replace(line, **again))
        lines.append(RowPlan(kind, "raw", seeds=SEEDS[:1], single=True))
    return [*lines, *bounds([RowPlan(KINDS[0], "raw", seeds=SEEDS[:1], single=True)])]
