"""Evaluation before and after a repair by stable-worldmodel itself: its environment, solver and `World.evaluate`.

Needs the extra `swm`; tested with release 0.1.1.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.machine import versions
from reachcost.core.parallel import reserve_threads
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet, require_one_world
from reachcost.data.latents import Latents, model_identity
from reachcost.data.logs import Logs
from reachcost.data.logs_files import write_logs
from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.labels.exclusion import Exclusion
from reachcost.planning.cem import CEM
from reachcost.results.stats import newcombe, wilson
from reachcost.results.tables import ResultTable, TableRow
from reachcost.swm.models import FromLogs, RepairedModel, Standardiser, SwmModel
from reachcost.tasks.contract import PublicEnvironment, Task
from reachcost.worldmodels.jepa import JepaWorldModel

SOLVER_OPTIONS = ("horizon", "candidates", "iterations", "elites", "blocks", "deviation")  # also in its own CEM
TOTAL = "success"  # name of the success of all episodes in a table
_DECLARED: list[torch.library.Library] = []  # declarations of missing operators, which last as long as their library


def import_stable_worldmodel() -> Any:
    """Return the package `stable_worldmodel`; its environments are then registered in Gymnasium."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every environment whose extra is missing
        try:
            _import_torchvision()
            import stable_worldmodel
        except ImportError as error:
            raise ReachcostError(f"this needs stable-worldmodel ({error}): pip install 'reachcost[swm]'") from error
    return stable_worldmodel


def _import_torchvision() -> None:
    """Import torchvision, which stable-worldmodel needs.

    A torchvision built for CUDA next to a torch for the CPU looks for two missing operators. Declaring them is enough,
    because nothing here calls them.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
        import torchvision  # noqa: F401


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Silence the solvers of stable-worldmodel, and ignore warnings that its environments cause in Gymnasium.

    Standard output is not redirected, because progress is shown there.
    """
    package = "stable_worldmodel.solver."
    solvers: list[Any] = [module for name, module in sys.modules.items() if name.startswith(package)]
    for module in solvers:
        module.print = lambda *values, **options: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for module in solvers:
            module.__dict__.pop("print", None)


def public_environment(task: Task) -> PublicEnvironment:
    """Return the environment of stable-worldmodel that has the same world as a task."""
    if task.public is None:
        raise ReachcostError(f"stable-worldmodel has no world {task.name!r}: choose a task that it has")
    return task.public


def goals_dataset(task: Task, goals: EvaluationSet, path: Path) -> Any:
    """Return starts and goals as a dataset of stable-worldmodel, stored in a new HDF5 file.

    An episode is two rows, start and goal, so `World.evaluate` takes `start_steps` 0 and `goal_offset` 1. Its actions
    are zeros.
    """
    import_stable_worldmodel()
    from stable_worldmodel.data import HDF5Dataset

    require_one_world(task.world, goals)
    states = np.stack([goals.starts, goals.goals], axis=1).reshape(-1, *goals.starts.shape[1:])
    size = task.action_dim or task.generate_logs(1).columns["action"].shape[1]
    actions = np.zeros((len(states), size), np.float32)
    logs = Logs({"state": states, "action": actions}, np.full(len(goals), 2), task.observe)
    write_logs(logs, path, render=task.render)
    return HDF5Dataset(path=path)


def evaluate_in_world(
    task: Task,
    cost: nn.Module | None,
    blocks: ActionBlocks,
    goals: EvaluationSet,
    planner: CEM | None = None,
    seed: int = 0,
    transform: dict[str, Callable[[Any], Tensor]] | None = None,
    logs: Latents | None = None,
    progress: Progress | bool | None = None,
) -> np.ndarray:
    """Run the CEM, policy and `World.evaluate` of stable-worldmodel on every start and goal -> success bool [E].

    Their CEM samples all episodes of a batch from one generator. Here each episode is evaluated alone, with its own
    seed, so its outcome does not depend on the other episodes.

    Args:
        task: A world that stable-worldmodel has, too.
        cost: What the solver plans with: a model of the package, `SwmModel` or `RepairedModel`. None acts at random.
        blocks: Action blocks of the model, `model.actions`.
        goals: Starts and goals in that world.
        planner: Size of the search; by default the paper's.
        seed: Seed of the planner.
        transform: Functions that the policy applies to `pixels` and `goal` for a model of the package.
        logs: Encoded logs that the CEM begins with (see `FromLogs`), without the episodes of the goals.
        progress: True reports progress.
    """
    swm, planner, public = import_stable_worldmodel(), planner or CEM(), public_environment(task)
    for option in fields(planner):
        value = getattr(planner, option.name)
        if option.name not in SOLVER_OPTIONS and value != option.default:
            raise ReachcostError(
                f"the CEM of stable-worldmodel has no {option.name}={value!r}: leave it out, or plan with `rc.control`"
            )
    if cost is not None and logs is not None:
        cost = FromLogs(cost, logs, blocks, exclude=goals)
    success = np.zeros(len(goals), bool)
    with tempfile.TemporaryDirectory() as folder, reserve_threads():
        dataset = goals_dataset(task, goals, Path(folder) / "goals.h5")
        with silence():
            world = swm.World(public.name, num_envs=1, image_shape=(public.pixels, public.pixels))
        try:
            for row in as_progress(progress).track(range(len(goals)), "episodes"):
                own_seed = int(generator(seed, "stable-worldmodel", int(goals.episodes[row])).integers(2**31))
                with silence():
                    world.set_policy(_policy(cost, blocks, planner, own_seed, transform))
                    found = world.evaluate(
                        dataset=dataset,
                        episodes_idx=[row],
                        start_steps=[0],
                        goal_offset=1,
                        eval_budget=goals.budget or task.action_budget,
                        callables=[dict(callable_) for callable_ in public.callables],
                    )
                success[row] = found["episode_successes"][0]
        finally:
            world.close()
    return success


