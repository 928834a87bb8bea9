"""The frozen world model of TopoNav: the paper's feature map of 10 numbers, with exact dynamics."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import fingerprint_arrays
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.toponav.task import SIZE, TopoNav


def features(cells: np.ndarray, rooms: np.ndarray) -> np.ndarray:
    """Map cells [N, 2] and their rooms [N] to float32 features [N, 10], without graph distances.

    Normalised xy (2), sine and cosine of pi x and pi y (4, weight 0.25), sine of 2 pi x and 2 pi y (2, weight 0.12),
    and the room as a one-hot vector without its first entry (2, weight 0.04).
    """
    xy = cells / (SIZE - 1)
    first, second = np.pi * xy, 2 * np.pi * xy
    room = rooms[:, None] == (1, 2)
    columns = [xy, 0.25 * np.sin(first), 0.25 * np.cos(first), 0.12 * np.sin(second), 0.04 * room]
    return np.concatenate(columns, axis=1).astype(np.float32)


class ExactTopoNav:
    """Latents are the feature map of the agent's cell; a rollout follows the true transitions.

    >>> model, task = ExactTopoNav(), TopoNav()
    >>> model.encode(task.observe(np.array([[1, 1], [28 - 1, 3]]))).shape
    torch.Size([2, 10])
    """

    latent_dim = 10
    action_dim = 1

    def __init__(self, task: TopoNav | None = None) -> None:
        self.task = task or TopoNav()
        self.transitions = self.task.transitions
        self.latents = torch.from_numpy(features(self.task.cells, self.task.room(self.task.cells)))  # [677, 10]

    def __repr__(self) -> str:
        return "ExactTopoNav()"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the feature map."""
        return fingerprint_arrays(self.latents.numpy())

    def encode(self, observations: Observations) -> Tensor:
        """Latents of the agent's cells, the column `state` [N, 2]."""
        if "state" not in observations:
            raise ReachcostError(f"ExactTopoNav reads `state`, not {sorted(observations)}: add it")
        return self.latents[torch.from_numpy(self.task.index(observations["state"]))]

    def index(self, latents: Tensor) -> Tensor:
        """Invert the feature map: latents [..., 10] -> number of the cell [...]."""
        cells = (latents[..., :2].nan_to_num() * (SIZE - 1)).round().clamp(0, SIZE - 1).long()
        index = torch.from_numpy(self.task.numbers)[cells[..., 0], cells[..., 1]]
        if not torch.equal(self.latents[index], latents):
            raise ReachcostError("these latents are not TopoNav features: encode them with the same ExactTopoNav model")
        return index

    def states(self, latents: Tensor) -> np.ndarray:
        """The cells of latents: [..., 10] -> [..., 2]."""
        return self.task.cells[self.index(latents).numpy()]

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Follow the transitions: context [B, 1, 10], actions [B, S, H, 1] -> terminal [B, S, 10]."""
        start = self.index(context[:, -1])
        return self.latents[follow(self.transitions, start, actions)]


def follow(transitions: np.ndarray, start: Tensor, actions: Tensor) -> Tensor:
    """Execute candidates on a transition table [states, A]: start [B], actions [B, S, H, 1] -> end [B, S]."""
    moves, count = actions[..., 0].numpy(), transitions.shape[1]
    if moves.size and not 0 <= moves.min() <= moves.max() < count:
        raise ReachcostError(f"actions run from {moves.min()} to {moves.max()}: give 0 to {count - 1}")
    here = np.broadcast_to(start.numpy()[:, None], moves.shape[:2])
    if moves.shape[2] % 2:
        here = transitions[here, moves[:, :, 0]]
        moves = moves[:, :, 1:]
    # Two moves at once, as a planner's uint8 holds 16 x 16 pairs; `take` is faster than indexing by torch.
    moves = moves if count <= 16 else moves.astype(np.intp)
    pairs = moves[:, :, ::2] * count + moves[:, :, 1::2]
    twice = transitions[transitions].reshape(len(transitions), count**2) * count**2
    here = here * count**2
    for t in range(pairs.shape[2]):
        here = twice.take(here + pairs[:, :, t])
    return torch.from_numpy(here // count**2)
