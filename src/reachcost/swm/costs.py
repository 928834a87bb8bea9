"""Models and objectives for the solvers of stable-worldmodel: a head as their cost, and logs as their start.

Shapes: B episodes, S candidates, H action blocks of A numbers, T predicted steps, G goal frames, D latent size.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from reachcost.core.devices import move_to_device
from reachcost.core.parallel import reserve_threads
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import HeadCost, LatentMSE, standardise
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.planning.logged_actions import AMONG, LoggedActions
from reachcost.swm.frozen import FoldedModel
from reachcost.swm.model import SwmModel, goal_of

LEFT_BY_OTHERS = ("emb", "goal_emb", "predicted_emb")
"""Entries of an info dictionary that an earlier call may have left there."""


class ReachObjective(nn.Module):
    """An objective of git main: costs [B, S] from `predicted_emb` [B, S, T, D] and `goal_emb` [B, G, D].

    It computes on the device of the predictions.

    Args:
        head: A fitted head; the objective keeps a frozen copy.
        weight: None replaces latent distance; a number adds that much of the head to it, each standardised within its
            pool of candidates, which must be two or more.

    >>> from reachcost.heads import PairHead
    >>> objective = ReachObjective(PairHead(8, hidden=4))
    >>> objective({"predicted_emb": torch.randn(2, 5, 3, 8), "goal_emb": torch.randn(2, 1, 8)}).shape
    torch.Size([2, 5])
    """

    def __init__(self, head: LearnedHead, weight: float | None = None) -> None:
        super().__init__()
        if not isinstance(head, LearnedHead):
            raise ReachcostError(f"the head is a {type(head).__name__}: give what rc.fit or rc.load_head returns")
        if weight is not None and not math.isfinite(weight):
            raise ReachcostError(f"weight is {weight}: give a finite number, or None to replace latent distance")
        self.head = copy.deepcopy(head).eval().requires_grad_(False)
        self.weight = weight

    def forward(self, info_dict: dict[str, Any]) -> Tensor:
        """Score the last predicted step of every candidate against the last goal frame."""
        terminal = self._terminal(info_dict.get("predicted_emb"))
        goal = goal_of(info_dict.get("goal_emb"), terminal).to(terminal)
        learned = self.head(terminal, goal[:, None])
        if self.weight is None:
            return learned
        if learned.shape[1] < 2:
            raise ReachcostError(
                "a hybrid standardises its costs among candidates, and there is one: give the solver num_samples of 2 "
                "or more, or leave weight out"
            )
        return standardise(LatentMSE()(terminal, goal)) + self.weight * standardise(learned)

    def _terminal(self, predicted: Any) -> Tensor:
        """The last step of predictions [B, S, T, D]; moves the head to their device."""
        if not isinstance(predicted, Tensor) or predicted.ndim != 4 or predicted.shape[-1] != self.head.latent_dim:
            found = tuple(predicted.shape) if isinstance(predicted, Tensor) else type(predicted).__name__
            raise ReachcostError(
                f"predicted_emb is {found}: roll candidates out with the world model of this head, to "
                f"[B, S, T, D = {self.head.latent_dim}]"
            )
        move_to_device(self.head, predicted.device)
        return predicted[:, :, -1].to(next(self.head.parameters()).dtype)


class WrappedModel(nn.Module):
    """A model of release 0.1.1 inside another: attributes that the outer one lacks are those of the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def __getattr__(self, name: str) -> Any:
        """Attributes that solvers ask for, such as `get_constraints`."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)


class RepairedModel(WrappedModel):
    """A world model of release 0.1.1 whose `get_cost` uses a head: give it to any solver in place of the model.

    In contrast to `get_cost` of the release, every call gives each episode its own goal, ignores latents that earlier
    calls left in the dictionary, leaves the dictionary unchanged, and rolls out from the newest frame. Model and head
    stay in eval mode.

    Their LeWM and PLDM also plan faster: each frame is encoded once, and a folded copy of the predictor is rolled out.
    The copy is renewed when weights change; gradients reach the candidates, but not the weights. Models that differ
    from the public ones (subclasses, other modules, hooks, other precisions) are rolled out by their own code.

    Args:
        model: A model of stable-worldmodel 0.1.1 (`encode`, `rollout`), or a `SwmModel`.
        head: A head fitted on latents of this model.
        weight: None replaces latent distance; a number adds that much of the head to it, see `ReachObjective`.

    >>> from reachcost import load_world_model
    >>> from reachcost.heads import PairHead
    >>> model = RepairedModel(SwmModel(load_world_model("lewm-tworoom-3072")), PairHead(192, hidden=4))
    >>> frames = torch.zeros(2, 4, 1, 64, 64, 3, dtype=torch.uint8)
    >>> model.get_cost({"pixels": frames, "goal": frames}, torch.zeros(2, 4, 5, 10)).shape
    torch.Size([2, 4])
    """

    def __init__(self, model: nn.Module, head: LearnedHead, weight: float | None = None) -> None:
        if not isinstance(model, nn.Module) or isinstance(model, RepairedModel):
            raise ReachcostError(f"the model is a {type(model).__name__}: give one of theirs, or SwmModel(model)")
        super().__init__(model)
        self.objective = ReachObjective(head, weight)
        self._folded = FoldedModel()
        if isinstance(model, SwmModel):
            require_one_model({"repaired": HeadCost(head)}, model.source)
        self.eval()

    def train(self, mode: bool = True) -> RepairedModel:
        """Stay in eval mode."""
        return super().train(False)

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor | None = None) -> Tensor:
        """Score the predictions in the dictionary."""
        return self.objective(info_dict)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Roll candidates [B, S, H, A] out and score them [B, S]."""
        fresh = {key: value for key, value in info_dict.items() if key not in LEFT_BY_OTHERS}
        for key in ("pixels", "goal"):
            if not isinstance(fresh.get(key), Tensor):
                raise ReachcostError(
                    f"the info dictionary has no {key!r}: plan in a World with goals, see World.evaluate"
                )
        rolled = self._folded.rollout(self.model, fresh, action_candidates)
        if rolled is None:
            return self.objective(self._rollout(fresh, action_candidates))
        with reserve_threads():  # keeps every core free for the next rollout
            return self.objective(rolled)

    def _rollout(self, info: dict[str, Any], candidates: Tensor) -> dict[str, Any]:
        """Roll out by the model's own code: `predicted_emb` [B, S, T, D], `goal_emb` [B, G, D]."""
        with torch.no_grad():
            goal = self.model.encode(_goal_as_observation(info))["emb"]
        return {**self.model.rollout({**info, "pixels": info["pixels"][:, :, -1:]}, candidates), "goal_emb": goal}


