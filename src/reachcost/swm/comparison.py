"""Before and after a repair, in stable-worldmodel's own `World.evaluate`, as a table."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from reachcost.evaluation import EvaluationSet
from reachcost.exclusion import Exclusion
from reachcost.heads.base import LearnedHead
from reachcost.latents import model_identity
from reachcost.logs import Logs
from reachcost.planning.cem import CEM
from reachcost.progress import Progress
from reachcost.records import versions
from reachcost.report.tables import ResultTable, TableRow
from reachcost.stats import newcombe, wilson
from reachcost.swm.costs import RepairedModel
from reachcost.swm.evaluation import ENVIRONMENT, evaluate_in_world
from reachcost.swm.model import SwmModel
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel


def compare_in_world(
    model: JepaWorldModel,
    head: LearnedHead,
    goals: EvaluationSet,
    weight: float | None = None,
    planner: CEM | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ResultTable:
    """Evaluate latent distance, the repaired cost and random actions on the same starts and goals of TwoRoom.

    Args:
        model: The frozen world model.
        head: A head fitted on its latents.
        goals: Starts and goals that the head has not seen.
        weight: None replaces latent distance by the head; a number adds that much of it.
        planner: Size of their CEM's search.
        seed: Of their CEM.
        progress: Where to show progress.
    """
    task, planner, progress = TwoRoom(), planner or CEM(), progress or Progress()
    raw = SwmModel(model)
    success = {}
    for name, cost in (("raw", raw), ("repaired", RepairedModel(raw, head, weight)), ("random", None)):
        progress.step(name)
        success[name] = evaluate_in_world(cost, model.actions, goals, planner, seed, progress)
    across = np.asarray(task.layout.room(goals.starts) != task.layout.room(goals.goals))
    low, high = newcombe(success["raw"], success["repaired"])
    change = {
        "points": float(100 * (success["repaired"].mean() - success["raw"].mean())),
        "interval": [round(100 * low, 1), round(100 * high, 1)],
        "gained": int((success["repaired"] & ~success["raw"]).sum()),
        "lost": int((success["raw"] & ~success["repaired"]).sum()),
    }
    provenance: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "model": model_identity(model),
        "change": change,
        "evaluation_set": goals.name,
        "evaluation_set_sha256": goals.fingerprint,
        "planner": asdict(planner),
        "seed": seed,
        "weight": weight,
        "head": {key: value for key, value in head.record.items() if key != "curve"},
        "versions": {**versions(), "stable-worldmodel": version("stable-worldmodel")},
    }
    rows = [_row(name, model, found, across) for name, found in success.items()]
    name = f"stable-worldmodel-{goals.name}"
    return ResultTable(name, _note(goals, planner, change), ("success", "same", "cross"), rows, provenance)


def doubt(head: LearnedHead, goals: EvaluationSet, logs: Logs | None) -> str | None:
    """What a reader must know if the head may have learned from these goals; None if it is proved that it has not.

    Args:
        head: The head.
        goals: Starts and goals, the whole set.
        logs: What the head was fitted on, if that is at hand.
    """
    pairs = head.record.get("pairs", {})
    if goals.fingerprint in pairs.get("exclusion", {}).get("evaluation_sets_sha256", []):
        return None
    if logs is None or logs.fingerprint != pairs.get("logs_sha256"):
        return "nothing proves that the head has not seen these goals: give the --logs that it was fitted on"
    shared = len(Exclusion(logs, [goals]).episodes)
    return f"the head was fitted on {shared} episodes that hold these goals, which flatters it" if shared else None


def _row(cost: str, model: JepaWorldModel, success: np.ndarray, across: np.ndarray) -> TableRow:
    groups = {"success": success, "same": success[~across], "cross": success[across]}
    shown = {name: found for name, found in groups.items() if len(found)}
    return TableRow(
        cost=cost,
        model=model.card["name"],
        n=len(success),
        ours={name: float(100 * found.mean()) for name, found in shown.items()},
        interval={
            name: [100 * bound for bound in wilson(int(found.sum()), len(found))] for name, found in shown.items()
        },
        paper=None,
    )


def _note(goals: EvaluationSet, planner: CEM, change: dict[str, Any]) -> str:
    low, high = change["interval"]
    return (
        f"`World.evaluate` of stable-worldmodel on {ENVIRONMENT}, {len(goals)} starts and goals of {goals.name}, its "
        f"CEM with {planner.candidates} candidates and {planner.iterations} rounds. `raw` is latent distance, "
        "`repaired` the head, `random` its random policy; intervals are Wilson's of 95 %. Success changes by "
        f"{change['points']:+.1f} points [{low:+.1f}, {high:+.1f}] (Newcombe's paired interval): {change['gained']} "
        f"gained, {change['lost']} lost. Made by `reachcost evaluate`."
    )
