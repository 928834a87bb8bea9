"""The receding-horizon control loop: plan, execute, observe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, overload

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
    """The planner that begins with logged actions where there are logs, else the paper's.

    Args:
        discrete_actions: Number of discrete actions; None where actions are continuous.
        with_logs: Whether there are encoded logs.

    >>> default_planner(None) == CEM(), default_planner(3, with_logs=True).actions
    (True, 3)
    """
    if discrete_actions is None:
        return CEM.experienced() if with_logs else CEM()
    return CategoricalCEM.experienced(discrete_actions) if with_logs else CategoricalCEM(discrete_actions)


@overload
def sized_planner(discrete_actions: None, candidates: int, iterations: int) -> CEM: ...
@overload
def sized_planner(discrete_actions: int | None, candidates: int, iterations: int) -> CEM | CategoricalCEM: ...
def sized_planner(discrete_actions: int | None, candidates: int, iterations: int) -> CEM | CategoricalCEM:
    """The paper's planner with another number of candidates, a tenth of them elites, and of rounds.

    >>> sized_planner(None, candidates=100, iterations=5).elites
    10
    """
    size: dict[str, Any] = {"candidates": candidates, "iterations": iterations, "elites": max(2, candidates // 10)}
    return CEM(**size) if discrete_actions is None else CategoricalCEM(discrete_actions, **size)


def require_actions(task: Task, model: WorldModel) -> ActionBlocks | None:
    """The action blocks of a world model, None where actions are discrete; refuses those the task cannot execute.

    >>> from reachcost import load_world_model, make_task
    >>> require_actions(make_task("tworoom"), load_world_model("lewm-tworoom-3072")).length
    5
    """
    require_task(task)
    require_model(model)
    blocks, name = blocks_of(model), name_of(model)
    if task.discrete_actions is not None:
        if blocks is not None or model.action_dim != 1:
            found = "action blocks" if blocks is not None else f"action_dim {model.action_dim}"
            raise ReachcostError(
                f"{task.name} has {task.discrete_actions} discrete actions, but the world model {name} has {found}: "
                "give it action_dim 1, the index of an action, and no `actions`"
            )
        return None
    width = _width(task)
    if blocks is None:
        length = model.action_dim // width if width and model.action_dim % width == 0 else 1
        raise ReachcostError(
            f"{task.name} has continuous actions, and the world model {name} does not say how its action blocks stand "
            f"for them: add model = rc.with_actions(model, logs, length={length}), length being the steps of a block"
        )
    if blocks.size != model.action_dim:
        raise ReachcostError(
            f"the world model {name} takes blocks of {model.action_dim} numbers, but its `actions` make blocks of "
            f"{blocks.size}, {blocks.length} steps of {len(blocks.mean)}: make them agree"
        )
    if width is not None and width != len(blocks.mean):
        raise ReachcostError(
            f"the action blocks of the world model {name} stand for actions of {len(blocks.mean)} numbers, but those "
            f"of {task.name} have {width}: measure them on logs of this world, rc.with_actions(model, logs, length=...)"
        )
    return blocks


def require_planner(task: Task, planner: Planner, watched: bool = False) -> None:
    """Refuse a planner of other actions than the task has, and one that is to be `watched` and has no rounds."""
    require_type(planner, Planner, "planner", "make one, rc.CEM() or rc.CategoricalCEM(), or inherit from rc.Planner")
    name, count = type(planner).__name__, task.discrete_actions
    if planner.discrete is False and count is not None:
        raise ReachcostError(
            f"{name} samples continuous actions, but {task.name} has {count} discrete ones: plan with "
            f"rc.CategoricalCEM(actions={count})"
        )
    if planner.discrete is True and count is None:
        raise ReachcostError(
            f"{name} samples discrete actions, but those of {task.name} are continuous: plan with rc.CEM()"
        )
    if watched and not isinstance(planner, SamplingPlanner):
        raise ReachcostError(f"{name} cannot be watched, it samples no candidates in rounds: leave watch= out")
    if None not in (count, planner.actions) and planner.actions != count:
        raise ReachcostError(
            f"{name} samples {planner.actions} actions, but {task.name} has {count}: give it actions={count}"
        )


def some_action(model: WorldModel) -> np.ndarray:
    """An action of the task [a] that is nothing special: the mean of the logs, or the first of discrete ones."""
    blocks = blocks_of(model)
    return np.zeros(1, np.int64) if blocks is None else np.array(blocks.mean, np.float32)


def _width(task: Task) -> int | None:
    """Numbers in an action of a task: as it says, or as it logs."""
    if task.action_dim is not None or not task.offers("generate_logs"):
        return task.action_dim
    logged = task.generate_logs(1).columns
    return logged["action"].shape[-1] if "action" in logged else None


Proposal = Callable[[np.ndarray, np.ndarray, EpisodeStreams], np.ndarray]
"""Candidates [B, iterations, K, H] to inject, from states [B, ...], goals [B, ...] and the episodes' streams."""