def _goal_as_observation(info: dict[str, Any]) -> dict[str, Tensor]:
    """The goal as `encode` reads it [B, G, ...]: `goal` as the frames, `goal_x` as x; candidates share their goal."""
    first = {key: value[:, 0] for key, value in info.items() if isinstance(value, Tensor)}
    named = {key.removeprefix("goal_"): value for key, value in first.items() if key.startswith("goal_")}
    observed = {**first, **named, "pixels": first["goal"]}
    return {key: value for key, value in observed.items() if key != "action" and not key.startswith("goal")}


class FromLogs(WrappedModel):
    """A model of release 0.1.1 whose solvers begin with actions that were logged in states like the current one.

    CEM, iCEM, MPPI and the gradient solvers ask `get_action` of a model for the mean of their first candidates. Here it
    returns the logged action sequence that ended best, by the model's own cost, among those that began nearest to the
    current latent. A few dozen candidates then do what takes hundreds from scratch.

    Args:
        model: What a solver plans with: `RepairedModel`, `SwmModel`, or a LeWM or PLDM of theirs.
        latents: Logs with actions, encoded by that model.
        actions: Action blocks of the model, `model.actions` of a bundled one.
        exclude: An evaluation set; its source episodes are not used.
    """

    def __init__(
        self, model: nn.Module, latents: Latents, actions: ActionBlocks, exclude: EvaluationSet | None = None
    ) -> None:
        if not isinstance(model, nn.Module) or not hasattr(model, "criterion"):
            raise ReachcostError(f"the model is a {type(model).__name__}: give one that a solver plans with")
        super().__init__(model)
        self._logged = LoggedActions(latents, actions, exclude)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Costs [B, S] of candidates [B, S, H, A], by the model."""
        return self.model.get_cost(info_dict, action_candidates)

    @torch.no_grad()
    def get_action(self, info: dict[str, Any], horizon: int = 1, prefix_actions: Tensor | None = None) -> Tensor:
        """Logged actions of `horizon` blocks [B, H, A], from the newest frame or from where a prefix leads."""
        newest = info["pixels"][:, -1:]
        here, goal = (self.model.encode({"pixels": frames})["emb"][:, -1] for frames in (newest, info["goal"]))
        if prefix_actions is not None and prefix_actions.shape[1]:
            candidates = prefix_actions[:, None].to(here)
            here = self.model.rollout({"pixels": newest[:, None]}, candidates)["predicted_emb"][:, 0, -1]

        def cost(terminal: Tensor, goal: Tensor) -> Tensor:
            return self.model.criterion({"predicted_emb": terminal[:, :, None], "goal_emb": goal[:, None, None]})

        return self._logged.best(cost, here, goal, horizon, 1, AMONG)[:, 0]
