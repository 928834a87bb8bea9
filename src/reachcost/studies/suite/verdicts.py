"""Every world, whole and broken in one place at a time: does the audit name that place?"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.audits.planner import CANNOT_TELL, Audit, audit_planner
from reachcost.data.latents import encode_logs
from reachcost.results.records import Columns, Run
from reachcost.results.stats import wilson
from reachcost.results.tables import TableRow
from reachcost.studies.experiment import Experiment
from reachcost.studies.suite.settings import TUNED, settings_of, worlds
from reachcost.worlds.faults import FAULTS, Planner, whole
from reachcost.worlds.world import World

NOTHING = "nothing"
CONDITIONS = (NOTHING, *FAULTS)
METRICS = ("success", "right", "right_logs", "silent_logs", "wrong_logs")
UNSEEN = {"seed": 99}
"""Logs of the same kind that no head has seen, for the audit without a simulator."""
NOTE = (
    "Planners of the suite, whole (`nothing`) and broken in one place, on the set `report`. A line's cost is what was "
    "planted: a shuffled head (ranking), an encoder that lost a coordinate (representation), noise in predictions "
    "(dynamics), three candidates (sampling), logs without a region that routes cross (coverage), two actions for an "
    "episode (goals). The verdict is right if it names what was planted or, where episodes succeed all the same, "
    "`none`. From logs alone (and logs that no head has seen), naming the fault is right, `cannot tell` is silent, and "
    "anything else is wrong. Thresholds were set on the worlds marked *; means of the others are those to believe, "
    "with Wilson's 95 % interval."
)


def verdict_rows(experiment: Experiment) -> list[TableRow]:
    """A line for every world and fault, then means over the worlds that nothing was chosen on, and over the others."""
    found = {}
    for world in worlds():
        made = cache(lambda world=world: whole(world, "report"))
        found |= {(world.name, condition): _audited(experiment, world, condition, made) for condition in CONDITIONS}
    rows = [_line(name, condition, one) for (name, condition), one in found.items()]
    for shown, tuned in (("worlds nothing was chosen on", False), ("worlds that thresholds were set on", True)):
        rows.append(_mean(shown, [one for (name, _), one in found.items() if (name in TUNED) == tuned]))
    return rows


def _audited(experiment: Experiment, world: World, condition: str, made: Callable[[], Planner]) -> dict[str, Any]:
    """What both audits of a planner say."""

    def compute(directory: Path) -> Columns:
        planner = made() if condition == NOTHING else FAULTS[condition](made())
        audits = {"simulator": _audit(planner, True), "logs": _audit(planner, False)}
        documents = {name: audit.document() for name, audit in audits.items()}
        (directory / "audits.json").write_text(
            json.dumps(documents, indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )
        parts = [{**audit.rows, "audit": np.repeat(name, len(audit.rows["value"]))} for name, audit in audits.items()]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    config = {**settings_of(experiment, world), "condition": condition, "part": "report", "unseen": UNSEEN}
    run = experiment.run("verdicts", f"{world.name}-{condition}", config, compute)
    return {"condition": condition, **_read(run)}


def _audit(planner: Planner, simulator: bool) -> Audit:
    latents = planner.latents
    if simulator:
        return audit_planner(planner.model, latents, planner.cost, planner.task, planner.evaluation, planner.search)
    unseen = planner.task.generate_logs(**{**planner.world.logs, **UNSEEN})
    held_out = encode_logs(planner.model, unseen)
    return audit_planner(planner.model, latents, planner.cost, planner=planner.search, held_out=held_out)


def _read(run: Run) -> dict[str, Any]:
    run.require_intact()
    documents = json.loads((run.path / "audits.json").read_text(encoding="utf-8"))
    stages = {stage["name"]: stage for stage in documents["simulator"]["stages"]}
    return {
        "success": stages["execution"]["value"],
        "succeeds": stages["execution"]["outcome"] == "pass",
        "episodes": documents["simulator"]["episodes"],
        "simulator": documents["simulator"]["verdict"],
        "logs": documents["logs"]["verdict"],
    }


def _scores(one: dict[str, Any]) -> dict[str, float]:
    planted = one["condition"]
    expected = "none" if one["succeeds"] or planted == NOTHING else planted
    silent = one["logs"] == CANNOT_TELL
    return {
        "right": 100.0 * (one["simulator"] == expected),
        "right_logs": 100.0 * (one["logs"] == planted),
        "silent_logs": 100.0 * silent,
        "wrong_logs": 100.0 * (not silent and one["logs"] != planted),
    }


def _line(world: str, condition: str, one: dict[str, Any]) -> TableRow:
    marked = f"{world}*" if world in TUNED else world
    return TableRow(
        cost=condition,
        model=marked,
        n=one["episodes"],
        ours={"success": one["success"], **_scores(one)},
        interval={},
        paper=None,
        setting=f"{one['simulator']}; from logs {one['logs']}",
    )


def _mean(shown: str, found: Sequence[dict[str, Any]]) -> TableRow:
    scores = [_scores(one) for one in found]
    values = {metric: np.array([one[metric] for one in scores]) for metric in scores[0]}
    return TableRow(
        cost="mean",
        model=shown,
        n=len(found),
        ours={metric: float(value.mean()) for metric, value in values.items()},
        interval={m: [100 * bound for bound in wilson(v.sum() / 100, len(v))] for m, v in values.items()},
        paper=None,
    )
