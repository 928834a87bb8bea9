"""What the PushT runs are made of: world models, evaluation sets, heads, candidates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from reachcost.audits.sasc import gaussian_pools
from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.study import HeadPlan, Member, PoolPlan, hybrid
from reachcost.heads.recipe import Recipe
from reachcost.planning.cem import CEM
from reachcost.protocols import WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.pusht.task import PushT
from reachcost.worldmodels.loading import load_world_model

MODEL = "lewm-pusht-3072"
MEMBER = Member(MODEL, 3072, "lewm-3072")
SEEDS = (3072, 3073, 3074)
"""Of evaluation sets."""
SECOND_HEAD = 4072
"""Seed of the heads that show how much depends on theirs."""
LOGS = {"episodes": 8000, "seed": 0}
OFFSETS = (25, 50, 75)
FRESH, NEW = (5001, 5002, 5003), (7001, 7002, 7003)
"""Seeds of pairs that nothing was chosen on; the new ones were drawn when the others had been looked at."""
PLANNER = CEM(iterations=30, blocks=1)
WHOLE, BLOCK = "25 actions a plan", "5 actions a plan"
"""The two readings of the paper: the receding horizon of the public configuration, or what its PushT section says."""
READINGS = {WHOLE: {"planner": replace(PLANNER, blocks=None)}, BLOCK: {}}


def bundled(task: Task, clamp: bool) -> WorldModel:
    """The world model of all runs."""
    return load_world_model(MODEL, clamp=clamp)


def sets(offset: int, seeds: tuple[int, ...] = SEEDS) -> tuple[str, ...]:
    """The evaluation sets of a goal offset."""
    return tuple(f"offset-{offset}-{seed}" for seed in seeds)


def _drawn(name: str) -> tuple[Task, EvaluationSet]:
    task = PushT()
    return task, task.evaluation_set(name)


FOREIGN_SETS = {name: partial(_drawn, name) for offset in OFFSETS for name in sets(offset, (*SEEDS, *FRESH, *NEW))}
"""No log that a model or head learns from holds any of their episodes."""

TASK_STATE = HeadPlan(
    Recipe.paper(scale=100.0, epochs=20),
    labels="oracle",
    coverage="random",
    rows=50_000,
    pairs=200_000,
    holdout=0.0,
)
HEADS = {
    "task-state": TASK_STATE,
    "shuffled": replace(TASK_STATE, shuffled="train"),
    "trm-paper": HeadPlan(Recipe.paper(), holdout=0.0),
    "trm": HeadPlan(),
}


def weighted(name: str, weight: float) -> str:
    """What a hybrid is called: without a number if both of its costs weigh as much."""
    return name if weight == 1 else f"{name}-{weight}"


COSTS = {
    weighted(name, weight): hybrid(head, weight)
    for name, head in (("hybrid", "task-state"), ("shuffled-hybrid", "shuffled"))
    for weight in (0.25, 0.5, 0.75, 1.0)
} | {"trm-hybrid": hybrid("trm")}
POOLS = PoolPlan(
    draw=lambda task, model, goals, seed: gaussian_pools(goals, model.action_dim, candidates=96),
    seed=lambda seed: 123,
    candidates=96,
    horizon=5,
)
