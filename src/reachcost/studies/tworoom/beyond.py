"""Labels beyond one episode in this world: the default on many sets, and logs that leave out what matters."""

from __future__ import annotations

from reachcost.studies.lines import Line, bounds
from reachcost.studies.tworoom.settings import FRESH_LOGS, KINDS, REPAIRED, SEEDS, SET

METRICS = ("success", "same", "cross", "rho_geo")
SETS = (SET, *FRESH_LOGS)
SETTINGS = {"limited": "no door", "500": "500 episodes", "1000": "1000 episodes", "frames": "frames only"}
"""What lines say is left of the logs."""
BESIDE = ("trm", "trm-auto")
"""Labels that the second kind of world models is shown with, too."""
SOLVED_NOTE = (
    "Labels as `reachcost fit --labels auto` chooses them (`trm-auto`), beside latent distance and logged times "
    f"(`trm`): the high-distance set and {len(FRESH_LOGS)} fresh ones by the same rule from logs of their own, three "
    "world models of each kind (LeWM alone for the other lines), one head on each; then each set by itself. ρ_geo is "
    "from SASC."
)
REPAIRED_NOTE = (
    "What a head learns from when logs leave out what matters; high-distance set, world models of seed 3072, one head "
    "on each. No door: every stretch of the logs that stays 95 px from the door, so that no episode leads through it. "
    "500 and 1000 episodes: the first so many, before those of the evaluation set are taken out. Frames only: all "
    "states, without times, order or actions. Only what heads learn from is cut: the world models were trained on logs "
    "of their own, which lead through the door. `trm` learns "
    "from logged times, `trm-stitched` from shortest ways over logged transitions, `trm-imagined` from what the frozen "
    "world model imagines, `trm-auto` from what `reachcost fit --labels auto` chooses."
)


def solved() -> list[Line]:
    """All sets together, then one by one."""
    lines = [Line(KINDS[0], cost, sets=SETS) for cost in ("raw", "trm", "oracle", "random")]
    lines += [Line(kind, "trm-auto", sets=SETS) for kind in KINDS]
    for name in SETS:
        here = {"changes": {"evaluation": name}, "setting": name.replace("-", " ")}
        lines += [Line(kind, "trm-auto", **here) for kind in KINDS]
    return lines


def repaired() -> list[Line]:
    """What is left of the logs, and what each source of labels makes of it."""
    lines = []
    for kind in KINDS:
        for name in REPAIRED:
            cost, _, part = name.rpartition("-")
            if kind != KINDS[0] and cost not in BESIDE:
                continue
            lines.append(Line(kind, name, seeds=SEEDS[:1], setting=SETTINGS[part], shown=cost, single=True))
        lines.append(Line(kind, "raw", seeds=SEEDS[:1], single=True))
    return [*lines, *bounds([Line(KINDS[0], "raw", seeds=SEEDS[:1], single=True)])]
