"""Plans of our CEM against the `CEMSolver` of stable-worldmodel, and that solver with and without a repaired model.

Both sides encode the frames of start and goal, and search 300 candidates of 5 action blocks for 10 rounds. Weights,
frames and random numbers are the same, so that plans of our CEM and of `CEMSolver` agree.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import LatentMSE
from reachcost.data.latents import Latents
from reachcost.heads.recipe import Recipe
from reachcost.planning.cem import CEM
from reachcost.planning.logged_actions import LoggedActions
from reachcost.planning.planner import PlanContext
from reachcost.swm import RepairedModel
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.comparison import Entry, Side, Sides, in_threads
from reachcost_tools.bench.models import (
    Family,
    SolverStreams,
    compact,
    information,
    normalised,
    official,
    public_compact,
    public_model,
    random_frames,
    solve,
)

WITHIN = 1e-4
"""Maximum difference of two plans, in standard deviations of the logged actions."""
MANY = 10
"""Episodes that are planned for in one call."""
FEWER_ROUNDS = 2
"""Rounds of many plans of official size: ten would take minutes."""
LOGGED, TARGET = 3000, 0.020
"""Logged episodes that a plan begins with, and the seconds it may take."""
SEED = 0
FAMILIES: tuple[Family, ...] = ("LeWM", "PLDM")


def planning_entries() -> list[Entry]:
    """One and many episodes, official and compact size, one and two threads; planning inside stable-worldmodel."""
    first, third = (partial(official, PublicArchitecture(history=history)) for history in (1, 3))
    entries, fewer = [], CEM(iterations=FEWER_ROUNDS)
    for threads in (1, 2):
        suffix, says = in_threads(threads), f"our CEM against CEMSolver, {in_threads(threads)}"
        few = f"{says}, {FEWER_ROUNDS} rounds"
        plans: list[tuple[str, str, Callable[..., Sides], float | None, int]] = [
            ("plan official history 1", says, partial(against_lewm, first), 1.6, 3),
            ("plan official history 3", says, partial(against_lewm, third), 1.4, 3),
            ("plan compact", says, against_compact, 1.5, 15),
            (f"{MANY} plans official history 1", few, partial(against_lewm, first, fewer, MANY), None, 3),
            (f"{MANY} plans compact", says, partial(against_compact, CEM(), MANY), None, 5),
        ]
        for name, text, prepare, target, repeats in plans:
            prepare = partial(prepare, threads=threads)
            entries.append(Entry(f"{name}, {suffix}", text, prepare, "plan", target, repeats, "swm"))
    says = "our CEM with 2 threads against our CEM with 1, official size, history 1"
    scaling = _two_threads_against_one
    entries.append(Entry("plan official history 1, from 1 to 2 threads", says, scaling, "plan", 1.8))
    says = f"CEM.experienced(), a compact model and {LOGGED:,} logged episodes against {TARGET * 1000:.0f} ms, encoded"
    entries.append(Entry("plan compact from logs, 2 threads", says, _logged_start_against_target, "plan", 1.0, 15))
    for family in FAMILIES:
        name = f"inside CEMSolver, repaired {family} official history 1, 1 thread"
        says = f"CEMSolver with RepairedModel(model, head) against CEMSolver with the plain {family}"
        entries.append(Entry(name, says, partial(repaired_against_plain, family), "plan", 1.4, 3, "swm"))
    return entries


def _two_threads_against_one() -> Sides:
    model, planner = official(PublicArchitecture(history=1)), CEM()
    work = partial(our_plans, model, planner, random_frames(2, model.parts.pixels))
    return Sides(Side(work, threads=2), Side(work, threads=1), within=0.0)


def _logged_start_against_target() -> Sides:
    """Latents of logs are random, as speed does not depend on them."""
    planner, model = CEM.experienced(), compact()
    logs = make_task().generate_logs(LOGGED)
    known = LoggedActions(Latents(torch.randn(logs.rows, model.latent_dim), logs), model.actions)
    here, goal = model.encode({"pixels": random_frames(2, model.parts.pixels)}).chunk(2)

    def plan() -> Tensor:
        streams = EpisodeStreams(SEED, "plan", np.arange(1), 0)
        return planner.plan(PlanContext(model, LatentMSE(), here[:, None], goal, streams, logged=known))

    return Sides(Side(plan, threads=2), TARGET)


def against_lewm(
    make: Callable[[], JepaWorldModel], planner: CEM | None = None, episodes: int = 1, threads: int = 1
) -> Sides:
    """Plans with a model of official size and with their `LeWM` of the same weights."""
    planner, model = planner or CEM(), make()
    frames = random_frames(2 * episodes, model.parts.pixels)
    info = information(*normalised(frames).chunk(2))
    return _sides(model, planner, frames, partial(solve, public_model(model), info, planner, SEED), threads)


def against_compact(planner: CEM | None = None, episodes: int = 1, threads: int = 1) -> Sides:
    """Plans with the bundled compact model and with their `LeWM` around its parts."""
    planner, model = planner or CEM(), compact()
    frames = random_frames(2 * episodes, model.parts.pixels)
    info = information(*torch.from_numpy(frames).chunk(2))
    return _sides(model, planner, frames, partial(solve, public_compact(model), info, planner, SEED), threads)


def _sides(
    model: JepaWorldModel, planner: CEM, frames: np.ndarray, theirs: Callable[[], Tensor], threads: int
) -> Sides:
    amount = len(frames) // 2
    ours = Side(partial(our_plans, model, planner, frames), amount, threads)
    return Sides(ours, Side(theirs, amount, threads), within=WITHIN, counted=True)


def our_plans(model: JepaWorldModel, planner: CEM, frames: np.ndarray) -> Tensor:
    """Plans [E, H, A] of our CEM for frames of E starts, then E goals."""
    context, goal = model.encode({"pixels": frames}).chunk(2)
    streams = SolverStreams(SEED, len(goal), planner.iterations)
    return planner.plan(PlanContext(model, LatentMSE(), context[:, None], goal, streams))


def repaired_against_plain(
    family: Family, architecture: PublicArchitecture | None = None, planner: CEM | None = None, threads: int = 1
) -> Sides:
    """One plan of `CEMSolver` with a repaired and with a plain model of the same weights.

    The plain model scores candidates by latent distance, the repaired one by a head of the paper's size, so that their
    plans differ.
    """
    planner, model = planner or CEM(), official(architecture or PublicArchitecture(history=1))
    plain = public_model(model, family)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = Recipe.paper().build(model.latent_dim)
    info = information(*normalised(random_frames(2, model.parts.pixels)).chunk(2))
    ours, theirs = (partial(solve, cost, info, planner, SEED) for cost in (RepairedModel(plain, head), plain))
    return Sides(Side(ours, threads=threads), Side(theirs, threads=threads))
