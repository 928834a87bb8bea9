"""Settings of the TopoNav runs: one exact world model, three seeds of heads, shared candidates."""

from dataclasses import replace
from typing import cast

from reachcost.experiments.study import HeadPlan, Member, PoolPlan
from reachcost.heads.recipe import Recipe
from reachcost.tasks.contract import Task
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import BASE_SEED, SASC_CANDIDATES, SASC_HORIZON, TopoNav, sasc_pool, sasc_seed

SEEDS = (3072, 3073, 3074)
KIND = "toponav-exact"
MEMBERS = {KIND: tuple(Member(KIND, seed, f"exact-{seed}") for seed in SEEDS)}
LOGS = {"episodes": 2500, "seed": BASE_SEED}
PAPER_HEAD = HeadPlan(
    Recipe.paper(hidden=128, scale=29.0, epochs=24),
    pairs=60_000,
    validation=12_000,
    sampling="mostly-endpoints",
    holdout=0.0,
)
SHUFFLED_HEAD = replace(PAPER_HEAD, shuffled="all")
ONE_CYCLE = {"epochs": 4, "batch_size": 256, "learning_rate": 4e-2, "schedule": "one-cycle"}
OUR_HEAD = HeadPlan(
    Recipe.paper(hidden=128, scale=29.0, symmetric=True, **ONE_CYCLE),
    pairs=60_000,
    validation=12_000,
)
HEADS = {
    "trm-paper": PAPER_HEAD,
    "shuffled": SHUFFLED_HEAD,
    "trm": OUR_HEAD,
    "trm-printed": replace(PAPER_HEAD, recipe=replace(PAPER_HEAD.recipe, scale=224.0)),
    "trm-printed-256": replace(PAPER_HEAD, recipe=replace(PAPER_HEAD.recipe, scale=224.0, batch_size=256)),
    "shuffled-train": replace(SHUFFLED_HEAD, shuffled="train"),
}
POOLS = PoolPlan(
    draw=lambda task, goals, seed: sasc_pool(cast(TopoNav, task), goals, seed),
    seed=sasc_seed,
    candidates=SASC_CANDIDATES,
    horizon=SASC_HORIZON,
)


def exact(task: Task, clamp: bool) -> ExactTopoNav:
    """The frozen world model; `clamp` has no effect."""
    return ExactTopoNav(cast(TopoNav, task))
