"""Checks of terminal costs and of their values, and several costs over one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.devices import refuse_if
from reachcost.data.latents import model_identity
from reachcost.data.models import require_model
from reachcost.errors import ReachcostError, call_foreign, require_callable
from reachcost.protocols import TerminalCost, WorldModel


def require_one_model(costs: Mapping[str, TerminalCost], model: WorldModel) -> None:
    """Raise an error unless `costs` maps names to costs, with heads trained on latents of this world model."""
    if not isinstance(costs, Mapping):
        raise ReachcostError(f"costs is a {type(costs).__name__}: pass a mapping {{name: cost}}")
    require_model(model)
    here = model_identity(model)
    used = here["name"] if here else type(model).__name__
    for name, cost in costs.items():
        require_cost(cost, f"cost {name!r}")
        for head in getattr(cost, "heads", ()):
            if head.latent_dim != model.latent_dim:
                wrong = f"reads latents of dimension {head.latent_dim}, but {used} makes {model.latent_dim}"
                raise ReachcostError(f"the head of cost {name!r} {wrong}: fit a head on latents of this world model")
            trained_on = getattr(head, "record", {}).get("pairs", {}).get("model")
            if trained_on and here and trained_on["sha256"] != here["sha256"]:
                raise ReachcostError(
                    f"the head of cost {name!r} was trained on latents of {trained_on['name']} "
                    f"({trained_on['sha256'][:12]}), but the planner uses {used} ({here['sha256'][:12]}): fit a head "
                    "on latents of this world model, or set its `fingerprint` if it encodes as before"
                )


def require_cost(cost: object, what: str) -> None:
    """Raise an error for anything but a terminal cost."""
    if isinstance(cost, nn.Module):
        raise ReachcostError(f"{what} is a head: wrap it, HeadCost(head)")
    require_callable(cost, what, "give a terminal cost, such as rc.LatentMSE() or rc.HeadCost(head)")


def score(name: str, cost: TerminalCost, terminal: Tensor, goal: Tensor, episodes: np.ndarray) -> Tensor:
    """Apply a cost to B episodes; raise an error unless it returns finite costs [B, S] that do not mix episodes."""
    remedy = "map terminal [B, S, D] and goal [B, D] to costs [B, S]; goal[:, None] has an axis for the candidates"

    def call(ends: Tensor, goals: Tensor) -> Tensor:
        return call_foreign(lambda: cost(ends, goals), f"terminal cost {name!r} failed", remedy)

    costs = call(terminal, goal)
    if not isinstance(costs, Tensor) or costs.shape != terminal.shape[:2]:
        found = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ReachcostError(
            f"terminal cost {name!r} returned {found}: return a torch.Tensor [B, S] = {tuple(terminal.shape[:2])}"
        )

    def refusal() -> NoReturn:
        row, candidate = torch.argwhere(~torch.isfinite(costs))[0].tolist()
        raise ReachcostError(
            f"terminal cost {name!r} of candidate {candidate} in episode {episodes[row]} is "
            f"{costs[row, candidate].item()}: a cost must be finite to be ranked, check its head and latents"
        )

    def mixed() -> NoReturn:
        raise ReachcostError(f"terminal cost {name!r} of an episode changes with the other episodes: {remedy}")

    refuse_if(~torch.isfinite(costs).all(), refusal)
    if 1 < len(terminal) == terminal.shape[1]:  # the shape in which a goal without that axis raises no error
        change = (call(terminal[:1], goal[:1]).float() - costs[:1]).abs().max()
        refuse_if(change > 1e-3 * costs.float().abs().max(), mixed)
    return costs.float()


@dataclass(frozen=True)
class GroupedCost:
    """Several costs over one batch, each for a group of consecutive rows: episodes `episodes[k]` for the k-th cost."""

    costs: Mapping[str, TerminalCost]
    episodes: Sequence[np.ndarray]

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        sizes = [len(group) for group in self.episodes]
        groups = zip(self.costs.items(), terminal.split(sizes), goal.split(sizes), self.episodes, strict=True)
        return torch.cat([score(*named, end, target, group) for named, end, target, group in groups if len(group)])
