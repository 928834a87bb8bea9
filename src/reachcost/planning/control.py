"""The receding-horizon control loop: plan, execute, look again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from reachcost.costs import GroupedCost
from reachcost.errors import ReachcostError
from reachcost.evaluation import EvaluationSet
from reachcost.latents import require_finite
from reachcost.progress import Progress
from reachcost.protocols import Planner, Task, TerminalCost, WorldModel
from reachcost.seeding import EpisodeStreams
from reachcost.worldmodels.actions import ActionBlocks

Proposal = Callable[[np.ndarray, np.ndarray, EpisodeStreams], np.ndarray]
"""Candidates [B, iterations, K, H] to inject, from states [B, ...], goals [B, ...] and the episodes' streams."""


@dataclass(frozen=True)
class ControlRuns:
    """What happened in C costs x E episodes.

    Attributes:
        costs: Names of the costs.
        episodes: Numbers of the episodes in their evaluation set [E].
        success: Whether the goal was reached at any time, bool [C, E].
        steps: Actions until it was, or all that were executed, int [C, E].
        final_distance: Oracle distance of the last state to the goal [C, E].
        category: How the episode came out, str [C, E].
        paths: Visited states [C, E, budget + 1, ...]; where a task stops at success, the last state repeats.
    """

    costs: tuple[str, ...]
    episodes: np.ndarray
    success: np.ndarray
    steps: np.ndarray
    final_distance: np.ndarray
    category: np.ndarray
    paths: np.ndarray

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


@torch.no_grad()
def control(
    task: Task,
    model: WorldModel,
    costs: Mapping[str, TerminalCost],
    evaluation: EvaluationSet,
    planner: Planner,
    *,
    seed: int = 0,
    budget: int | None = None,
    proposal: Proposal | None = None,
    progress: Progress | None = None,
) -> ControlRuns:
    """Run every episode of the evaluation set under every cost, all of them in one batch.

    Random numbers belong to (seed, episode, replan): all costs of an episode meet the same ones, and no episode
    changes with the others in the batch.

    Args:
        task: Executes actions and measures distance.
        model: Frozen world model the planner uses; its `actions`, if it has any, turn blocks into actions of the task.
        costs: Terminal costs by name.
        evaluation: E start and goal states.
        planner: Chooses action sequences; the blocks it names by `executed` are executed, then it plans anew.
        seed: Seed of the planner.
        budget: Actions an episode may execute, instead of the task's own number.
        proposal: Candidates that every pool contains, if the protocol has any.
        progress: Where to show progress.
    """
    if not costs:
        raise ReachcostError("control needs at least one terminal cost: pass costs={name: cost}")
    if not len(evaluation):
        raise ReachcostError(f"evaluation set {evaluation.name!r} has no episodes: keep at least one")
    budget = task.action_budget if budget is None else budget
    shape = (len(costs), len(evaluation))
    cost_of = np.repeat(np.arange(len(costs)), len(evaluation))
    episode_of = np.tile(evaluation.episodes, len(costs))
    starts = np.concatenate([evaluation.starts] * len(costs))
    goals = np.concatenate([evaluation.goals] * len(costs))
    goal_latents = model.encode(task.observe(goals))
    require_finite(goal_latents, "the goal of episode", episode_of)

    states, path = starts.copy(), [starts]
    reached = np.array(task.success(states, goals))
    steps = np.where(reached, 0, budget)
    blocks: ActionBlocks | None = getattr(model, "actions", None)
    replans = range(0, budget, planner.executed * (blocks.length if blocks else 1))
    for replan, taken in enumerate((progress or Progress()).track(replans, "plans")):
        active = np.flatnonzero(~reached) if task.stops_at_success else np.arange(len(states))
        actions = np.empty((0, 0))
        if len(active):
            context = model.encode(task.observe(states[active]))[:, None]
            require_finite(context, "episode", episode_of[active])
            streams = EpisodeStreams(seed, "plan", episode_of[active], replan)
            groups = np.split(episode_of[active], np.cumsum(np.bincount(cost_of[active], minlength=len(costs)))[:-1])
            injected = proposal(states[active], goals[active], streams) if proposal else None
            plan = planner.plan(model, GroupedCost(costs, groups), context, goal_latents[active], streams, injected)
            actions = _environment_actions(plan[:, : planner.executed].numpy(), blocks)
        for taken_now in range(taken, min(taken + replans.step, budget)):
            moving = ~reached[active] if task.stops_at_success else np.ones(len(active), bool)
            rows = active[moving]
            if len(rows):
                states[rows] = task.step(states[rows], actions[moving, taken_now - taken])
                first = rows[task.success(states[rows], goals[rows]) & ~reached[rows]]
                reached[first], steps[first] = True, taken_now + 1
            path.append(states.copy())

    paths = np.stack(path, axis=1)
    category = np.where(reached, "success", task.category(starts, states, goals))
    return ControlRuns(
        costs=tuple(costs),
        episodes=evaluation.episodes,
        success=reached.reshape(shape),
        steps=steps.reshape(shape),
        final_distance=task.distance(states, goals).reshape(shape),
        category=category.reshape(shape),
        paths=paths.reshape(*shape, *paths.shape[1:]),
    )


def _environment_actions(plan: np.ndarray, blocks: ActionBlocks | None) -> np.ndarray:
    """Action blocks [N, K, A] as actions of the task [N, steps, a]."""
    if blocks is None:
        return plan
    actions = blocks.environment(plan)
    return actions.reshape(len(plan), -1, actions.shape[-1])
