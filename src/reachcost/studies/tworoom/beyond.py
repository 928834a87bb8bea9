"""Labels beyond one episode in this world: what they make of logs that leave out what matters."""

from __future__ import annotations

from reachcost.studies.lines import Line, bounds
from reachcost.studies.tworoom.settings import KINDS, REPAIRED, SEEDS

METRICS = ("success", "same", "cross", "rho_geo")
SETTINGS = {"limited": "no door", "500": "500 episodes", "1000": "1000 episodes", "frames": "frames only"}
"""What lines say is left of the logs."""
BESIDE = ("trm", "trm-auto")
"""Labels that the second kind of world models is shown with, too."""
REPAIRED_NOTE = (
    "What a head learns from when logs leave out what matters; high-distance set, world models of seed 3072, one head "
    "on each. No door: every stretch of the logs that stays 95 px from the door, so that no episode leads through it. "
    "500 and 1000 episodes: the first so many, before those of the evaluation set are taken out. Frames only: all "
    "states, without times, order or actions. Only what heads learn from is cut: the world models were trained on logs "
    "of their own, which lead through the door. `trm` learns "
    "from logged times, `trm-stitched` from shortest ways over logged transitions, `trm-imagined` from what the frozen "
    "world model imagines, `trm-auto` from what `reachcost fit --labels auto` chooses."
)


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
