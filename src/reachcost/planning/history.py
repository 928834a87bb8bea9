"""What a planner need not know: a world model of several frames reads the blocks that were executed between them."""

from __future__ import annotations

import torch
from torch import Tensor

from reachcost.base.devices import device_of
from reachcost.data.actions import blocks_of
from reachcost.data.rollouts import history_of
from reachcost.protocols import Observations, WorldModel


class Remembering:
    """A world model whose candidates begin after blocks that are executed already.

    Args:
        model: The world model, with a `history` of at least T.
        past: Blocks executed between the T frames of the context [B, T - 1, A].
    """

    def __init__(self, model: WorldModel, past: Tensor) -> None:
        self.model, self.past = model, past
        self.latent_dim, self.action_dim = model.latent_dim, model.action_dim
        self.actions, self.history, self.device = blocks_of(model), history_of(model), device_of(model)

    def __repr__(self) -> str:
        return repr(self.model)

    def encode(self, observations: Observations) -> Tensor:
        """Map N observations to latents [N, D]."""
        return self.model.encode(observations)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict where candidates end: context [B, T, D], actions [B, S, H, A] -> terminal [B, S, D]."""
        past = self.past[:, None].expand(-1, actions.shape[1], -1, -1).to(actions.dtype)
        return self.model.rollout(context, torch.cat([past, actions], dim=2))
