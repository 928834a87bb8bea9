"""Success against rollouts: what planners make of less work, and one that begins with what logs know."""

from __future__ import annotations

from dataclasses import replace

from reachcost.experiments.rows import BOUNDS, RowPlan
from reachcost.planning.cem import CEM
from reachcost_paper.tworoom.settings import FRESH_LOGS, KINDS, SET

SETS = (SET, *list(FRESH_LOGS)[:2])
METRICS = ("success", "same", "cross", "steps")
FEWER = ((128, 5), (75, 5), (37, 5))
"""Candidates and iterations: a fifth, an eighth and a sixteenth of the paper's rollouts."""
PLANNERS = {
    "CEM": CEM(),
    "iCEM": CEM.improved(),
    "MPPI": CEM.mppi(),
    "from logs": CEM.experienced(),
}
NOTE = (
    "Success against rollouts, the candidates that a plan of 25 actions scores: the paper's 300 x 10 = 3,000, and "
    "fewer. High-distance set and two more by the same rule (`fresh-1`, `fresh-2`), all published before; three world "
    "models of each kind, default heads (`trm-auto`). A tenth of the candidates are elites, all of them with MPPI, 8 "
    "of those from logs. From logs: `CEM.experienced()`, whose first pool is what was logged from states like the "
    "present one and ended best by the same cost; nothing is taken from episodes of the evaluation set. iCEM: "
    "`CEM.improved()`, with noise that lasts, kept elites, the best executed. Settings were chosen on other sets (LeWM "
    "3072, sets of seeds 555 and 556). The lines `raw` (latent distance) and `trm-shuffled` (a head of permuted times) "
    "tell what a planner does by itself: candidates that go somewhere let latent distance tell them apart, and meet "
    "some goals by chance. steps: to the goal, 50 where it was not reached."
)
ALONE = ("iCEM", "from logs")
"""Planners that are shown with costs that are not repaired, too: they do much by themselves."""


def planned(name: str, candidates: int, iterations: int) -> CEM:
    """A planner of that name with so many rollouts."""
    planner = PLANNERS[name]
    elites = candidates if planner.temperature else planner.elites if planner.from_logs else round(candidates / 10)
    return replace(
        planner,
        candidates=candidates,
        iterations=iterations,
        elites=elites,
        keep_elites=min(planner.keep_elites, elites // 2),
    )


def lines() -> list[RowPlan]:
    """The paper's planner, then all of them with fewer rollouts; last what planners do with costs that mislead."""
    found = [RowPlan(kind, "trm-auto", sets=SETS, setting="CEM 300 x 10") for kind in KINDS]
    for candidates, iterations in FEWER:
        for name in PLANNERS:
            planner = planned(name, candidates, iterations)
            setting = f"{name} {candidates} x {iterations}"
            found += [
                RowPlan(kind, "trm-auto", sets=SETS, changes={"planner": planner}, setting=setting) for kind in KINDS
            ]
    found.append(RowPlan(KINDS[0], "raw", sets=SETS, setting="CEM 300 x 10"))
    candidates, iterations = FEWER[-1]
    for name in ALONE:
        changes, setting = {"planner": planned(name, candidates, iterations)}, f"{name} {candidates} x {iterations}"
        found += [
            RowPlan(KINDS[0], cost, sets=SETS, changes=changes, setting=setting) for cost in ("raw", "trm-shuffled")
        ]
    return [*found, *(RowPlan(KINDS[0], cost, sets=SETS) for cost in BOUNDS)]