def _policy(cost: Any, blocks: ActionBlocks, planner: CEM, seed: int, transform: Any) -> Any:
    from stable_worldmodel.policy import PlanConfig, RandomPolicy, WorldModelPolicy
    from stable_worldmodel.solver import CEMSolver

    if cost is None:
        return RandomPolicy(seed=seed)
    solver = CEMSolver(
        cost,
        num_samples=planner.candidates,
        var_scale=planner.deviation,
        n_steps=planner.iterations,
        topk=planner.elites,
        device=str(next(cost.parameters()).device),
        seed=seed,
    )
    plan = PlanConfig(planner.horizon, planner.executed, action_block=blocks.length)
    process: Any = {"action": Standardiser(blocks)}
    return WorldModelPolicy(solver, plan, process=process, transform=transform)


def table_name(goals: EvaluationSet, weight: float | None = None, from_logs: bool = False) -> str:
    """Return the name of the table of a comparison."""
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
    warning: str | None = None,
    logs: Latents | None = None,
    progress: Progress | bool | None = None,
) -> ResultTable:
    """Evaluate latent distance, the repaired cost and random actions on the same starts and goals.

    Args:
        task, goals, planner, seed, logs, progress: See `evaluate_in_world`.
        model: The frozen world model.
        head: A head fitted on its latents.
        weight: None replaces latent distance by the head; a number adds the head with this weight.
        warning: Warning about head and goals, see `warning_of`.
    """
    planner, progress, raw = planner or CEM(), as_progress(progress), SwmModel(model)
    labels = head.record.get("pairs", {}).get("labels", "unknown")
    repair = "hybrid" if weight is not None else "shuffled" if labels == "shuffled" else "repaired"
    costs = {"raw": raw, repair: RepairedModel(raw, head, weight), "random": None}
    success = {}
    for name, cost in costs.items():
        progress.step(name)
        success[name] = evaluate_in_world(task, cost, model.actions, goals, planner, seed, logs=logs, progress=progress)
    change = change_of(success["raw"], success[repair])
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
        "doubt": warning,
        "change": change,
        "episodes": goals.episodes.tolist(),
        "outcomes": {name: found.astype(int).tolist() for name, found in success.items()},
        "versions": {**versions(), "stable-worldmodel": version("stable-worldmodel")},
    }
    rows = [row_of(task, name, model.card["name"], seed, found, goals) for name, found in success.items()]
    formula = "the head" if weight is None else f"latent distance and {weight:g} of the head, both standardised"
    low, high = change["interval"]
    note = (
        f"`World.evaluate` of stable-worldmodel on {public_environment(task).name}, {len(goals)} starts and goals of "
        f"{goals.name}, its CEM with {planner.candidates} candidates and {planner.iterations} rounds"
        f"{'' if logs is None else ', which begins with logged actions (`FromLogs`)'}. `raw` is latent distance, "
        f"`{repair}` {formula} (labels {labels}), `random` its random policy; brackets are Wilson intervals of 95 %. "
        f"The repair changes success by {change['points']:+.1f} points [{low:+.1f}, {high:+.1f}] (Newcombe's paired "
        f"interval): {change['gained']} episodes gained, {change['lost']} lost. "
        f"{f'Note: {warning}. ' if warning else ''}Made by `reachcost evaluate`."
    )
    metrics = _metrics(task.groups(goals.starts, goals.goals))
    kinds = {metric: (f"{name} %", 1) for name, metric in metrics.items()}
    return ResultTable(table_name(goals, weight, logs is not None), note, (TOTAL, *kinds), rows, provenance, kinds)


def warning_of(head: LearnedHead, goals: EvaluationSet, logs: Logs | None) -> str | None:
    """Return a warning if the head may have been trained on the goals of a full set; None if it was not.

    `logs` are those that the head was fitted on, if they are available.
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
    """Return how a repair changed success, from bool [E] before and after it."""
    low, high = newcombe(before, after)
    return {
        "points": round(float(100 * (after.mean() - before.mean())), 1),
        "interval": [round(100 * low, 1), round(100 * high, 1)],
        "gained": int((after & ~before).sum()),
        "lost": int((before & ~after).sum()),
    }


def row_of(task: Task, cost: str, model: str, seed: int, success: np.ndarray, goals: EvaluationSet) -> TableRow:
    """Return success bool [E] of a cost as a row of the table."""
    kinds = task.groups(goals.starts, goals.goals)
    groups = {TOTAL: success, **{metric: success[kinds[name]] for name, metric in _metrics(kinds).items()}}
    shown = {name: found for name, found in groups.items() if len(found)}
    ours = {name: float(100 * found.mean()) for name, found in shown.items()}
    interval = {name: [100 * bound for bound in wilson(int(found.sum()), len(found))] for name, found in shown.items()}
    return TableRow(cost, model, len(success), ours, interval, paper=None, seed=seed)


def _metrics(groups: Iterable[str]) -> dict[str, str]:
    """Column of each group: its first word, or its full name if several groups begin with that word."""
    words = {name: name.partition(" ")[0] for name in groups}
    uses = Counter([TOTAL, *words.values()])
    return {name: word if uses[word] == 1 else f"{TOTAL} of {name}" for name, word in words.items()}
