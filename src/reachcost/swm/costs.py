"""A head as the cost of stable-worldmodel's planners.

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
from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.swm.frozen import FoldedModel
from reachcost.swm.model import SwmModel, goal_of

LEFT_BY_OTHERS = ("emb", "goal_emb", "predicted_emb")
"""What an earlier call, for other episodes or candidates, may have left in an info dictionary."""


class ReachObjective(nn.Module):
    """What git main calls an objective: `info_dict -> costs [B, S]`, from `predicted_emb` and `goal_emb`.

    It computes where the predictions are, in the head's precision, and prints nothing.

    Args:
        head: A fitted head, of which it keeps a frozen copy.
        weight: None replaces latent distance; a number adds that much of the head to it, each standardised within its
            pool of candidates, which must be two or more.
        pred_key: Where the rollout [B, S, T, D] is.
        goal_key: Where the goal [B, G, D] is.

    >>> from reachcost.heads import PairHead
    >>> objective = ReachObjective(PairHead(8, hidden=4))
    >>> objective({"predicted_emb": torch.randn(2, 5, 3, 8), "goal_emb": torch.randn(2, 1, 8)}).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        head: LearnedHead,
        weight: float | None = None,
        pred_key: str = "predicted_emb",
        goal_key: str = "goal_emb",
    ) -> None:
        super().__init__()
        if not isinstance(head, LearnedHead):
            raise ReachcostError(f"the head is a {type(head).__name__}: give what rc.fit or rc.load_head returns")
        if weight is not None and not math.isfinite(weight):
            raise ReachcostError(f"weight is {weight}: give a finite number, or None to replace latent distance")
        self.head = copy.deepcopy(head).eval().requires_grad_(False)
        self.weight, self.pred_key, self.goal_key = weight, pred_key, goal_key

    def forward(self, info_dict: dict[str, Any]) -> Tensor:
        """Score the last predicted step of every candidate against the last goal frame."""
        terminal = self._terminal(info_dict.get(self.pred_key))
        goal = goal_of(info_dict.get(self.goal_key), terminal).to(terminal)
        learned = self.head(terminal, goal[:, None])
        if self.weight is None:
            return learned
        if learned.shape[1] < 2:
            raise ReachcostError(
                "a hybrid weighs its two costs by how they vary among candidates, and there is one: give the solver "
                "num_samples of 2 or more, or leave weight out"
            )
        return standardise(LatentMSE()(terminal, goal)) + self.weight * standardise(learned)

    def _terminal(self, predicted: Any) -> Tensor:
        """The last step of predictions [B, S, T, D], with the head beside it."""
        if not isinstance(predicted, Tensor) or predicted.ndim != 4 or predicted.shape[-1] != self.head.latent_dim:
            found = tuple(predicted.shape) if isinstance(predicted, Tensor) else type(predicted).__name__
            raise ReachcostError(
                f"{self.pred_key} is {found}: roll candidates out with the world model of this head, to "
                f"[B, S, T, D = {self.head.latent_dim}]"
            )
        move_to_device(self.head, predicted.device)
        return predicted[:, :, -1].to(next(self.head.parameters()).dtype)


class RepairedModel(nn.Module):
    """A world model of release 0.1.1 whose `get_cost` asks a head: give it to any solver in place of the model.

    Models of the release forget the candidate axis of the goal, so that several episodes crash, or, with as many
    candidates as episodes, meet each other's goals; LeWM takes latents that it finds in the dictionary, whoever left
    them there; and where a wrapper stacks frames, the first candidate actions are taken for past ones. Here every call
    gives each episode its own goal, leaves the dictionary alone, and rolls out from the newest frame. Both are put into
    eval mode, and stay there.

    Their LeWM and PLDM plan faster than without it: each frame is encoded once, known by its content, and the predictor
    is rolled out as a folded copy of its weights, made anew whenever they change; gradients reach the candidates, but
    not the weights. What is not built like the public ones (a class of one's own, other modules inside, hooks, another
    precision than float32) is rolled out by its own code.

    Args:
        model: A model of stable-worldmodel 0.1.1 (`encode`, `rollout`), or one of ours as `SwmModel`.
        head: A head fitted on latents of this model.
        weight: None replaces latent distance; a number adds that much of the head to it, each standardised within its
            pool of candidates, which must be two or more.

    >>> from reachcost import load_world_model
    >>> from reachcost.heads import PairHead
    >>> model = RepairedModel(SwmModel(load_world_model("lewm-tworoom-3072")), PairHead(192, hidden=4))
    >>> frames = torch.zeros(2, 4, 1, 64, 64, 3, dtype=torch.uint8)
    >>> model.get_cost({"pixels": frames, "goal": frames}, torch.zeros(2, 4, 5, 10)).shape
    torch.Size([2, 4])
    """

    def __init__(self, model: nn.Module, head: LearnedHead, weight: float | None = None) -> None:
        super().__init__()
        if not isinstance(model, nn.Module) or isinstance(model, RepairedModel):
            raise ReachcostError(f"the model is a {type(model).__name__}: give one of theirs, or SwmModel(model)")
        self.model, self.objective = model, ReachObjective(head, weight)
        self._folded = FoldedModel()
        if isinstance(model, SwmModel):
            require_one_model({"repaired": HeadCost(head)}, model.source)
        self.eval()

    def train(self, mode: bool = True) -> RepairedModel:
        """Stay in eval mode: a model that is planned with is frozen."""
        return super().train(False)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a solver asks for, such as `get_constraints`, is the model's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor | None = None) -> Tensor:
        """Score what was rolled out already."""
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
        with reserve_threads():  # the next rollout then finds every core free
            return self.objective(rolled)

    def _rollout(self, info: dict[str, Any], candidates: Tensor) -> dict[str, Any]:
        """By the model's own code: `predicted_emb` [B, S, T, D], `goal_emb` [B, G, D]."""
        model: Any = self.model
        with torch.no_grad():
            goal = model.encode(_goal_as_observation(info))["emb"]
        return {**model.rollout({**info, "pixels": info["pixels"][:, :, -1:]}, candidates), "goal_emb": goal}


def _goal_as_observation(info: dict[str, Any]) -> dict[str, Tensor]:
    """What `encode` reads [B, G, ...], with `goal` as the frames and `goal_x` as x; candidates share their goal."""
    first = {key: value[:, 0] for key, value in info.items() if isinstance(value, Tensor)}
    named = {key.removeprefix("goal_"): value for key, value in first.items() if key.startswith("goal_")}
    observed = {**first, **named, "pixels": first["goal"]}
    return {key: value for key, value in observed.items() if key != "action" and not key.startswith("goal")}
