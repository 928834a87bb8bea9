"""Terminal costs on latents: distance, a head, their sum, and distances through a linear probe.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch
from torch import Tensor, nn

from reachcost.core.devices import DeviceCopies, move_to_device
from reachcost.core.parallel import join_pools, parallel_map, split_pools
from reachcost.costs.checks import require_cost
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError, require_numbers, require_type
from reachcost.protocols import Head, TerminalCost
from reachcost.tasks.contract import Distance, Task

RAW, ORACLE = "raw", "oracle"  # names of latent distance and of the true distance in audits and reports


@dataclass(frozen=True)
class LatentMSE:
    """Mean squared latent distance to the goal, the default terminal cost.

    >>> import torch
    >>> LatentMSE()(torch.ones(1, 2, 3), torch.zeros(1, 3))
    tensor([[1., 1.]])
    """

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        if terminal.shape[-1] != goal.shape[-1] or not terminal.is_floating_point():
            wrong = f"{terminal.dtype} [{terminal.shape[-1]}] with [{goal.shape[-1]}]"
            raise ReachcostError(f"LatentMSE compares float latents of one size, not {wrong}: encode with one model")
        return (terminal - goal[:, None]).square().mean(-1)


@dataclass(frozen=True)
class HeadCost:
    """The prediction of a head between terminal and goal latent.

    On the CPU each pool is computed separately, in pieces of equal shape, so that no pool depends on the others.
    """

    head: Head

    def __post_init__(self) -> None:
        require_type(self.head, Head, "head", "give a head, rc.load_head(directory) or the result of rc.repair")

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads of the cost."""
        return (self.head,)

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        if isinstance(self.head, nn.Module):
            move_to_device(self.head, terminal.device)
        if terminal.device.type != "cpu":
            return self.head(terminal, goal[:, None])
        pieces = [(piece, goal[episode, None]) for episode, piece in split_pools(terminal)]
        return join_pools(parallel_map(lambda piece: self.head(*piece), pieces), terminal)


@dataclass(frozen=True)
class HybridCost:
    """Sum of two costs, each standardised within the candidate pool: std(base) + weight * std(learned)."""

    base: TerminalCost
    learned: TerminalCost
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_cost(self.base, "base")
        require_cost(self.learned, "learned")
        require_numbers(self)

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads of the cost."""
        return tuple(head for cost in (self.base, self.learned) for head in getattr(cost, "heads", ()))

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        return standardise(self.base(terminal, goal)) + self.weight * standardise(self.learned(terminal, goal))


def standardise(costs: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Zero mean and unit standard deviation over the candidates of each pool [B, S].

    Mean and deviation have no gradient, so that the gradient of a candidate is that of its cost alone.
    """
    centred = costs - costs.detach().mean(-1, keepdim=True)
    return centred / (centred.detach().square().mean(-1, keepdim=True).sqrt() + epsilon)


@dataclass(frozen=True)
class DecodedDistance:
    """Euclidean distance between decoded states, or another `distance`, such as the oracle distance of a task."""

    probe: LinearProbe
    distance: Distance | None = None

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        ends, goals = self.probe(terminal), self.probe(goal)[:, None].expand(*terminal.shape[:2], -1)
        if self.distance is None:
            return (ends - goals).norm(dim=-1)
        return torch.from_numpy(self.distance(ends.cpu().numpy(), goals.cpu().numpy())).float().to(terminal.device)


@dataclass(frozen=True)
class SubspaceCost:
    """Squared latent distance within the probe's rowspace, or within the rest of the latent space.

    With the probe W z + b the rowspace projector is P = W^T (W W^T)^+ W; the residual one is I - P.

    >>> probe = LinearProbe(torch.tensor([[1.0], [0.0]]), torch.zeros(1))  # reads the first of two components
    >>> SubspaceCost(probe)(torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 2))
    tensor([[9.]])
    >>> SubspaceCost(probe, residual=True)(torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 2))
    tensor([[16.]])
    """

    probe: LinearProbe
    residual: bool = False

    @cached_property
    def projector(self) -> Tensor:
        """The projection matrix [D, D]."""
        weight = self.probe.weight.double()
        rowspace = weight @ torch.linalg.pinv(weight)
        return (torch.eye(len(weight), dtype=weight.dtype) - rowspace if self.residual else rowspace).float()

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        return ((terminal - goal[:, None]) @ self._copies.on(terminal.device)).square().sum(-1)

    @cached_property
    def _copies(self) -> DeviceCopies:
        return DeviceCopies(self.projector)


@dataclass(frozen=True)
class StandardisedL2:
    """Squared latent distance, with every component divided by its standard deviation in the logs."""

    std: Tensor

    def __post_init__(self) -> None:
        if self.std.ndim != 1 or not (self.std > 0).all():
            raise ReachcostError("standardised L2: give one positive standard deviation per latent component")

    @classmethod
    def of(cls, latents: Tensor) -> StandardisedL2:
        """Measure the standard deviations on latents [N, D]."""
        return cls(latents.std(0))

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Costs [B, S] of terminal latents [B, S, D] for goals [B, D]."""
        return ((terminal - goal[:, None]) / self._copies.on(terminal.device)).square().mean(-1)

    @cached_property
    def _copies(self) -> DeviceCopies:
        return DeviceCopies(self.std)


def unit_of(name: str, cost: TerminalCost | None, task: Task | None = None) -> str:
    """Unit of a cost; empty if unknown.

    >>> unit_of("raw", LatentMSE()), unit_of("mine", None)
    ('mean squared latent difference', '')
    """
    labels = [getattr(head, "record", {}).get("pairs", {}).get("labels") for head in getattr(cost, "heads", ())]
    if name == ORACLE or labels == [ORACLE]:
        return f"{task.distance_unit} of true distance" if task is not None and task.distance_unit else "true distance"
    if isinstance(cost, LatentMSE):
        return "mean squared latent difference"
    return "steps" if len(labels) == 1 else ""


def evaluated_once(costs: Mapping[str, TerminalCost]) -> dict[str, TerminalCost]:
    """The same costs for one set of candidates, on which each head is computed once, alone and in hybrids."""
    known: dict[int, TerminalCost] = {}

    def once(cost: TerminalCost) -> TerminalCost:
        if type(cost) is HybridCost:
            return replace(cost, base=once(cost.base), learned=once(cost.learned))
        return known.setdefault(id(cost.head), cache(cost)) if type(cost) is HeadCost else cost

    return {name: once(cost) for name, cost in costs.items()}
