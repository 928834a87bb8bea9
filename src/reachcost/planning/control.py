"""The receding-horizon control loop: plan, execute, look again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import device_of
from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import EpisodeStreams
from reachcost.core.types import require_type
from reachcost.costs.checks import require_one_model
from reachcost.costs.grouped import GroupedCost
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet, require_one_world, require_set
from reachcost.data.latents import Latents, require_finite, require_latents_of
from reachcost.data.rollouts import encoded, history_of
from reachcost.errors import ReachcostError
from reachcost.planning.actions import require_actions, require_planner, some_action
from reachcost.planning.default import default_planner
from reachcost.planning.logged_actions import LoggedActions
from reachcost.planning.planner import PlanContext, Planner, Watch, require_logged
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.trial import stepped, try_task

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
        self.goal_latents = encoded(model, task.observe(self.goals), len(self.goals))
        require_finite(self.goal_latents, "the goal of episode", self.number)
        self._reached = np.array(task.success(self.states, self.goals))
        self._steps = np.where(self._reached, 0, budget)
        self._path = [self.states.copy()]

    def active(self) -> np.ndarray:
        """Rows that still act."""
        return np.flatnonzero(~self._reached | (not self._task.stops_at_success))

    def latents(self, rows: np.ndarray, ago: int = 0) -> Tensor:
        """What the model makes of the states that some rows had so many actions ago [N, D]."""
        latents = encoded(self._model, self._task.observe(self._path[-1 - ago][rows]), len(rows))
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
