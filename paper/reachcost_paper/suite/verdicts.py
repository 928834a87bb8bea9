"""Every world, whole and broken in one place at a time: does the audit name that place?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.audits.planner import Audit, audit_planner
from reachcost.data.latents import encode_logs
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import Recording
from reachcost.results.records import Evaluated, Run
from reachcost.results.tables import TableRow
from reachcost_paper.suite.outcomes import LOGS_ONLY, NOTHING, SIMULATOR, Outcome, summary_rows
from reachcost_paper.suite.settings import TUNED, settings_of, world_of, worlds
from reachcost_paper.worlds.faults import FAULTS, Planner, whole

METRICS = ("right", "wrong", "cannot_tell", "success")
UNSEEN = 99
"""Seed of the logs that no head has seen, for the audit without a simulator."""
NOTE = (
    "Planners of the suite, whole (`nothing`) and broken in one place, on the set `report`, audited with a simulator "
    "and from logs alone. Planted are a shuffled head (ranking), an encoder that lost a coordinate (representation), "
    "noise in predictions (dynamics), three candidates (sampling), logs without a region that routes cross (coverage), "
    "two actions for an episode (goals) and, where logs go somewhere, logs that wander instead (ranking). With a "
    "simulator a verdict is right if it names what was planted or, where episodes succeed all the same, `none`. From "
    "logs alone naming what was planted is right, harmless or not, since success is not known; logs that wander are a "
    "fault only where they do harm. Shares are percent of n planners, with Wilson's 95 % interval. The lines `all` are "
    "those to believe: on held-back worlds no threshold was set, on the tuned ones (marked *) all were; two rules "
    "became more general after the sets `tune` of arm and hill had shown what they took for granted. Before that, this "
    "table had been published once, with all worlds but hill and the same sets. `failing` are those planners of them "
    "that really fail, `harmless` those that succeed although a fault is planted. Lines of one world tell the "
    "verdicts, and success in % of n episodes."
)


@dataclass(frozen=True)
class VerdictRun(RunSpec):
    """What both audits of a planner say, whole or broken; rows are those of the audits."""

    kind: ClassVar[str] = "verdicts"
    world: str
    condition: str
    """What is planted: `nothing`, or one of `FAULTS`."""

    def name(self, recording: Recording) -> str:
        """World and condition."""
        return f"{self.world}-{self.condition}"

    def config(self, recording: Recording) -> dict[str, Any]:
        """World, condition and unseen logs."""
        settings = settings_of(recording, world_of(self.world))
        return {**settings, "condition": self.condition, "part": "report", "unseen": UNSEEN}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        """Audit the planner with the simulator, and from logs alone."""
        made = recording.once(_whole, self.world)
        planner = made if self.condition == NOTHING else FAULTS[self.condition].plant(made)
        audits = {SIMULATOR: _with_simulator(planner), LOGS_ONLY: _from_logs(planner)}
        documents = {name: audit.document() for name, audit in audits.items()}
        (directory / "audits.json").write_text(
            json.dumps(documents, indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )
        parts = [{**audit.rows, "audit": np.repeat(name, len(audit.rows["value"]))} for name, audit in audits.items()]
        rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        return Evaluated(rows, planner.evaluation.record)


VERDICTS = [
    VerdictRun(world.name, condition)
    for world in worlds()
    for condition in (NOTHING, *(name for name, fault in FAULTS.items() if fault.fits(world)))
]


def verdict_rows(recording: Recording) -> list[TableRow]:
    """Shares over worlds, then a line for every world and fault."""
    return summary_rows([_read(run, recording.read(run)) for run in VERDICTS], TUNED)


def _whole(recording: Recording, world: str) -> Planner:
    return whole(world_of(world), "report")


def _with_simulator(planner: Planner) -> Audit:
    return audit_planner(planner.model, planner.latents, planner.cost, planner.task, planner.evaluation, planner.search)


def _from_logs(planner: Planner) -> Audit:
    held_out = encode_logs(planner.model, planner.unseen(UNSEEN))
    shown = {"held_out": held_out, "state_columns": planner.world.shown}
    return audit_planner(planner.model, planner.latents, planner.cost, planner=planner.search, **shown)


def _read(declared: VerdictRun, run: Run) -> Outcome:
    documents = json.loads(run.text("audits.json"))
    execution = next(stage for stage in documents[SIMULATOR]["stages"] if stage["name"] == "execution")
    return Outcome(
        world=declared.world,
        condition=declared.condition,
        episodes=documents[SIMULATOR]["episodes"],
        success=execution["value"],
        succeeds=execution["outcome"] == "pass",
        verdicts={setting: documents[setting]["verdict"] for setting in (SIMULATOR, LOGS_ONLY)},
    )
