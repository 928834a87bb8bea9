"""Plans with the compact model, by everything that makes them larger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.planning.planner import PlanContext
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_tools.bench.growth.curve import Curve
from reachcost_tools.bench.models import BLOCKS, compact

FEW = CEM(iterations=2)
"""Rounds of many plans: ten would take minutes."""


def plan_curves() -> list[Curve]:
    """Candidates, horizon, latent size; and episodes of one call of `control`."""
    return [
        Curve(
            "plan by candidates",
            "one plan, 10 rounds x 5 blocks",
            "candidates",
            (30, 100, 300, 1000, 3000),
            by_candidates,
        ),
        Curve(
            "plan by horizon", "one plan, 300 candidates x 10 rounds", "action blocks", (1, 2, 5, 10, 20), by_horizon
        ),
        Curve(
            "control by episodes",
            f"one call of control, one plan of {FEW.candidates} candidates x {FEW.iterations} rounds each",
            "episodes",
            (1, 4, 20, 100, 400),
            by_episodes,
        ),
        Curve(
            "plan by latent size",
            "one plan, 300 candidates x 10 rounds x 5 blocks, random weights",
            "numbers in a latent",
            (64, 128, 256, 512, 768),
            by_latent_size,
            most=2.0,  # layers of D x D, and weights that no longer fit into a cache
        ),
    ]


def by_candidates(size: int, _: Path) -> Callable[[], object]:
    """A tenth of them are elites."""
    return _plan(compact(), CEM(candidates=size, elites=size // 10))


def by_horizon(size: int, _: Path) -> Callable[[], object]:
    """So many action blocks."""
    return _plan(compact(), CEM(horizon=size))


def by_latent_size(size: int, _: Path) -> Callable[[], object]:
    """A compact model whose other widths stay."""
    return _plan(JepaWorldModel(CompactParts(CompactArchitecture(latent_dim=size)), BLOCKS), CEM())


def _plan(model: JepaWorldModel, planner: CEM) -> Callable[[], object]:
    start, goal = torch.randn(2, 1, model.latent_dim, generator=torch.Generator().manual_seed(0))

    def work() -> object:
        streams = EpisodeStreams(0, "plan", [0], 0)
        return planner.plan(PlanContext(model, LatentMSE(), start[:, None], goal, streams))

    return work


def by_episodes(size: int, _: Path) -> Callable[[], object]:
    """Starts and goals of the first world, as often as needed; frames are drawn and encoded, actions executed."""
    task = make_task()
    known = task.evaluation_set(task.sets[0])
    starts, goals = (np.resize(states, (size, *states.shape[1:])) for states in (known.starts, known.goals))
    budget = FEW.horizon * BLOCKS.length
    return partial(control, task, compact(), {"raw": LatentMSE()}, EvaluationSet(starts, goals), FEW, budget=budget)
