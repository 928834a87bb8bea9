"""A repair judged by stable-worldmodel itself: its environment, solver, policy and `World.evaluate`.

Needs the extra `swm`; tested with release 0.1.1.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from reachcost.core.parallel import reserve_threads
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet, require_one_world
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.data.logs_hdf5 import write_logs
from reachcost.errors import ReachcostError
from reachcost.planning.cem import CEM
from reachcost.swm.experience import FromLogs
from reachcost.swm.model import Standardiser
from reachcost.swm.package import import_stable_worldmodel, silence
from reachcost.tasks.contract import PublicEnvironment, Task


def public_environment(task: Task) -> PublicEnvironment:
    """The same world in stable-worldmodel."""
    if task.public is None:
        raise ReachcostError(f"stable-worldmodel has no world of ours called {task.name!r}: choose one that it has")
    return task.public


def goals_dataset(task: Task, goals: EvaluationSet, path: Path, action_size: int | None = None) -> Any:
    """Starts and goals as one of their datasets, kept in an HDF5 file.

    An episode is two rows, start and goal, so `World.evaluate` takes `start_steps` 0 and `goal_offset` 1.

    Args:
        task: The world.
        goals: Starts and goals in that world.
        path: The file, a new one.
        action_size: Numbers in an action, of which all are 0; by default as many as the task logs.
    """
    import_stable_worldmodel()
    from stable_worldmodel.data import HDF5Dataset

    require_one_world(task.world, goals)
    states = np.stack([goals.starts, goals.goals], axis=1).reshape(-1, *goals.starts.shape[1:])
    size = task.generate_logs(1).columns["action"].shape[1] if action_size is None else action_size
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
    """Run their CEM, policy and `World.evaluate` with a cost on every start and goal -> success bool [E].

    Their generator is shared by all episodes of a batch. So each episode is evaluated by itself, with its own seed,
    and torch shares nothing among threads but pieces of equal shape: it ends the same alone or among others.

    Args:
        task: The world, one that they have, too.
        cost: What a solver plans with: a model of theirs, `SwmModel` or `RepairedModel`. None acts at random.
        blocks: How the model's action blocks relate to actions, `model.actions`.
        goals: Starts and goals in that world.
        planner: Size of the search; `CEM()` is that of the paper.
        seed: Of the planner.
        transform: What the policy does to `pixels` and `goal` before a model of theirs sees them; ours need nothing.
        logs: Encoded logs that their CEM begins with (see `FromLogs`), but for the episodes that the goals are of.
        progress: True shows how far it is.
    """
    swm, planner, public = import_stable_worldmodel(), planner or CEM(), public_environment(task)
    _require_plain(planner)
    if cost is not None and logs is not None:
        cost = FromLogs(cost, logs, blocks, exclude=goals)
    success = np.zeros(len(goals), bool)
    with tempfile.TemporaryDirectory() as folder, reserve_threads():
        dataset = goals_dataset(task, goals, Path(folder) / "goals.h5", len(blocks.mean))
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


def _require_plain(planner: CEM) -> None:
    """Refuse options that the solver there does not have."""
    if planner.execute != "mean":
        raise ReachcostError(f"the CEM of stable-worldmodel executes the mean of its elites, not the {planner.execute}")
    plain = CEM(
        planner.horizon,
        planner.candidates,
        planner.iterations,
        planner.elites,
        blocks=planner.blocks,
        deviation=planner.deviation,
    )
    for option in fields(planner):
        if (given := getattr(planner, option.name)) != getattr(plain, option.name):
            raise ReachcostError(
                f"the CEM of stable-worldmodel has no {option.name}={given!r}: leave it out, or plan with `rc.control`"
            )


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
