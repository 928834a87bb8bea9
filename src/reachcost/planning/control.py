"""The receding-horizon control loop: plan, execute the first action, look again."""

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

Proposal = Callable[[np.ndarray, np.ndarray, EpisodeStreams], np.ndarray]
"""Candidates [B, iterations, K, H] to inject, from states [B, ...], goals [B, ...] and the episodes' streams."""


@dataclass(frozen=True)
class ControlRuns:
    """What happened in C costs x E episodes.

    Attributes:
        costs: Names of the costs.
        episodes: Numbers of the episodes in their evaluation set [E].
        success: Whether the goal was reached, bool [C, E].
        steps: Executed actions, int [C, E].
        final_distance: Oracle distance of the last state to the goal [C, E].
        category: How the episode came out, str [C, E].
        paths: Visited states [C, E, budget + 1, ...]; after the end the last state repeats.
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
    proposal: Proposal | None = None,
    progress: Progress | None = None,
) -> ControlRuns:
    """Run every episode of the evaluation set under every cost, all of them in one batch.

    Random numbers belong to (seed, episode, replan): all costs of an episode meet the same ones, and no episode
    changes with the others in the batch.

    Args:
        task: Executes actions and measures distance.
        model: Frozen world model the planner uses.
        costs: Terminal costs by name.
        evaluation: E start and goal states.
        planner: Chooses action sequences; the first action is executed.
        seed: Seed of the planner.
        proposal: Candidates that every pool contains, if the protocol has any.
        progress: Where to show progress.
    """
    if not costs:
        raise ReachcostError("control needs at least one terminal cost: pass costs={name: cost}")
    if not len(evaluation):
        raise ReachcostError(f"evaluation set {evaluation.name!r} has no episodes: keep at least one")
    shape = (len(costs), len(evaluation))
    cost_of = np.repeat(np.arange(len(costs)), len(evaluation))
    episode_of = np.tile(evaluation.episodes, len(costs))
    states = np.concatenate([evaluation.starts] * len(costs))
    goals = np.concatenate([evaluation.goals] * len(costs))
    goal_latents = model.encode(task.observe(goals))
    require_finite(goal_latents, "the goal of episode", episode_of)

    done = task.success(states, goals)
    steps = np.zeros(len(states), np.int64)
    path = [states.copy()]
    for replan in (progress or Progress()).track(range(task.action_budget), "actions"):
        active = np.flatnonzero(~done)
        if len(active):
            context = model.encode(task.observe(states[active]))[:, None]
            require_finite(context, "episode", episode_of[active])
            streams = EpisodeStreams(seed, "plan", episode_of[active], replan)
            groups = np.split(episode_of[active], np.cumsum(np.bincount(cost_of[active], minlength=len(costs)))[:-1])
            grouped = GroupedCost(costs, groups)
            injected = proposal(states[active], goals[active], streams) if proposal else None
            plan = planner.plan(model, grouped, context, goal_latents[active], streams, injected)
            states[active] = task.step(states[active], plan[:, 0].numpy())
            steps[active] += 1
            done[active] = task.success(states[active], goals[active])
        path.append(states.copy())

    paths = np.stack(path, axis=1)
    return ControlRuns(
        costs=tuple(costs),
        episodes=evaluation.episodes,
        success=done.reshape(shape),
        steps=steps.reshape(shape),
        final_distance=task.distance(states, goals).reshape(shape),
        category=task.category(path[0], states, goals).reshape(shape),
        paths=paths.reshape(*shape, *paths.shape[1:]),
    )
