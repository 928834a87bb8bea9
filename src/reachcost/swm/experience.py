"""What logs know, inside stable-worldmodel: its solvers ask a model for actions to begin with, if it has any to offer.

Shapes: B episodes, H action blocks of A numbers, D latent size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.planning.logged_actions import AMONG, LoggedActions


class FromLogs(nn.Module):
    """A model of release 0.1.1 whose solvers begin with what was logged from states like the present one.

    CEM, iCEM, MPPI and the gradient solvers ask a model that has `get_action` for the mean of their first candidates.
    This one answers with the logged action sequence that ended best, by the model's own cost, among those that began
    nearest to the present latent. A few dozen candidates then do what takes hundreds from scratch.

    Args:
        model: What a solver plans with: `RepairedModel`, `SwmModel`, or a LeWM or PLDM of theirs.
        latents: Logs, encoded by that model, with actions.
        actions: How actions become the model's blocks; `model.actions` of a bundled model.
        exclude: An evaluation set, whose episodes nothing is taken from.
    """

    def __init__(
        self, model: nn.Module, latents: Latents, actions: ActionBlocks, exclude: EvaluationSet | None = None
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module) or not hasattr(model, "criterion"):
            raise ReachcostError(f"the model is a {type(model).__name__}: give one that a solver plans with")
        self.model, self._logged = model, LoggedActions(latents, actions, exclude)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a solver asks for is the model's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Costs [B, S] of candidates [B, S, H, A], by the model."""
        model: Any = self.model
        return model.get_cost(info_dict, action_candidates)

    @torch.no_grad()
    def get_action(self, info: dict[str, Any], horizon: int = 1, prefix_actions: Tensor | None = None) -> Tensor:
        """What logs would do next, for `horizon` blocks [B, H, A], from the newest frame or where a prefix leads."""
        model: Any = self.model
        newest = info["pixels"][:, -1:]
        here, goal = (model.encode({"pixels": frames})["emb"][:, -1] for frames in (newest, info["goal"]))
        if prefix_actions is not None and prefix_actions.shape[1]:
            candidates = prefix_actions[:, None].to(here)
            here = model.rollout({"pixels": newest[:, None]}, candidates)["predicted_emb"][:, 0, -1]

        def cost(terminal: Tensor, goal: Tensor) -> Tensor:
            return model.criterion({"predicted_emb": terminal[:, :, None], "goal_emb": goal[:, None, None]})

        return self._logged.best(cost, here, goal, horizon, 1, AMONG)[:, 0]
