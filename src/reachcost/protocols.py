"""Three contracts of reachcost, as structural protocols; `Task` and `Planner` are classes with optional parts.

Shapes: B batch of episodes, S candidate action sequences, T context frames, H planning horizon (in action
blocks), A numbers in an action block, D latent dimension, N any batch. The world side (tasks, logs, rows) speaks
numpy; the latent side (models, heads, costs, planners) speaks torch.
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

    Four more attributes are read where a model has them:

    * `actions`, an `ActionBlocks`: how blocks stand for actions of the environment. Planning with continuous actions
      needs it; `reachcost.with_actions(model, logs, length)` gives it to any model.
    * `history`, an int, by default 1: the most frames of context that `rollout` reads.
    * `device`, by default the processor: where latents are that it returns, and where it is given contexts and blocks.
    * `fingerprint`, a str: another one for every model that encodes otherwise. By it latents are kept and heads matched
      with their model; without it, one is made of the weights that are found in the model's attributes.
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
        """Predict where candidates end: context [B, T, D], actions [B, S, T - 1 + H, A] -> terminal [B, S, D].

        T is 1 unless the model has a `history`; then 1 <= T <= history, the frames are one action block apart, the
        newest last, and the first T - 1 blocks, the same for all candidates of an episode, are those that were executed
        between them. An episode begins with T = 1.
        """
        ...


@runtime_checkable
class TerminalCost(Protocol):
    """A rule that assigns a cost to each candidate. It sees latents only, never the simulator."""

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal latents [B, S, D] against goal latents [B, D] -> costs [B, S]; lower is better."""
        ...


@runtime_checkable
class Head(Protocol):
    """A learned function of two latents, in practice a `torch.nn.Module`."""

    @property
    def latent_dim(self) -> int:
        """D, the size of the latents it was trained on."""
        ...

    def __call__(self, z: Tensor, goal: Tensor) -> Tensor:
        """Map latents [..., D] and [..., D], broadcast against each other, to values [...]."""
        ...
