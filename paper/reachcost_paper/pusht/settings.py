"""Settings of the PushT runs: world model, evaluation sets, heads, candidates."""

from dataclasses import replace
from functools import partial

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
"""Seeds of evaluation sets."""
SECOND_HEAD = 4072
"""Another seed of heads."""
LOGS = {"episodes": 8000, "seed": 0}
OFFSETS = (25, 50, 75)
FRESH, NEW = (5001, 5002, 5003), (7001, 7002, 7003)
"""Seeds of pairs that no setting was chosen on; the new pairs were sampled after the fresh pairs had been inspected."""
PLANNER = CEM(iterations=30, blocks=1)
FULL, BLOCK = "25 actions a plan", "5 actions a plan"
"""The two readings of the paper: the receding horizon of the public configuration, or the text of its PushT section."""
READINGS = {FULL: {"planner": replace(PLANNER, blocks=None)}, BLOCK: {}}


def load_model(task: Task, clamp: bool) -> WorldModel:
    return load_world_model(MODEL, clamp=clamp)


def sets(offset: int, seeds: tuple[int, ...] = SEEDS) -> tuple[str, ...]:
    return tuple(f"offset-{offset}-{seed}" for seed in seeds)


def _draw(name: str) -> tuple[Task, EvaluationSet]:
    task = PushT()
    return task, task.evaluation_set(name)


FOREIGN_SETS = {name: partial(_draw, name) for offset in OFFSETS for name in sets(offset, (*SEEDS, *FRESH, *NEW))}
"""Their episodes are in no log that a model or head learns from."""

ORACLE_PAIRS = {"labels": "oracle", "coverage": "random", "rows": 50_000, "pairs": 200_000}
TASK_STATE = HeadPlan(Recipe.paper(scale=100.0, epochs=20), **ORACLE_PAIRS, holdout=0.0)
HEADS = {
    "task-state": TASK_STATE,
    "shuffled": replace(TASK_STATE, shuffled="train"),
    "trm-paper": HeadPlan(Recipe.paper(), holdout=0.0),
    "trm": HeadPlan(),
}


def weighted(name: str, weight: float) -> str:
    """Name of a hybrid; weight 1 has no number."""
    return name if weight == 1 else f"{name}-{weight}"


COSTS = {
    weighted(name, weight): hybrid(head, weight)
    for name, head in (("hybrid", "task-state"), ("shuffled-hybrid", "shuffled"))
    for weight in (0.25, 0.5, 0.75, 1.0)
} | {"trm-hybrid": hybrid("trm")}
POOLS = PoolPlan(candidates=96, seed=lambda seed: 123)
