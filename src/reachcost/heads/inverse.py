"""Goal-conditioned inverse dynamics, the idea of GC-IDM: a policy from logs on frozen latents, without a planner."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from reachcost.heads.base import require_dimension


class InverseDynamics(nn.Module):
    """An MLP that predicts the action block, or the discrete action, which leads from one latent to another.

    It maps z [..., D] and goal [..., D], broadcast against each other, to [..., outputs]: a block in the coordinates of
    the model's `ActionBlocks`, or logits of the discrete actions.

    >>> network = InverseDynamics(latent_dim=10, outputs=4, discrete=True, hidden=16)
    >>> network(torch.randn(3, 10), torch.randn(10)).shape, network.act(torch.randn(3, 10), torch.randn(10)).shape
    (torch.Size([3, 4]), torch.Size([3, 1]))
    """

    def __init__(self, latent_dim: int, outputs: int, discrete: bool, hidden: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.latent_dim, self.outputs, self.discrete = latent_dim, outputs, discrete
        self.record: dict[str, Any] = {}
        """How it was trained."""
        widths = [2 * latent_dim, *[hidden] * layers]
        wide = [part for ends in pairwise(widths) for part in (nn.Linear(*ends), nn.SiLU())]
        self.mlp = nn.Sequential(*wide, nn.Linear(hidden, outputs))

    @property
    def action_dim(self) -> int:
        """Size of an action as planners return it: A, or 1 for the index of a discrete action."""
        return 1 if self.discrete else self.outputs

    def forward(self, z: Tensor, goal: Tensor) -> Tensor:
        """The block or the logits for z and goal."""
        require_dimension(self.latent_dim, z=z, goal=goal)
        return self.mlp(torch.cat(torch.broadcast_tensors(z, goal), dim=-1))

    def act(self, z: Tensor, goal: Tensor, draws: Tensor | None = None) -> Tensor:
        """The action block [..., A], or a discrete action int64 [..., 1].

        Uniform random numbers `draws` [...] in [0, 1) sample the discrete action; None takes the most probable one.
        """
        predicted = self(z, goal)
        if not self.discrete:
            return predicted
        if draws is None:
            return predicted.argmax(-1, keepdim=True)
        below = predicted.softmax(-1).cumsum(-1)[..., :-1] <= draws[..., None]
        return below.sum(-1, keepdim=True)

    def losses(self, z: Tensor, goal: Tensor, taken: Tensor) -> Tensor:
        """Loss of each pair [P], from z, goal [P, D] and the logged blocks [P, A], NaN where unknown, or actions [P].

        Blocks have absolute errors, because clipped noise pulls the mean of an action towards zero, but not its median.
        """
        predicted = self(z, goal)
        if self.discrete:
            return functional.cross_entropy(predicted, taken, reduction="none")
        return (predicted - torch.where(taken.isnan(), predicted, taken)).abs().mean(-1)
