"""Settings of the TopoNav runs, and how our recipe was chosen: by prediction error on held-out trajectories alone.

All heads are scored on the same balanced pairs, from trajectories that no head was trained on and between states that
no head saw as a pair.
"""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch

from reachcost.core.seeding import EpisodeStreams, generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.study import HeadPlan, Member, PoolPlan
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import PairSet
from reachcost.results.records import Columns, Run
from reachcost.tasks.contract import Task
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import BASE_SEED, MOVES, STAY, TopoNav
from reachcost_paper.rows import ScoredHead, recipe_table

SASC_CANDIDATES, SASC_HORIZON = 256, 12
ROUTES, REPLACEMENT = 12, 0.12  # number of proposed routes; share of random actions in all routes but the first


@dataclass(frozen=True)
class RouteProposal:
    """The paper's 13 extra candidates in every TopoNav pool: stay, the shortest route, 11 perturbed routes."""

    task: TopoNav
    iterations: int = 5  # planner iterations; each gets new perturbations
    horizon: int = 12  # actions per candidate

    def __call__(self, states: np.ndarray, goals: np.ndarray, streams: EpisodeStreams) -> np.ndarray:
        """Propose candidates [B, iterations, 13, horizon] for states [B, 2] and goals [B, 2]."""
        route = self.task.routes(states, goals, self.horizon).astype(np.uint8)
        pool = np.full((len(states), self.iterations, 1 + ROUTES, self.horizon), STAY, np.uint8)
        pool[:, :, 1:] = route[:, None, None]
        perturbed = pool[:, :, 2:]
        # One sample decides both whether an action is replaced (below `REPLACEMENT`) and by which of the five.
        samples = streams.uniform16(*perturbed.shape[1:]) / (REPLACEMENT * 65536)
        replace = samples < 1
        perturbed[replace] = (samples[replace] * len(MOVES)).astype(np.uint8)
        return pool


def sasc_seed(head_seed: int) -> int:
    """The paper's candidate seed for a head seed."""
    return BASE_SEED + 31 * head_seed + 3


def sasc_pool(task: TopoNav, evaluation: EvaluationSet, head_seed: int) -> np.ndarray:
    """The paper's TopoNav pool for SASC: stay, the shortest route, 254 uniform sequences: [E, 256, 12, 1]."""
    seed, shape = sasc_seed(head_seed), (SASC_CANDIDATES, SASC_HORIZON)
    pool = np.stack([generator(seed, "sasc-pool", e).integers(len(MOVES), size=shape) for e in evaluation.episodes])
    pool[:, 0] = STAY
    pool[:, 1] = task.routes(evaluation.starts, evaluation.goals, SASC_HORIZON)
    return pool[..., None]


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


def plans() -> dict[str, HeadPlan]:
    paper = replace(PAPER_HEAD, holdout=OUR_HEAD.holdout)
    balanced = replace(paper, sampling="balanced")
    one_cycle = {
        f"one-cycle-{rate:g}": replace(OUR_HEAD, recipe=replace(OUR_HEAD.recipe, learning_rate=rate))
        for rate in (3e-3, 1e-2, 2e-2, 4e-2, 8e-2)
    }
    symmetric = replace(balanced, recipe=replace(balanced.recipe, symmetric=True))
    return {"paper": paper, "balanced": balanced, "symmetric": symmetric, **one_cycle}


def compared(experiment: Experiment) -> Experiment:
    return experiment.variant(name="toponav-recipes", heads=plans())


@dataclass(frozen=True)
class PredictionErrorRun(ScoredHead):
    """The error of a head on pairs that no head was trained on; rows are episodes."""

    def name(self, recording: Experiment) -> str:
        return f"{self.member.label}-{self.plan}"

    @torch.no_grad()
    def score(self, recording: Experiment, head: LearnedHead) -> Columns:
        """Squared errors, summed over the pairs of each episode."""
        latents, pairs = recording.latents(KIND).values, recording.once(unseen_pairs)
        error = (head(latents[pairs.first], latents[pairs.second]) - pairs.gap).double().square().numpy()
        episodes, place = np.unique(recording.logs.episode_of(pairs.first.numpy()), return_inverse=True)
        return {"episode": episodes, "pairs": np.bincount(place), "squared_error": np.bincount(place, weights=error)}

    def metrics(self, run: Run) -> tuple[int, dict[str, np.ndarray]]:
        table = run.table()
        count = sum(table["pairs"].to_pylist())
        return count, {"validation_rmse": np.sqrt([sum(table["squared_error"].to_pylist()) / count])}


def unseen_pairs(experiment: Experiment) -> PairSet:
    """The validation pairs whose two states are not a training pair of any recipe, in either order."""
    member = MEMBERS[KIND][0]
    ours, paper = (experiment.pairs(member, plan, member.seed) for plan in (OUR_HEAD, plans()["paper"]))
    validation, seen = ours.validation, np.zeros(len(ours.validation), bool)
    states = experiment.logs.columns["state"]
    for pairs in (ours, paper):
        first, second = (states[rows.numpy()] for rows in (pairs.train.first, pairs.train.second))
        trained = EvaluationSet(first, second, "training pairs", pairs.record["seed"])
        seen |= Exclusion(experiment.logs, [trained]).bans(validation.first.numpy(), validation.second.numpy())
    return PairSet(*(column[~seen] for column in (validation.first, validation.second, validation.gap)))


RUNS = [PredictionErrorRun(plan, member, member.seed) for plan in plans() for member in MEMBERS[KIND]]
ROWS = recipe_table(compared, RUNS)