PER_COST = ("success", "steps", "final_distance", "category", "paths")
"""What runs tell of each cost in each episode."""


@dataclass(frozen=True)
class ControlRuns:
    """What happened in C costs x E episodes.

    Attributes:
        costs: Names of the costs.
        episodes: Numbers of the episodes in their evaluation set [E].
        success: Whether the goal was reached at any time, bool [C, E].
        steps: Actions until it was, or all that were executed, int [C, E].
        final_distance: Oracle distance of the last state to the goal [C, E]; NaN where the task has none.
        category: How the episode came out, str [C, E].
        paths: Visited states [C, E, budget + 1, ...]; where a task stops at success, the last state repeats.
        goals: Goal states [E, ...].
    """

    costs: tuple[str, ...]
    episodes: np.ndarray
    success: np.ndarray
    steps: np.ndarray
    final_distance: np.ndarray
    category: np.ndarray
    paths: np.ndarray
    goals: np.ndarray

    def __repr__(self) -> str:
        reached = zip(self.costs, self.success.sum(1), strict=True)
        shares = ", ".join(f"{name} {count}/{len(self.episodes)}" for name, count in reached)
        return f"ControlRuns({len(self.episodes)} episodes; success: {shares})"

    def rows(self) -> dict[str, np.ndarray]:
        """One row per (cost, episode), as columns."""
        return {
            "cost": np.repeat(self.costs, len(self.episodes)),
            "episode": np.tile(self.episodes, len(self.costs)),
            "success": self.success.ravel(),
            "steps": self.steps.ravel(),
            "final_distance": self.final_distance.ravel(),
            "category": self.category.ravel(),
        }

    def of(self, episodes: np.ndarray) -> ControlRuns:
        """Some of the episodes, by number."""
        rows = np.flatnonzero(np.isin(self.episodes, episodes))
        parts = {name: getattr(self, name)[:, rows] for name in PER_COST}
        return ControlRuns(self.costs, self.episodes[rows], **parts, goals=self.goals[rows])

    def beside(self, other: ControlRuns) -> ControlRuns:
        """These costs and then those that only another has, in the episodes that both ran."""
        mine, theirs = self.of(other.episodes), other.of(self.episodes)
        if not all(map(np.array_equal, mine._asked(), theirs._asked())):
            raise ReachcostError("these runs have other episodes or budgets: run all costs on one evaluation set")
        new = [row for row, name in enumerate(theirs.costs) if name not in mine.costs]
        parts = {name: np.concatenate([getattr(mine, name), getattr(theirs, name)[new]]) for name in PER_COST}
        costs = (*mine.costs, *(theirs.costs[row] for row in new))
        return ControlRuns(costs, mine.episodes, **parts, goals=mine.goals)

    def _asked(self) -> tuple[np.ndarray, ...]:
        """What was to be done, whatever the cost: episodes, goals, starts and budget."""
        return self.episodes, self.goals, self.paths[0, :, 0], np.array(self.paths.shape[2:])


