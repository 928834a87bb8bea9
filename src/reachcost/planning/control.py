"""The receding-horizon control loop: plan, execute, observe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import device_of
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.checks import GroupedCost, require_one_model
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.evaluation import EvaluationSet, require_one_world, require_set
from reachcost.data.latents import Latents, require_finite, require_latents_of
from reachcost.data.models import encode_rows, history_of, name_of, require_model
from reachcost.errors import ReachcostError, require_type
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.logged_actions import LoggedActions
from reachcost.planning.planner import PlanContext, Planner, SamplingPlanner, Watch, require_logged
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.compatibility import stepped, try_task
from reachcost.tasks.contract import Task, require_task


def default_planner(discrete_actions: int | None, with_logs: bool = False) -> CEM | CategoricalCEM:
    """Return the planner that begins with logged actions if there are logs, else the paper's.

    `discrete_actions` is their number, None for continuous actions.
    """
    if discrete_actions is None:
        return CEM.experienced() if with_logs else CEM()
    return CategoricalCEM.experienced(discrete_actions) if with_logs else CategoricalCEM(discrete_actions)


def sized_planner(discrete_actions: int | None, candidates: int, iterations: int) -> CEM | CategoricalCEM:
    """Return the paper's planner with this number of rounds and candidates, of which a tenth are elites."""
    size: dict[str, Any] = {"candidates": candidates, "iterations": iterations, "elites": max(2, candidates // 10)}
    return CEM(**size) if discrete_actions is None else CategoricalCEM(discrete_actions, **size)


def require_actions(task: Task, model: WorldModel) -> ActionBlocks | None:
    """Return the action blocks of a model, None for discrete actions; raise an error if they do not fit the task."""
    require_task(task)
    require_model(model)
    blocks, name = blocks_of(model), name_of(model)
    if task.discrete_actions is not None:
        if blocks is not None or model.action_dim != 1:
            found = "action blocks" if blocks is not None else f"action_dim {model.action_dim}"
            wrong = f"{task.name} has {task.discrete_actions} discrete actions, but {name} has {found}"
            raise ReachcostError(f"{wrong}: give it action_dim 1, the index of an action, and no `actions`")
        return None
    width = task.action_dim
    if width is None and task.offers("generate_logs"):
        logged = task.generate_logs(1).columns
        width = logged["action"].shape[-1] if "action" in logged else None
    if blocks is None:
        length = model.action_dim // width if width and model.action_dim % width == 0 else 1
        remedy = f"add model = rc.with_actions(model, logs, length={length}), with the steps of a block as length"
        raise ReachcostError(f"{task.name} has continuous actions, but {name} has no `actions`: {remedy}")
    if width is not None and width != len(blocks.mean):
        wrong = f"`actions` of {name} have {len(blocks.mean)} numbers, but actions of {task.name} have {width}"
        raise ReachcostError(f"{wrong}: measure them on logs of this world, rc.with_actions(model, logs, length=...)")
    return blocks


def require_planner(task: Task, planner: Planner) -> None:
    """Raise an error for a planner of other actions than the task's."""
    require_type(planner, Planner, "planner", "make one, rc.CEM() or rc.CategoricalCEM(), or inherit from rc.Planner")
    name, count = type(planner).__name__, task.discrete_actions
    if planner.discrete is False and count is not None:
        remedy = f"use rc.CategoricalCEM(actions={count})"
        raise ReachcostError(f"{name} samples continuous actions, but {task.name} has {count} discrete ones: {remedy}")
    if planner.discrete is True and count is None:
        raise ReachcostError(f"{name} samples discrete actions, but those of {task.name} are continuous: use rc.CEM()")
    if None not in (count, planner.actions) and planner.actions != count:
        wrong = f"{name} samples {planner.actions} actions, but {task.name} has {count}"
        raise ReachcostError(f"{wrong}: give it actions={count}")


def require_parts(
    task: Task, model: WorldModel, costs: Mapping[str, TerminalCost], evaluation: EvaluationSet
) -> ActionBlocks | None:
    """Raise an error unless these parts fit each other; return the action blocks, None for discrete actions."""
    blocks = require_actions(task, model)
    require_set(evaluation)
    require_one_model(costs, model)
    require_one_world(task.world, evaluation)
    if not costs:
        raise ReachcostError("there is no terminal cost: pass costs={name: cost}")
    if not len(evaluation):
        raise ReachcostError(f"evaluation set {evaluation.name!r} has no episodes: keep at least one")
    try_task(task, evaluation, np.zeros(1, np.int64) if blocks is None else np.array(blocks.mean, np.float32))
    return blocks


# From states [B, ...], goals [B, ...] and random streams to candidates [B, iterations, K, H] to inject.
Proposal = Callable[[np.ndarray, np.ndarray, EpisodeStreams], np.ndarray]
# Attributes of `ControlRuns` with one entry for each cost and episode.
PER_COST = ("success", "steps", "final_distance", "category", "paths")


@dataclass(frozen=True)
class ControlRuns:
    """Closed-loop runs of E episodes with C costs."""

    costs: tuple[str, ...]  # names of the costs
    episodes: np.ndarray  # numbers of the episodes in their evaluation set [E]
    success: np.ndarray  # whether the goal was reached at any time, bool [C, E]
    steps: np.ndarray  # number of actions until then, or of all executed ones, int [C, E]
    final_distance: np.ndarray  # oracle distance of the last state to the goal [C, E]; NaN if the task has none
    category: np.ndarray  # outcome of the episode, str [C, E]
    paths: np.ndarray  # visited states [C, E, budget + 1, ...]; if a task stops at success, the last state repeats
    goals: np.ndarray  # goal states [E, ...]

    def __repr__(self) -> str:
        reached = zip(self.costs, self.success.sum(1), strict=True)
        shares = ", ".join(f"{name} {count}/{len(self.episodes)}" for name, count in reached)
        return f"ControlRuns({len(self.episodes)} episodes; success: {shares})"

    def rows(self) -> dict[str, np.ndarray]:
        """Return columns with one row per (cost, episode)."""
        keys = {"cost": np.repeat(self.costs, len(self.episodes)), "episode": np.tile(self.episodes, len(self.costs))}
        return keys | {name: getattr(self, name).ravel() for name in PER_COST if name != "paths"}

    def merged(self, other: ControlRuns) -> ControlRuns:
        """Return these costs and then the new ones of other runs, in their common episodes."""
        mine = np.flatnonzero(np.isin(self.episodes, other.episodes))
        theirs = np.flatnonzero(np.isin(other.episodes, self.episodes))
        same = [
            np.array_equal(self.episodes[mine], other.episodes[theirs]),
            np.array_equal(self.goals[mine], other.goals[theirs]),
            np.array_equal(self.paths[0, mine, 0], other.paths[0, theirs, 0]),
            self.paths.shape[2:] == other.paths.shape[2:],
        ]
        if not all(same):
            raise ReachcostError("these runs have other episodes or budgets: run all costs on one evaluation set")
        new = [row for row, name in enumerate(other.costs) if name not in self.costs]
        parts = {
            name: np.concatenate([getattr(self, name)[:, mine], getattr(other, name)[new][:, theirs]])
            for name in PER_COST
        }
        costs = (*self.costs, *(other.costs[row] for row in new))
        return ControlRuns(costs, self.episodes[mine], **parts, goals=self.goals[mine])


def budget_of(task: Task, evaluation: EvaluationSet, given: int | None = None) -> int:
    """Return the number of actions of an episode: as given, or of the evaluation set, or of the task."""
    require_type(given, int | None, "budget", "give a whole number of actions")
    budget = next(number for number in (given, evaluation.budget, task.action_budget) if number is not None)
    if budget < 1:
        raise ReachcostError(f"budget is {budget}: give at least one action")
    return budget


@torch.no_grad()
def control(
    task: Task,
    model: WorldModel,
    costs: Mapping[str, TerminalCost],
    evaluation: EvaluationSet,
    planner: Planner | None = None,
    *,
    seed: int = 0,
    budget: int | None = None,
    proposal: Proposal | None = None,
    logs: Latents | None = None,
    watch: Watch | None = None,
    progress: Progress | bool | None = None,
) -> ControlRuns:
    """Run every episode of the evaluation set with every cost, all of them in one batch.

    Random numbers belong to (seed, episode, replan): they are the same for all costs, and do not depend on the batch.

    Args:
        task: Executes actions and measures distance.
        model: Frozen world model; its `actions` convert blocks to actions of the task, unless those are discrete. A
            model with a `history` reads past frames, one block apart.
        costs: Terminal costs by name.
        evaluation: E start and goal states.
        planner: Planner of action sequences, see `default_planner`; its first `executed` blocks are executed, then it
            plans again.
        seed: Seed of the planner.
        budget: Number of actions of an episode, see `budget_of`.
        proposal: Candidates that every pool contains, if the protocol has any.
        logs: Encoded logs that a planner with `from_logs` begins with. Source episodes of the evaluation set are not
            used.
        watch: Function that is called with every `Round` of every plan; needs a `SamplingPlanner`.
        progress: True reports progress.
    """
    blocks = require_parts(task, model, costs, evaluation)
    planner = default_planner(task.discrete_actions, logs is not None) if planner is None else planner
    require_planner(task, planner)
    if watch is not None and not isinstance(planner, SamplingPlanner):
        raise ReachcostError(f"{type(planner).__name__} has no rounds of candidates: leave watch= out")
    require_type(seed, int, "seed", "give a whole number")
    length = blocks.length if blocks else 1
    episodes = _Episodes(task, model, costs, evaluation, budget_of(task, evaluation, budget), length)
    per_plan = planner.executed * length
    replans = range(0, episodes.budget, per_plan)
    logged = _logged(model, planner, logs, blocks or task.discrete_actions, evaluation)
    for replan in as_progress(progress).track(range(len(replans)), "plans"):
        active = episodes.active()
        actions = np.empty((0, per_plan, 1))
        if len(active):
            streams = EpisodeStreams(seed, "plan", episodes.number[active], replan)
            states, goals = episodes.states[active], episodes.goals[active]
            latents, past = episodes.context(active)
            context = PlanContext(
                model,
                episodes.cost(active),
                latents,
                episodes.goal_latents[active],
                streams,
                past=past,
                left=episodes.left[torch.from_numpy(active)] if replan else None,
                remaining=-(-(episodes.budget - replans[replan]) // length),
                logged=logged,
                injected=proposal(states, goals, streams) if proposal else None,
                watch=watch,
            )
            plan = planner.plan(context)
            episodes.keep(active, plan, planner.executed)
            plan = plan[:, : planner.executed].cpu().numpy()
            actions = plan if blocks is None else blocks.unroll(plan)
        episodes.execute(active, actions)
    return episodes.runs()


def _logged(
    model: WorldModel,
    planner: Planner,
    logs: Latents | None,
    blocks: ActionBlocks | int | None,
    evaluation: EvaluationSet,
) -> LoggedActions | None:
    """The logged actions that the planner begins with; None if it uses no logs."""
    if not planner.from_logs:
        if logs is not None:
            raise ReachcostError("the planner uses no logs: leave logs= out, or plan with from_logs=True")
        return None
    logs = require_logged(planner, logs)
    require_type(logs, Latents, "logs", "encode them, rc.encode_logs(model, logs)")
    require_latents_of(model, logs)
    assert blocks is not None  # actions are continuous, in blocks, or discrete
    return LoggedActions(logs, blocks, evaluation)


class _Episodes:
    """All running episodes, one row per (cost, episode): states, past frames and blocks, and the rest of the plan."""

    def __init__(
        self,
        task: Task,
        model: WorldModel,
        costs: Mapping[str, TerminalCost],
        evaluation: EvaluationSet,
        budget: int,
        length: int,
    ) -> None:
        self._task, self._model, self._costs, self._evaluation = task, model, costs, evaluation
        self.budget, self._length, self._history = budget, length, history_of(model)
        self._cost_of = np.repeat(np.arange(len(costs)), len(evaluation))
        self.number = np.tile(evaluation.episodes, len(costs))
        self.states = np.concatenate([evaluation.starts] * len(costs))
        self.goals = np.concatenate([evaluation.goals] * len(costs))
        self.goal_latents = encode_rows(model, task.observe(self.goals), len(self.goals))
        require_finite(self.goal_latents, "the goal of episode", self.number)
        self._reached = np.array(task.success(self.states, self.goals))
        self._steps = np.where(self._reached, 0, budget)
        self._path = [self.states.copy()]
        # Blocks executed between the last frames, and blocks that the last plans left unexecuted: [N, blocks, A].
        self._past = self.left = torch.empty(len(self.states), 0, model.action_dim, device=device_of(model))

    def active(self) -> np.ndarray:
        """Rows that have not ended."""
        return np.flatnonzero(~self._reached | (not self._task.stops_at_success))

    def cost(self, rows: np.ndarray) -> GroupedCost:
        """The cost of each of some rows."""
        sizes = np.bincount(self._cost_of[rows], minlength=len(self._costs))
        return GroupedCost(self._costs, np.split(self.number[rows], np.cumsum(sizes)[:-1]))

    def context(self, rows: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """Latents of the last frames [N, T, D], and the blocks between them [N, T - 1, A], None if T is 1."""
        count = min(self._history, 1 + self._past.shape[1])
        frames = []
        for ago in reversed(range(count)):
            states = self._path[-1 - self._length * ago][rows]
            frames.append(encode_rows(self._model, self._task.observe(states), len(rows)))
            require_finite(frames[-1], "episode", self.number[rows])
        past = self._past[torch.from_numpy(rows), 1 - count :] if count > 1 else None
        return torch.stack(frames, dim=1), past

    def keep(self, rows: np.ndarray, plan: Tensor, executed: int) -> None:
        """Remember the plans [N, H, A] of some rows."""
        plans = plan.new_zeros(len(self.states), *plan.shape[1:])
        plans[torch.from_numpy(rows)] = plan
        past = torch.cat([self._past.to(plan), plans[:, :executed]], dim=1)
        self._past = past[:, max(0, past.shape[1] + 1 - self._history) :]
        self.left = plans[:, executed:]

    def execute(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Execute the actions [N, steps, a] of some rows, within the budget."""
        for step in range(min(actions.shape[1], self.budget + 1 - len(self._path))):
            going = ~self._reached[rows] | (not self._task.stops_at_success)
            moving = rows[going]
            if len(moving):
                self.states[moving] = stepped(self._task, self.states[moving], actions[going, step])
                near = self._task.success(self.states[moving], self.goals[moving])
                first = moving[near & ~self._reached[moving]]
                self._reached[first], self._steps[first] = True, len(self._path)
            self._path.append(self.states.copy())

    def runs(self) -> ControlRuns:
        """Return the finished runs."""
        shape = (len(self._costs), len(self._evaluation))
        paths = np.stack(self._path, axis=1)
        category = self._task.category(self._path[0], self.states, self.goals)
        known = self._task.offers("distance")
        distance = self._task.distance(self.states, self.goals) if known else np.full(len(self.states), np.nan)
        return ControlRuns(
            costs=tuple(self._costs),
            episodes=self._evaluation.episodes,
            success=self._reached.reshape(shape),
            steps=self._steps.reshape(shape),
            final_distance=distance.reshape(shape),
            category=np.where(self._reached, "success", category).reshape(shape),
            paths=paths.reshape(*shape, *paths.shape[1:]),
            goals=self._evaluation.goals,
        )
