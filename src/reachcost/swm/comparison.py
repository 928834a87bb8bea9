"""Before and after a repair, in stable-worldmodel's own `World.evaluate`, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from reachcost.core.machine import versions
from reachcost.core.progress import Progress, as_progress
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, model_identity
from reachcost.data.logs import Logs
from reachcost.heads.base import LearnedHead
from reachcost.labels.exclusion import Exclusion
from reachcost.planning.cem import CEM
from reachcost.results.stats import newcombe, wilson
from reachcost.results.tables import ResultTable, TableRow
from reachcost.swm.costs import RepairedModel
from reachcost.swm.evaluation import evaluate_in_world, public_environment
from reachcost.swm.model import SwmModel
from reachcost.tasks.contract import Task
from reachcost.worldmodels.jepa import JepaWorldModel

TOTAL = "success"
"""What a table calls the success of all episodes."""


def table_name(goals: EvaluationSet, weight: float | None = None, from_logs: bool = False) -> str:
    """What the table of a comparison is called."""
    hybrid = "" if weight is None else f"-hybrid-{weight:g}"
    return f"stable-worldmodel-{goals.name}{hybrid}{'-from-logs' if from_logs else ''}"


def compare_in_world(
    task: Task,
    model: JepaWorldModel,
    head: LearnedHead,
    goals: EvaluationSet,
    weight: float | None = None,
    planner: CEM | None = None,
    seed: int = 0,
    doubt: str | None = None,
    logs: Latents | None = None,
    progress: Progress | bool | None = None,
) -> ResultTable:
    """Evaluate latent distance, the repaired cost and random actions on the same starts and goals.

    Args:
        task: The world, one that stable-worldmodel has, too.
        model: The frozen world model.
        head: A head fitted on its latents.
        goals: Starts and goals that the head has not seen.
        weight: None replaces latent distance by the head; a number adds that much of it.
        planner: Size of their CEM's search.
        seed: Of their CEM.
        doubt: What a reader must know of head and goals, see `doubt_of`.
        logs: Encoded logs that their CEM begins with; nothing is taken from the episodes that the goals are of.
        progress: True shows how far it is.
    """
    planner, progress, raw = planner or CEM(), as_progress(progress), SwmModel(model)
    labels = head.record.get("pairs", {}).get("labels", "unknown")
    repair = "hybrid" if weight is not None else "shuffled" if labels == "shuffled" else "repaired"
    costs = {"raw": raw, repair: RepairedModel(raw, head, weight), "random": None}
    success = {}
    for name, cost in costs.items():
        progress.step(name)
        success[name] = evaluate_in_world(task, cost, model.actions, goals, planner, seed, logs=logs, progress=progress)
    before, after, _ = success.values()
    change = change_of(before, after)
    provenance: dict[str, Any] = {
        "command": "reachcost evaluate",
        "environment": public_environment(task).name,
        "model": model_identity(model),
        "head": {key: value for key, value in head.record.items() if key != "curve"},
        "weight": weight,
        "planner": asdict(planner),
        "begins_with_logs_sha256": None if logs is None else logs.logs.fingerprint,
        "evaluation_set": goals.name,
        **goals.record,
        "logs_of_goals_sha256": goals.logs_sha256,
        "doubt": doubt,
        "change": change,
        "episodes": goals.episodes.tolist(),
        "outcomes": {name: found.astype(int).tolist() for name, found in success.items()},
        "versions": {**versions(), "stable-worldmodel": version("stable-worldmodel")},
    }
    rows = [row_of(task, name, model.card["name"], seed, found, goals) for name, found in success.items()]
    formula = "the head" if weight is None else f"latent distance and {weight:g} of the head, both standardised"
    solver = f"{planner.candidates} candidates and {planner.iterations} rounds"
    solver += "" if logs is None else ", which begins with what logs know of the way (`FromLogs`)"
    note = _note(public_environment(task).name, goals, solver, f"`{repair}` {formula} (labels {labels})", change, doubt)
    metrics = _metrics(task.groups(goals.starts, goals.goals))
    kinds = {metric: (f"{name} %", 1) for name, metric in metrics.items()}
    return ResultTable(table_name(goals, weight, logs is not None), note, (TOTAL, *kinds), rows, provenance, kinds)


def doubt_of(head: LearnedHead, goals: EvaluationSet, logs: Logs | None) -> str | None:
    """What a reader must know if the head may have learned from these goals; None if it is proved that it has not.

    Args:
        head: The head.
        goals: Starts and goals, the whole set.
        logs: What the head was fitted on, if that is at hand.
    """
    pairs = head.record.get("pairs", {})
    if goals.fingerprint in pairs.get("exclusion", {}).get("evaluation_sets_sha256", []):
        return None
    unproved = "nothing proves that the head has not seen these goals"
    if logs is None:
        return f"{unproved}: give the --logs that it was fitted on"
    if logs.fingerprint != pairs.get("logs_sha256"):
        return f"{unproved}: it was not fitted on these --logs, give those"
    shared = len(Exclusion(logs, [goals]).episodes)
    return f"the head was fitted on {shared} episodes that hold these goals, which flatters it" if shared else None


def change_of(before: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    """What a repair changed, from success bool [E] before and after it."""
    low, high = newcombe(before, after)
    return {
        "points": round(float(100 * (after.mean() - before.mean())), 1),
        "interval": [round(100 * low, 1), round(100 * high, 1)],
        "gained": int((after & ~before).sum()),
        "lost": int((before & ~after).sum()),
    }


def row_of(task: Task, cost: str, model: str, seed: int, success: np.ndarray, goals: EvaluationSet) -> TableRow:
    """Success bool [E] of a cost as a line of the table."""
    kinds = task.groups(goals.starts, goals.goals)
    groups = {TOTAL: success, **{metric: success[kinds[name]] for name, metric in _metrics(kinds).items()}}
    shown = {name: found for name, found in groups.items() if len(found)}
    return TableRow(
        cost=cost,
        model=model,
        seed=seed,
        n=len(success),
        ours={name: float(100 * found.mean()) for name, found in shown.items()},
        interval={
            name: [100 * bound for bound in wilson(int(found.sum()), len(found))] for name, found in shown.items()
        },
        paper=None,
    )


def _metrics(groups: Iterable[str]) -> dict[str, str]:
    """What a table calls the success of each group: its first word, or all of its name where that is not its own."""
    words = {name: name.partition(" ")[0] for name in groups}
    uses = Counter([TOTAL, *words.values()])
    return {name: word if uses[word] == 1 else f"{TOTAL} of {name}" for name, word in words.items()}


def _note(
    environment: str, goals: EvaluationSet, solver: str, repair: str, change: dict[str, Any], doubt: str | None
) -> str:
    low, high = change["interval"]
    return (
        f"`World.evaluate` of stable-worldmodel on {environment}, {len(goals)} starts and goals of {goals.name}, its "
        f"CEM with {solver}. `raw` is latent distance, "
        f"{repair}, `random` its random policy; brackets are Wilson intervals of 95 %. The repair changes success by "
        f"{change['points']:+.1f} points [{low:+.1f}, {high:+.1f}] (Newcombe's paired interval): {change['gained']} "
        f"episodes gained, {change['lost']} lost. {f'Note: {doubt}. ' if doubt else ''}Made by `reachcost evaluate`."
    )
