"""Contracts of reachcost as structural protocols; `Task` and `Planner` are base classes with optional parts.

Shapes: B batch of episodes, S candidate action sequences, T context frames, H planning horizon (in action
blocks), A numbers in an action block, D latent dimension, N any batch. Tasks, logs and rows use numpy;
models, heads, costs and planners use torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Observations = Mapping[str, np.ndarray]
"""Column name to array [N, ...], for example `{"pixels": uint8 [N, height, width, 3]}`."""


@runtime_checkable
class WorldModel(Protocol):
    """A frozen encoder with latent dynamics. `reachcost.check_world_model` tests the contract.

    Optional attributes:

    * `actions`, an `ActionBlocks`: maps blocks to actions of the environment. Planning with continuous actions requires
      it; `reachcost.with_actions(model, logs, length)` adds it to any model.
    * `history`, an int, by default 1: the maximum number of context frames that `rollout` reads.
    * `device`, by default the CPU: device of returned latents, and of contexts and blocks.
    * `fingerprint`, a str that differs for models that encode differently. It identifies cached latents and the model
      of a head. By default it is computed from the weights in the model's attributes.
    """

    @property
    def latent_dim(self) -> int:
        """D, the size of a latent."""
        ...

    @property
    def action_dim(self) -> int:
        """A, the size of one action block (1 for a discrete action, given by its index)."""
        ...

    def encode(self, observations: Observations) -> Tensor:
        """Map N observations to latents [N, D]."""
        ...

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict terminal latents: context [B, T, D], actions [B, S, T - 1 + H, A] -> terminal [B, S, D].

        An episode begins with T = 1, and T is at most `history`. The frames are one action block apart, the newest
        last. The first T - 1 blocks were executed between them, and are the same for all candidates of an episode.
        """
        ...


@runtime_checkable
class TerminalCost(Protocol):
    """A cost of candidates by their terminal latents, without access to the simulator."""

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal latents [B, S, D] against goal latents [B, D] -> costs [B, S]; lower is better."""
        ...


@runtime_checkable
class Head(Protocol):
    """A learned function of two latents, usually a `torch.nn.Module`."""

    @property
    def latent_dim(self) -> int:
        """D, the size of the latents it was trained on."""
        ...

    def __call__(self, z: Tensor, goal: Tensor) -> Tensor:
        """Map latents [..., D] and [..., D], broadcast against each other, to values [...]."""
        ...
