"""Plans of our CEM against the `CEMSolver` of stable-worldmodel: the same weights, frames and random numbers.

Both encode the frames of start and goal and search 300 candidates of 5 action blocks for 10 rounds; their plans agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import LatentMSE
from reachcost.data.latents import Latents
from reachcost.planning.cem import CEM
from reachcost.planning.logged_actions import LoggedActions
from reachcost.planning.planner import PlanContext
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.entry import Entry, Side, Sides, in_threads
from reachcost_tools.bench.models import compact, official, random_frames
from reachcost_tools.bench.peers import SolverStreams, information, normalised, public_compact, public_model, solve

WITHIN = 1e-4
"""Largest difference of two plans, in standard deviations of the logged actions."""
MANY = 10
"""Episodes that are planned for in one call."""
FEWER_ROUNDS = 2
"""Rounds of many plans of official size: ten would take minutes."""
LOGGED, PROMISED = 3000, 0.020
"""Episodes that a plan begins with, and the seconds it may take."""
SEED = 0


def plan_entries() -> list[Entry]:
    """One and many episodes, official size and compact, with one and two threads; and how one plan uses two threads."""
    entries = []
    for threads in (1, 2):
        for history, target in ((1, 1.6), (3, 1.4)):
            name, model = f"plan official history {history}", partial(official, PublicArchitecture(history=history))
            entries.append(_plan(name, partial(against_lewm, model, threads=threads), threads, target))
        entries.append(_plan("plan compact", partial(against_compact, threads=threads), threads, 1.5, repeats=15))
        fewer = CEM(iterations=FEWER_ROUNDS)
        many = partial(against_lewm, partial(official, PublicArchitecture(history=1)), fewer, MANY, threads)
        entries.append(_plan(f"{MANY} plans official history 1", many, threads, rounds=FEWER_ROUNDS))
        many = partial(against_compact, CEM(), MANY, threads)
        entries.append(_plan(f"{MANY} plans compact", many, threads, repeats=5))
    return [*entries, scaling(), from_logs()]


def _plan(
    name: str,
    prepare: Callable[[], Sides],
    threads: int,
    target: float | None = None,
    repeats: int = 3,
    rounds: int | None = None,
) -> Entry:
    says = f"our CEM against CEMSolver, {in_threads(threads)}{f', {rounds} rounds' if rounds else ''}"
    return Entry(f"{name}, {in_threads(threads)}", says, prepare, "plan", target, repeats, "swm")


def scaling() -> Entry:
    """One plan with two threads against the same with one."""

    def prepare() -> Sides:
        model, planner = official(PublicArchitecture(history=1)), CEM()
        frames, work = random_frames(2, model.parts.pixels), partial(our_plans, model, planner)
        return Sides(Side(partial(work, frames), threads=2), Side(partial(work, frames), threads=1), within=0.0)

    says = "our CEM with 2 threads against our CEM with 1, official size, history 1"
    return Entry("plan official history 1, from 1 to 2 threads", says, prepare, "plan", target=1.8)


def from_logs() -> Entry:
    """A plan that begins with logs, from encoded frames, against the promise of how long a robot waits for it."""
    wait = f"{PROMISED * 1000:.0f} ms, encoding apart"
    says = f"CEM.experienced() with a compact model and {LOGGED:,} logged episodes against {wait}"
    return Entry("plan compact from logs, 2 threads", says, against_wait, "plan", target=1.0, repeats=15)


def against_wait(planner: CEM | None = None, episodes: int = LOGGED, threads: int = 2) -> Sides:
    """How fast it is does not depend on the latents of logs, which are random here."""
    planner, model = planner or CEM.experienced(), compact()
    logs = make_task().generate_logs(episodes)
    known = LoggedActions(Latents(torch.randn(logs.rows, model.latent_dim), logs), model.actions)
    here, goal = model.encode({"pixels": random_frames(2, model.parts.pixels)}).chunk(2)

    def plan() -> Tensor:
        streams = EpisodeStreams(SEED, "plan", np.arange(1), 0)
        return planner.plan(PlanContext(model, LatentMSE(), here[:, None], goal, streams, logged=known))

    return Sides(Side(plan, threads=threads), PROMISED)


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
    """What our CEM chooses, from frames of E starts, then E goals -> plans [E, H, A]."""
    context, goal = model.encode({"pixels": frames}).chunk(2)
    streams = SolverStreams(SEED, len(goal), planner.iterations)
    return planner.plan(PlanContext(model, LatentMSE(), context[:, None], goal, streams))
