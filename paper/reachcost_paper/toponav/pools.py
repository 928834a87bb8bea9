"""Candidates of the paper's TopoNav runs: those added to every pool of the planner, and the pools of SASC."""

from dataclasses import dataclass

import numpy as np

from reachcost.core.seeding import EpisodeStreams, generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.tasks.toponav.task import BASE_SEED, MOVES, STAY, TopoNav

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