def budget_of(task: Task, evaluation: EvaluationSet, given: int | None = None) -> int:
    """Actions that an episode may execute: those given, or those of the evaluation set, or of the task."""
    require_type(given, int | None, "budget", "give a whole number of actions")
    budget = next(number for number in (given, evaluation.budget, task.action_budget) if number is not None)
    if budget < 1:
        raise ReachcostError(f"a budget of {budget} actions leaves nothing to control: give at least one")
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
    """Run every episode of the evaluation set under every cost, all of them in one batch.

    Random numbers belong to (seed, episode, replan): all costs of an episode meet the same ones, and no episode
    changes with the others in the batch.

    Args:
        task: Executes actions and measures distance.
        model: Frozen world model the planner uses; its `actions` turn blocks into actions of the task, unless those are
            discrete. One with a `history` is given as many past frames, one block apart, as the episode has.
        costs: Terminal costs by name.
        evaluation: E start and goal states.
        planner: Chooses action sequences from a `PlanContext`; its first `executed` blocks are executed, then it plans
            again. By default `CEM.experienced()` where `logs` are given, else the paper's, for the actions of the task.
        seed: Seed of the planner.
        budget: Actions an episode may execute, instead of the number of the evaluation set or the task.
        proposal: Candidates that every pool contains, if the protocol has any.
        logs: Encoded logs that a planner with `from_logs` begins with; nothing is taken from the episodes that the
            evaluation set was drawn from.
        watch: Called with every `Round` of every plan of the rows that still act, cost by cost and episode by episode;
            `CEM` and `CategoricalCEM` can be watched.
        progress: True shows how far it is.
    """
    blocks = require_actions(task, model)
    planner = default_planner(task.discrete_actions, logs is not None) if planner is None else planner
    require_planner(task, planner, watched=watch is not None)
    require_set(evaluation)
    require_type(seed, int, "seed", "give a whole number")
    episodes = _Episodes(task, model, costs, evaluation, budget_of(task, evaluation, budget))
    length = blocks.length if blocks else 1
    per_plan, memory = planner.executed * length, _Memory(model, episodes, length)
    replans = range(0, episodes.budget, per_plan)
    logged = _logged(model, planner, logs, blocks or task.discrete_actions, evaluation)
    for replan in as_progress(progress).track(range(len(replans)), "plans"):
        active = episodes.active()
        actions = np.empty((0, per_plan, 1))
        if len(active):
            streams = EpisodeStreams(seed, "plan", episodes.number[active], replan)
            states, goals = episodes.states[active], episodes.goals[active]
            latents, past = memory.context(active)
            context = PlanContext(
                model,
                episodes.cost(active),
                latents,
                episodes.goal_latents[active],
                streams,
                past=past,
                left=memory.left(active) if replan else None,
                remaining=-(-(episodes.budget - replans[replan]) // length),
                logged=logged,
                injected=proposal(states, goals, streams) if proposal else None,
                watch=watch,
            )
            plan = planner.plan(context)
            memory.keep(active, plan, planner.executed)
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
    """The logged actions that the planner begins with; None if it does not use logs."""
    if not planner.from_logs:
        if logs is not None:
            raise ReachcostError("the planner does not begin with logs: leave logs= out, or plan with from_logs=True")
        return None
    logs = require_logged(planner, logs)
    require_type(logs, Latents, "logs", "encode them, rc.encode_logs(model, logs)")
    require_latents_of(model, logs)
    assert blocks is not None  # actions are continuous, in blocks, or discrete
    return LoggedActions(logs, blocks, evaluation)


class _Episodes:
    """All episodes under all costs while they run: one row per (cost, episode)."""

    def __init__(
        self,
        task: Task,
        model: WorldModel,
        costs: Mapping[str, TerminalCost],
        evaluation: EvaluationSet,
        budget: int,
    ) -> None:
        require_one_model(costs, model)
        require_one_world(task.world, evaluation)
        if not costs:
            raise ReachcostError("control needs at least one terminal cost: pass costs={name: cost}")
        if not len(evaluation):
            raise ReachcostError(f"evaluation set {evaluation.name!r} has no episodes: keep at least one")
        try_task(task, evaluation, some_action(model))
        self._task, self._model, self._costs, self._evaluation, self.budget = task, model, costs, evaluation, budget
        self._cost_of = np.repeat(np.arange(len(costs)), len(evaluation))
        self.number = np.tile(evaluation.episodes, len(costs))
        self.states = np.concatenate([evaluation.starts] * len(costs))
        self.goals = np.concatenate([evaluation.goals] * len(costs))
        self.goal_latents = encode_rows(model, task.observe(self.goals), len(self.goals))
        require_finite(self.goal_latents, "the goal of episode", self.number)
        self._reached = np.array(task.success(self.states, self.goals))
        self._steps = np.where(self._reached, 0, budget)
        self._path = [self.states.copy()]

    def active(self) -> np.ndarray:
        """Rows that still act."""
        return np.flatnonzero(~self._reached | (not self._task.stops_at_success))

    def latents(self, rows: np.ndarray, ago: int = 0) -> Tensor:
        """What the model makes of the states that some rows had so many actions ago [N, D]."""
        latents = encode_rows(self._model, self._task.observe(self._path[-1 - ago][rows]), len(rows))
        require_finite(latents, "episode", self.number[rows])
        return latents

    def cost(self, rows: np.ndarray) -> GroupedCost:
        """The cost of each of some rows."""
        sizes = np.bincount(self._cost_of[rows], minlength=len(self._costs))
        return GroupedCost(self._costs, np.split(self.number[rows], np.cumsum(sizes)[:-1]))

    def execute(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Execute the actions [N, steps, a] of some rows, as far as the budget goes."""
        for step in range(min(actions.shape[1], self.budget + 1 - len(self._path))):
            going = ~self._reached[rows] | (not self._task.stops_at_success)
            moving = rows[going]
            if len(moving):
                self.states[moving] = stepped(self._task, self.states[moving], actions[going, step])
                near = self._task.success(self.states[moving], self.goals[moving])
                first = moving[near & ~self._reached[moving]]
                self._reached[first], self._steps[first] = True, len(self._path)
            self._path.append(self.states.copy())

    def __len__(self) -> int:
        return len(self.states)

    def runs(self) -> ControlRuns:
        """What happened."""
        shape = (len(self._costs), len(self._evaluation))
        paths = np.stack(self._path, axis=1)
        category = self._task.category(self._path[0], self.states, self.goals)
        return ControlRuns(
            costs=tuple(self._costs),
            episodes=self._evaluation.episodes,
            success=self._reached.reshape(shape),
            steps=self._steps.reshape(shape),
            final_distance=self._final_distance().reshape(shape),
            category=np.where(self._reached, "success", category).reshape(shape),
            paths=paths.reshape(*shape, *paths.shape[1:]),
            goals=self._evaluation.goals,
        )

    def _final_distance(self) -> np.ndarray:
        known = self._task.offers("distance")
        return self._task.distance(self.states, self.goals) if known else np.full(len(self.states), np.nan)


class _Memory:
    """The past of each row that a planner may use: frames and blocks, and what its last plan left unexecuted."""

    def __init__(self, model: WorldModel, episodes: _Episodes, length: int) -> None:
        self._episodes, self._length = episodes, length
        self._history = history_of(model)
        self._executed = self._left = torch.empty(len(episodes), 0, model.action_dim, device=device_of(model))

    def context(self, rows: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """The last frames of some rows [N, T, D], and the blocks between them [N, T - 1, A], None if T is 1."""
        count = min(self._history, 1 + self._executed.shape[1])
        ago = [self._length * frame for frame in reversed(range(count))]
        context = torch.stack([self._episodes.latents(rows, actions) for actions in ago], dim=1)
        return context, self._executed[torch.from_numpy(rows), 1 - count :] if count > 1 else None

    def left(self, rows: np.ndarray) -> Tensor:
        """Blocks that the last plans of some rows left unexecuted [N, blocks, A]."""
        return self._left[torch.from_numpy(rows)]

    def keep(self, rows: np.ndarray, plan: Tensor, executed: int) -> None:
        """Remember the plans [N, H, A] of some rows."""
        whole = plan.new_zeros(len(self._episodes), *plan.shape[1:])
        whole[torch.from_numpy(rows)] = plan
        past = torch.cat([self._executed.to(plan), whole[:, :executed]], dim=1)
        recent = max(0, past.shape[1] + 1 - self._history)
        self._executed, self._left = past[:, recent:], whole[:, executed:]
