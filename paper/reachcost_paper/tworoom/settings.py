"""Settings of the TwoRoom runs: world models, evaluation sets, heads, candidates."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

from reachcost.costs.latent import HeadCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.study import CostPlan, HeadPlan, Member, PoolPlan, hybrid
from reachcost.heads.kinds import PairHead
from reachcost.heads.recipe import Recipe
from reachcost.planning.cem import CEM
from reachcost.protocols import WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.worldmodels.loading import load_world_model
from reachcost_paper.package_data import read_notes, read_paper
from reachcost_paper.worlds.layouts import TESTED

NOTES = read_notes("reachcost_paper.tworoom")
PAPER = read_paper("reachcost_paper.tworoom")
REPLANNING = CEM.replanning()
"""Compared with the paper's planner in tables of our labels."""
SEEDS = (3072, 3073, 3074)
KINDS = ("lewm", "pldm")
MEMBERS = {kind: tuple(Member(f"{kind}-tworoom-{seed}", seed, f"{kind}-{seed}") for seed in SEEDS) for kind in KINDS}
LEWM = MEMBERS["lewm"]


def _loader(name: str) -> Callable[[Task, bool], WorldModel]:
    return lambda task, clamp: load_world_model(name, clamp=clamp)


UNSEEN_MODEL = "lewm-layouts-3072"
"""Trained on many layouts, none of them tested."""
MODELS = {name: _loader(name) for name in (*(one.model for kind in KINDS for one in MEMBERS[kind]), UNSEEN_MODEL)}
LOGS = {"episodes": 10_000, "seed": 0}
SET = "high-distance"
NEAR_SET, FAR_SET = "distance-controlled", "distance-controlled-far"
FRESH_LOGS = {"fresh-1": 101, "fresh-2": 102, "fresh-3": 103}
"""Further high-distance sets, each from logs of another seed, which no model and no head was trained on."""
LAYOUTS = {name: TESTED[name] for name in ("door-88", "door-150", "horizontal-88")}
"""Layouts that no model or head of the public layout was trained on; each has a high-distance set."""


def _draw(name: str, layout: Layout | None, seed: int) -> tuple[Task, EvaluationSet]:
    world = TwoRoom(layout)
    return world, replace(world.sample_evaluation_set(SET, world.generate_logs(seed=seed), seed), name=name)


FOREIGN_SETS = {
    **{name: partial(_draw, name, None, seed) for name, seed in FRESH_LOGS.items()},
    **{name: partial(_draw, name, layout, 0) for name, layout in TESTED.items() if layout != Layout()},
}

OUR_HEAD = HeadPlan()
PAPER_HEAD = HeadPlan(Recipe.paper(), holdout=0.0)
ORACLE_HEAD = replace(PAPER_HEAD, labels="oracle")
LIMITED_HEAD = replace(ORACLE_HEAD, pairs=50_000, rows=25_000, coverage="limited")
RANDOM_ROWS = replace(PAPER_HEAD, sampling="random-rows")
ABLATION = {
    "random-5k-20k": replace(RANDOM_ROWS, rows=5_000, pairs=20_000),
    "random-10k-20k": replace(RANDOM_ROWS, rows=10_000, pairs=20_000),
    "random-20k-20k": replace(RANDOM_ROWS, rows=20_000, pairs=20_000),
    "random-20k-100k": replace(RANDOM_ROWS, rows=20_000),
    "random-100k-20k": replace(RANDOM_ROWS, rows=100_000, pairs=20_000),
    "random-100k-100k": replace(RANDOM_ROWS, rows=100_000),
    "balanced-20k": replace(PAPER_HEAD, pairs=20_000),
    "trm-paper": PAPER_HEAD,
    "gap50-20k": replace(PAPER_HEAD, pairs=20_000, max_gap=50),
    "trm-gap50": replace(PAPER_HEAD, max_gap=50),
}
"""Heads of the temporal ablation, in the order of the paper's table."""
LABELS = {
    "trm": OUR_HEAD,
    "trm-stitched": HeadPlan(labels="stitched"),
    "trm-imagined": HeadPlan(labels="imagined"),
    "trm-auto": HeadPlan(labels="auto"),
}
"""Our heads by the source of labels."""
KEPT_LOGS = {
    "limited": {"coverage": "limited"},
    "500": {"episodes": 500},
    "1000": {"episodes": 1000},
    "frames": {"coverage": "frames"},
}
"""Parts of the logs in the table `coverage-repair`."""
REPAIRED = {
    f"{name}-{part}": replace(plan, **kept)
    for part, kept in KEPT_LOGS.items()
    for name, plan in LABELS.items()
    if part != "frames" or plan.labels in ("imagined", "auto")
}
HEADS = {
    "trm": OUR_HEAD,
    "trm-auto": LABELS["trm-auto"],
    **REPAIRED,
    "trm-complete": replace(PAPER_HEAD, exclude=False),
    "shuffled": replace(PAPER_HEAD, shuffled="all"),
    "trm-shuffled": replace(OUR_HEAD, shuffled="all"),
    "linear": replace(ORACLE_HEAD, recipe=Recipe.paper(head="linear")),
    "mahalanobis": replace(ORACLE_HEAD, recipe=Recipe.paper(head="mahalanobis")),
    "geodesic-mlp": ORACLE_HEAD,
    "geodesic-ranking": replace(ORACLE_HEAD, recipe=Recipe.paper(loss="ranking")),
    "geodesic-limited": LIMITED_HEAD,
    "geodesic-balanced": replace(LIMITED_HEAD, coverage="balanced"),
    "geodesic-mixed": replace(LIMITED_HEAD, coverage="mixed"),
    "geodesic-random": replace(LIMITED_HEAD, coverage="random", rows=30_000, pairs=100_000),
    "trm-paper-limited": replace(PAPER_HEAD, coverage="limited"),
    **ABLATION,
}
"""Learned costs by name."""


def symmetrised(head: PairHead) -> PairHead:
    """Return a head of the same weights that averages both input orders."""
    head = copy.deepcopy(head)
    head.symmetric = True
    return head


COSTS = {
    "hybrid": hybrid("trm-paper"),
    "geodesic-hybrid": hybrid("geodesic-mlp"),
    "trm-symmetric": CostPlan(
        lambda experiment, model, heads: HeadCost(symmetrised(cast(PairHead, heads["trm-paper"]))), ("trm-paper",)
    ),
}
POOLS = PoolPlan(seed=lambda seed: 123)
