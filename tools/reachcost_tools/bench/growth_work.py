"""The curves of `reachcost bench --growth`: plans, encoding, sampling of pairs and fitting.

Long logs hold one number per row, and their encoder is cheap: rendering and encoding ten million frames would take half
an hour and measure that encoder alone.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np
import torch
from torch import Tensor

from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.planning.planner import PlanContext
from reachcost.protocols import Observations
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_tools.bench.growth import Curve
from reachcost_tools.bench.models import BLOCKS, compact

FEW = CEM(iterations=2)
"""Planner of many plans: ten rounds would take minutes."""
LATENT_DIM, STEPS = 64, 50
PAIRS, ROWS = 100_000, 100_000
"""Number of each while the other grows."""
MANY = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000)
"""The most rows are 2.6 GB of latents, more than may be held in memory."""
TRAINED = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
EPOCH = Recipe(epochs=1)


def all_curves() -> list[Curve]:
    """Every curve, in the order of the record."""
    wave, rows, pairs = f"latents of {LATENT_DIM} numbers", f"{ROWS:,} log rows", f"{PAIRS:,} pairs"
    control_call = f"one call of control, one plan of {FEW.candidates} candidates x {FEW.iterations} rounds each"
    widths, sizes = "one plan, 300 candidates x 10 rounds x 5 blocks, random weights", (64, 128, 256, 512, 768)
    by_candidates, by_horizon = "one plan, 10 rounds x 5 blocks", "one plan, 300 candidates x 10 rounds"
    return [
        Curve("plan by candidates", by_candidates, "candidates", (30, 100, 300, 1000, 3000), _plan_by_candidates),
        Curve("plan by horizon", by_horizon, "action blocks", (1, 2, 5, 10, 20), _plan_by_horizon),
        Curve("control by episodes", control_call, "episodes", (1, 4, 20, 100, 400), _control_by_episodes),
        # layers are D x D, and their weights no longer fit into a cache
        Curve("plan by latent size", widths, "numbers in a latent", sizes, _plan_by_latent_size, most=2.0),
        Curve("drawing by pairs", f"TemporalPairs of {rows}, {wave}", "pairs", MANY, _sampling_by_pairs),
        Curve("fitting by pairs", f"an epoch of fit, {rows}, {wave}", "pairs", TRAINED, _fitting_by_pairs),
        Curve("encoding by log rows", f"encode_logs with a cheap encoder, {wave}", "log rows", MANY, _encoding_by_rows),
        Curve("drawing by log rows", f"TemporalPairs, {pairs}, {wave}", "log rows", MANY, _sampling_by_rows),
        Curve("fitting by log rows", f"an epoch of fit, {pairs}, {wave}", "log rows", MANY, _fitting_by_rows),
    ]


def _plan_by_candidates(size: int, _: Path) -> Callable[[], object]:
    return _plan(compact(), CEM(candidates=size, elites=size // 10))


def _plan_by_horizon(size: int, _: Path) -> Callable[[], object]:
    return _plan(compact(), CEM(horizon=size))


def _plan_by_latent_size(size: int, _: Path) -> Callable[[], object]:
    return _plan(JepaWorldModel(CompactParts(CompactArchitecture(latent_dim=size)), BLOCKS), CEM())


def _plan(model: JepaWorldModel, planner: CEM) -> Callable[[], object]:
    start, goal = torch.randn(2, 1, model.latent_dim, generator=torch.Generator().manual_seed(0))

    def work() -> object:
        streams = EpisodeStreams(0, "plan", [0], 0)
        return planner.plan(PlanContext(model, LatentMSE(), start[:, None], goal, streams))

    return work


def _control_by_episodes(size: int, _: Path) -> Callable[[], object]:
    """Starts and goals of the first world, repeated as needed; rendering, encoding and execution included."""
    task = make_task()
    known = task.evaluation_set(task.sets[0])
    starts, goals = (np.resize(states, (size, *states.shape[1:])) for states in (known.starts, known.goals))
    budget = FEW.horizon * BLOCKS.length
    return partial(control, task, compact(), {"raw": LatentMSE()}, EvaluationSet(starts, goals), FEW, budget=budget)


class _Waves:
    """A world model with a cheap encoder, in which nothing moves."""

    latent_dim, action_dim, fingerprint = LATENT_DIM, 2, "waves-1"

    def encode(self, observations: Observations) -> Tensor:
        return torch.sin(torch.from_numpy(observations["state"]) * torch.arange(1, LATENT_DIM + 1))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        return context[:, -1, None].expand(-1, actions.shape[1], -1)


def _sampling_by_pairs(size: int, directory: Path) -> Callable[[], object]:
    return partial(TemporalPairs, _encoded(ROWS, directory), size)


def _fitting_by_pairs(size: int, directory: Path) -> Callable[[], object]:
    return partial(fit, TemporalPairs(_encoded(ROWS, directory), size), EPOCH)


def _encoding_by_rows(size: int, directory: Path) -> Callable[[], object]:
    def work() -> object:
        rmtree(directory, ignore_errors=True)  # kept latents would be read instead
        return _encoded(size, directory)

    return work


def _sampling_by_rows(size: int, directory: Path) -> Callable[[], object]:
    return partial(TemporalPairs, _encoded(size, directory), PAIRS)


def _fitting_by_rows(size: int, directory: Path) -> Callable[[], object]:
    return partial(fit, TemporalPairs(_encoded(size, directory), PAIRS), EPOCH)


def _encoded(rows: int, directory: Path) -> Latents:
    """Latents of episodes that are all the same wave, kept in a directory."""
    wave = np.linspace(0, 1, STEPS, dtype=np.float32)
    logs = Logs({"state": np.resize(wave, (rows, 1))}, np.full(rows // STEPS, STEPS))
    return encode_logs(_Waves(), logs, cache=directory)
