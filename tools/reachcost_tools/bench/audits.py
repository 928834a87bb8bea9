"""SASC of ten costs in one call against one cost at a time: pools are drawn, rolled out and executed once for all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.sasc import sasc
from reachcost.costs.latent import DecodedDistance, HeadCost, HybridCost, LatentMSE, StandardisedL2, SubspaceCost
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.probe import fit_probe
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import TerminalCost
from reachcost.tasks.contract import Task
from reachcost.tasks.registry import make_task
from reachcost_tools.bench.entry import Entry, Side, Sides
from reachcost_tools.bench.models import compact


def audit_entries() -> list[Entry]:
    """One line."""
    says = "SASC of ten costs in one call against ten calls, 100 episodes of 300 candidates, 2 threads"
    return [Entry("SASC of ten costs", says, together_against_apart, "audit", target=8.0)]


def together_against_apart(
    episodes: int = 100, log_episodes: int = 500, pairs: int = 20_000, threads: int = 2
) -> Sides:
    """Both score the same pools; not a bit of their scores differs."""
    task, model = make_task(), compact()
    evaluation = task.evaluation_set(task.sets[0]).spread(episodes)
    costs = ten_costs(task, encode_logs(model, task.generate_logs(log_episodes), cache=False), pairs)

    def scored(costs: Mapping[str, TerminalCost]) -> list[Tensor]:
        return [torch.from_numpy(found) for found in sasc(task, model, costs, evaluation).scores.values()]

    def apart() -> Tensor:
        return torch.stack([found for name, cost in costs.items() for found in scored({name: cost})])

    ours = Side(lambda: torch.stack(scored(costs)), threads=threads)
    return Sides(ours, Side(apart, threads=threads), within=0.0)


def ten_costs(task: Task, latents: Latents, count: int) -> dict[str, TerminalCost]:
    """What the paper's audits compare, with heads that were trained briefly."""
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
