"""Audits, head fitting, encoding and SIGReg, each compared with another implementation."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

from reachcost.audits.sasc import sasc
from reachcost.costs.latent import DecodedDistance, HeadCost, HybridCost, LatentMSE, StandardisedL2, SubspaceCost
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.probe import fit_probe
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import TerminalCost
from reachcost.swm.evaluation import import_stable_worldmodel
from reachcost.tasks.contract import Task
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.objectives import sigreg
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.comparison import Entry, Side, Sides, in_threads
from reachcost_tools.bench.models import compact, normalised, official, public_model, random_frames

PAIRS, LATENT_DIM, STEPS = 100_000, 192, 100
RECIPE = Recipe.paper(epochs=1)
CACHE_ROWS, CACHE_SECONDS = 632_749, 120.0
"""Frames of the public cache, and the time in which the compact model is to encode them on two cores."""
FRAMES = 32
WITHIN = 1e-4
"""Maximum difference of two latents, whose numbers are about 1."""


def learning_entries() -> list[Entry]:
    """Comparisons of audits, fitting and encoding."""
    audit = "SASC of ten costs in one call against ten calls, 100 episodes of 300 candidates, 2 threads"
    epoch = f"an epoch of fit, validation included, against a DataLoader loop, {PAIRS:,} pairs, the paper's recipe"
    encoder = f"our encoder against ViTModel of transformers, {FRAMES} frames of 224 px"
    cache = f"rendering and encoding logs, 64 px, against {CACHE_ROWS:,} frames in {CACHE_SECONDS:.0f} s"
    projections = "SIGReg of 4 x 128 latents, forward and backward, against that of stable-worldmodel"
    transformers = [
        (f"encoding official, {in_threads(threads)}", partial(encoding_against_transformers, threads=threads))
        for threads in (1, 2)
    ]
    return [
        Entry("SASC of ten costs", audit, together_against_apart, "audit", target=8.0),
        Entry("head fitting, 1 thread", epoch, fitting_against_loader, "epoch", target=5.0),
        *(Entry(name, encoder, prepare, "frame", repeats=5, against="swm") for name, prepare in transformers),
        Entry("encoding compact, 2 threads", cache, encoding_against_target, "frame", target=1.0),
        Entry("SIGReg, 1 thread", projections, against_public_sigreg, "pass", repeats=15, against="swm"),
    ]


def together_against_apart(
    episodes: int = 100, log_episodes: int = 500, pairs: int = 20_000, threads: int = 2
) -> Sides:
    """SASC of ten costs in one call, and of one cost at a time; their scores of the same pools are equal."""
    task, model = make_task(), compact()
    evaluation = task.evaluation_set(task.sets[0]).spread(episodes)
    costs = _ten_costs(task, encode_logs(model, task.generate_logs(log_episodes), cache=False), pairs)

    def scored(costs: Mapping[str, TerminalCost]) -> list[Tensor]:
        return [torch.from_numpy(found) for found in sasc(task, model, costs, evaluation).scores.values()]

    def apart() -> Tensor:
        return torch.stack([found for name, cost in costs.items() for found in scored({name: cost})])

    ours = Side(lambda: torch.stack(scored(costs)), threads=threads)
    return Sides(ours, Side(apart, threads=threads), within=0.0)


def _ten_costs(task: Task, latents: Latents, count: int) -> dict[str, TerminalCost]:
    """The costs of the paper's audits, with heads that were trained briefly."""
    probe = fit_probe(latents.values, np.asarray(latents.logs.columns["state"]))
    pairs = TemporalPairs(latents, count, validation=count // 2)
    ours, paper = (HeadCost(fit(pairs, recipe)) for recipe in (Recipe(epochs=1), Recipe.paper(epochs=1, scale=50.0)))
    return {
        "raw": LatentMSE(),
        "standardized-l2": StandardisedL2.of(latents.values),
        "decoded-xy": DecodedDistance(probe),
        "decoded-geodesic": DecodedDistance(probe, task.distance),
        "rowspace": SubspaceCost(probe),
        "residual": SubspaceCost(probe, residual=True),
        "trm": ours,
        "trm-paper": paper,
        "hybrid": HybridCost(LatentMSE(), paper),
        "our hybrid": HybridCost(LatentMSE(), ours),
    }


def fitting_against_loader(count: int = PAIRS, episodes: int = 500) -> Sides:
    """An epoch on pairs of random walks in latent space, and the same with a `DataLoader`: head, loss, optimiser."""
    random = torch.Generator().manual_seed(0)
    walks = torch.randn(episodes, STEPS, LATENT_DIM, generator=random).cumsum(1) / STEPS**0.5
    empty = np.zeros((episodes * STEPS, 2), np.float32)
    logs = Logs({"state": empty, "action": empty}, np.full(episodes, STEPS))
    pairs = TemporalPairs(Latents(walks.flatten(0, 1), logs), count)
    ours = Side(partial(fit, pairs, RECIPE))
    return Sides(ours, Side(partial(_loader_epoch, _PairDataset(pairs.latents, pairs.train))), counted=True)


class _PairDataset(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Two latents [D], [D] and their gap [] at a time."""

    def __init__(self, latents: Tensor, pairs: PairSet) -> None:
        self.latents, self.pairs = latents, pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        first, second = self.pairs.first[number], self.pairs.second[number]
        return self.latents[first], self.latents[second], self.pairs.gap[number]


def _loader_epoch(dataset: _PairDataset) -> None:
    head = RECIPE.build(dataset.latents.shape[1])
    optimiser = AdamW(head.parameters(), lr=RECIPE.learning_rate, weight_decay=RECIPE.weight_decay)
    for first, second, gap in DataLoader(dataset, batch_size=RECIPE.batch_size, shuffle=True):
        loss = functional.smooth_l1_loss(head.scaled(first, second), gap / head.scale)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def encoding_against_target(episodes: int = 500, threads: int = 2) -> Sides:
    """Logs of the first world through the bundled model, frames included."""
    logs, model = make_task().generate_logs(episodes), compact()
    ours = Side(lambda: encode_logs(model, logs, cache=False).values, logs.rows, threads)
    return Sides(ours, CACHE_SECONDS / CACHE_ROWS, counted=True)


def encoding_against_transformers(
    architecture: PublicArchitecture | None = None, count: int = FRAMES, threads: int = 1
) -> Sides:
    """Frames uint8 to latents on both sides, with the same weights."""
    model = official(architecture or PublicArchitecture(history=1))
    frames, theirs = random_frames(count, model.parts.pixels), public_model(model)
    ours = Side(lambda: model.encode({"pixels": frames}), count, threads)
    return Sides(ours, Side(partial(_public_latents, theirs, frames), count, threads), WITHIN, counted=True)


@torch.inference_mode()
def _public_latents(model: Any, frames: np.ndarray) -> Tensor:
    """Frames uint8 [N, height, width, 3] -> latents [N, D] of a model of stable-worldmodel."""
    return model.encode({"pixels": normalised(frames)[:, None]})["emb"][:, 0]


def against_public_sigreg(batch: int = 128) -> Sides:
    """Both project to the same number of random directions, which the public one redraws."""
    import_stable_worldmodel()
    from stable_worldmodel.wm.loss import SIGReg

    latents = torch.randn(4, batch, 192, requires_grad=True)
    directions, public = functional.normalize(torch.randn(192, 512), dim=0), SIGReg(knots=17, num_proj=512)

    def ours() -> tuple[Tensor, ...]:
        return torch.autograd.grad(sigreg(latents, directions), latents)

    return Sides(Side(ours), Side(lambda: torch.autograd.grad(public(latents), latents)))
