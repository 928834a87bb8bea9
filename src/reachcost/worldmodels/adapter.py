"""`with_actions`: give your own world model the action blocks that planners need."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from reachcost.core.devices import device_of
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.logs import Logs
from reachcost.data.models import fingerprint_of, history_of, name_of
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations, WorldModel
from reachcost.worldmodels.check import require_contract

Units = Literal["standardised", "environment"]


def with_actions(
    model: WorldModel,
    logs: Logs | ActionBlocks,
    length: int = 1,
    *,
    clamp: bool = True,
    units: Units = "standardised",
) -> OwnModel:
    """Return a world model with action blocks, so that planners sample actions that the world can execute.

    Args:
        model: A frozen `WorldModel`.
        logs: Logs to measure the actions on (mean, deviation and range of each component), or the blocks themselves.
        length: Environment steps per step of the model (the frameskip); a block holds their actions.
        clamp: Clamp the actions that the model reads to the range of the logs. This is exact where the environment
            clips to that range. Planners still sample and execute unclamped actions, unless `CEM(bounds="logs")`.
        units: Units in which the model reads actions: `standardised` by the logs, or those of the `environment`.

    >>> import numpy as np
    >>> class Sum:
    ...     latent_dim, action_dim = 2, 2
    ...     def encode(self, observations):
    ...         return torch.as_tensor(observations["state"])
    ...     def rollout(self, context, actions):
    ...         return context[:, -1, None] + actions.sum(2)
    >>> logs = Logs({"action": np.array([[0.0, 2.0], [4.0, 6.0], [0.0, 0.0]])}, np.array([3]))
    >>> model = with_actions(Sum(), logs, units="environment")
    >>> model.actions.low, model.actions.high
    ((0.0, 2.0), (4.0, 6.0))
    >>> model.rollout(torch.zeros(1, 1, 2), torch.tensor([[[[0.0, 9.0]]]])).tolist()
    [[[2.0, 6.0]]]
    """
    require_contract(model)
    if blocks_of(model) is not None:
        raise ReachcostError(f"{name_of(model)} already has `actions`: plan with it directly")
    if not isinstance(logs, Logs | ActionBlocks):
        raise ReachcostError(f"logs is a {type(logs).__name__}: give rc.Logs, for example rc.open_logs(path)")
    if units not in get_args(Units):
        raise ReachcostError(f"units is {units!r}: choose {' or '.join(get_args(Units))}")
    blocks = logs if isinstance(logs, ActionBlocks) else ActionBlocks.of(logs, length)
    if blocks.size != model.action_dim:
        width = len(blocks.mean)
        fits = f"pass length={model.action_dim // width}, or " if model.action_dim % width == 0 else ""
        raise ReachcostError(
            f"{name_of(model)} takes action blocks of {model.action_dim} numbers, but {blocks.length} steps of {width} "
            f"logged components make {blocks.size}: {fits}give it action_dim = {blocks.size}"
        )
    return OwnModel(model, blocks, clamp, units)


class OwnModel:
    """A world model with action blocks, made by `with_actions`; `rollout` takes standardised actions."""

    def __init__(self, model: WorldModel, actions: ActionBlocks, clamp: bool, units: Units) -> None:
        self.model, self.actions, self.clamp, self.units = model, actions, clamp, units
        self.latent_dim, self.action_dim, self.history = model.latent_dim, model.action_dim, history_of(model)
        self.device = device_of(model)
        self._low, self._high = (bound.to(self.device) for bound in actions.bounds())
        self._mean, self._std = (
            torch.tensor(numbers * actions.length, dtype=torch.float64, device=self.device)
            for numbers in (actions.mean, actions.std)
        )

    def __repr__(self) -> str:
        return name_of(self.model)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the model; action blocks do not change latents."""
        return fingerprint_of(self.model)

    @torch.no_grad()
    def encode(self, observations: Observations) -> Tensor:
        """Encode N observations -> latents [N, D]."""
        return self.model.encode(observations)

    @torch.no_grad()
    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Roll out candidates: context [B, T, D], standardised actions [B, S, T - 1 + H, A] -> [B, S, D]."""
        if self.clamp:
            actions = torch.minimum(torch.maximum(actions, self._low), self._high)
        if self.units == "environment":
            actions = (actions * self._std + self._mean).float()
        return self.model.rollout(context, actions)
