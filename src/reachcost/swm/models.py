"""Models and objectives of reachcost for the solvers of stable-worldmodel, its release 0.1.1 and its git main.

Shapes: B episodes, S candidates, H action blocks of A numbers, T frames or steps, G goal frames, D latent size.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.devices import move_to_device
from reachcost.core.parallel import reserve_threads
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import HeadCost, LatentMSE, standardise
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, require_type
from reachcost.heads.base import LearnedHead
from reachcost.planning.logged_actions import AMONG, LoggedActions
from reachcost.swm.cache import EncodedFrames, FoldedModel
from reachcost.worldmodels.jepa import JepaWorldModel, rolled_out

LEFT_BY_OTHERS = ("emb", "goal_emb", "predicted_emb")  # entries that an earlier call may have left in a dictionary


class ReachObjective(nn.Module):
    """An objective of git main: costs [B, S] from `predicted_emb` [B, S, T, D] and `goal_emb` [B, G, D].

    It scores the last predicted step against the last goal frame, on the device of the predictions.

    Args:
        head: A fitted head; the objective keeps a frozen copy.
        weight: None replaces latent distance; a number adds the head with this weight. Both are then standardised
            within their pool of at least two candidates.

    >>> from reachcost.heads import PairHead
    >>> objective = ReachObjective(PairHead(8, hidden=4))
    >>> objective({"predicted_emb": torch.randn(2, 5, 3, 8), "goal_emb": torch.randn(2, 1, 8)}).shape
    torch.Size([2, 5])
    """

    def __init__(self, head: LearnedHead, weight: float | None = None) -> None:
        super().__init__()
        require_type(head, LearnedHead, "head", "give what rc.fit or rc.load_head returns")
        if weight is not None and not math.isfinite(weight):
            raise ReachcostError(f"weight is {weight}: give a finite number, or None to replace latent distance")
        self.head = copy.deepcopy(head).eval().requires_grad_(False)
        self.weight = weight

    def forward(self, info_dict: dict[str, Any]) -> Tensor:
        """Score every candidate [B, S]."""
        predicted = info_dict.get("predicted_emb")
        if not isinstance(predicted, Tensor) or predicted.ndim != 4 or predicted.shape[-1] != self.head.latent_dim:
            found = tuple(predicted.shape) if isinstance(predicted, Tensor) else type(predicted).__name__
            raise ReachcostError(
                f"predicted_emb is {found}: roll candidates out with the world model of this head, to "
                f"[B, S, T, D = {self.head.latent_dim}]"
            )
        move_to_device(self.head, predicted.device)
        terminal = predicted[:, :, -1].to(next(self.head.parameters()).dtype)
        goal = _goal_of(info_dict, terminal).to(terminal)
        learned = self.head(terminal, goal[:, None])
        if self.weight is None:
            return learned
        if learned.shape[1] < 2:
            raise ReachcostError(
                "a hybrid standardises its costs among candidates, and there is one: give the solver num_samples of 2 "
                "or more, or leave weight out"
            )
        return standardise(LatentMSE()(terminal, goal)) + self.weight * standardise(learned)


class SwmModel(nn.Module):
    """A frozen copy of a model of `load_world_model` with the interface of stable-worldmodel, in eval mode and float32.

    It reads the frames of a `World` directly (a policy needs no `transform`). Candidates are standardised action
    blocks, for which a policy needs `process={"action": Standardiser(model.actions)}`.

    >>> from reachcost import load_world_model
    >>> model = SwmModel(load_world_model("lewm-tworoom-3072"))
    >>> frames = torch.zeros(2, 4, 1, 64, 64, 3, dtype=torch.uint8)
    >>> model.get_cost({"pixels": frames, "goal": frames}, torch.zeros(2, 4, 5, 10)).shape
    torch.Size([2, 4])
    """

    low: Tensor
    high: Tensor

    def __init__(self, model: JepaWorldModel) -> None:
        super().__init__()
        require_type(model, JepaWorldModel, "model", "give what rc.load_world_model returns")
        if model.half:
            raise ReachcostError("solvers of stable-worldmodel need single precision: give the model without `halved`")
        self.source, self.parts = model, copy.deepcopy(model.parts)
        self._latents = EncodedFrames()
        low, high = model.actions.bounds()
        self.register_buffer("low", low.to(model.device))
        self.register_buffer("high", high.to(model.device))
        self.eval()

    def train(self, mode: bool = True) -> SwmModel:
        """Stay in eval mode."""
        return super().train(False)

    def encode(self, info: dict[str, Any]) -> dict[str, Any]:
        """Add `emb` [N, T, D] to frames `pixels` uint8 [N, T, height, width, 3] (or [N, T, 3, height, width])."""
        pixels = _require_frames(info, "pixels", 5)
        if next(self.parts.parameters()).dtype != torch.float32:
            raise ReachcostError("this model computes in float32: undo .half(), .bfloat16() or .double()")
        self._latents.renew(self.parts)
        return {**info, "emb": self._latents.of(pixels, self._encode)}

    def _encode(self, pixels: Tensor) -> Tensor:
        if pixels.shape[-1] != 3:
            pixels = pixels.movedim(-3, -1)
        inputs = self.parts.inputs({"pixels": pixels.flatten(0, 1).cpu().numpy()})
        return self.parts.embed(inputs.to(self.low.device)).unflatten(0, pixels.shape[:2])

    def rollout(self, info: dict[str, Any], action_sequence: Tensor) -> dict[str, Any]:
        """Add `predicted_emb` [B, S, T + H, D]: latents of the frames, then after each block of [B, S, H, A].

        With `action_history` [B, S, T - 1, A] of git main all T frames are read, otherwise only the newest.
        """
        if action_sequence.ndim != 4 or action_sequence.shape[3] != self.source.action_dim:
            raise ReachcostError(
                f"action candidates are {tuple(action_sequence.shape)}: give [B, S, H, A = {self.source.action_dim}], "
                f"with PlanConfig(..., action_block={self.source.actions.length})"
            )
        pixels, blocks = _require_frames(info, "pixels", 6), action_sequence
        if "action_history" in info:
            blocks = torch.cat([info["action_history"].to(blocks), blocks], dim=2)
        else:
            pixels = pixels[:, :, -1:]
        context = self.encode({"pixels": pixels[:, 0]})["emb"]
        blocks = blocks.to(context)
        if self.source.clamp:
            blocks = blocks.clamp(self.low, self.high)
        return {**info, "predicted_emb": rolled_out(self.parts, context, blocks, full_path=True)}

    def criterion(self, info_dict: dict[str, Any], action_candidates: Tensor | None = None) -> Tensor:
        """Latent distance of the last predicted step to the goal [B, S], as in models of stable-worldmodel."""
        terminal = info_dict["predicted_emb"][:, :, -1]
        return (terminal - _goal_of(info_dict, terminal)[:, None]).square().sum(-1)

    def get_cost(self, info_dict: dict[str, Any], action_candidates: Tensor) -> Tensor:
        """Latent distance of candidates [B, S, H, A] to the goal [B, S]."""
        goal = self.encode({"pixels": _require_frames(info_dict, "goal", 6)[:, 0]})["emb"]
        return self.criterion({**self.rollout(info_dict, action_candidates), "goal_emb": goal})


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

    In contrast to `get_cost` of the release, every call gives each episode its own goal and rolls out from the newest
    frame. It ignores latents that earlier calls left in the dictionary, and leaves it unchanged. Model and head
    stay in eval mode. LeWM and PLDM of the release also plan faster (`FoldedModel`); gradients reach the candidates,
    but not the weights. Models that differ from the public ones are rolled out by their own code.

    Args:
        model: A model of stable-worldmodel 0.1.1 (`encode`, `rollout`), or a `SwmModel`.
        head: A head fitted on latents of this model.
        weight: None replaces latent distance; a number adds the head with this weight, see `ReachObjective`.

    >>> from reachcost import load_world_model
    >>> from reachcost.heads import PairHead
    >>> model = RepairedModel(SwmModel(load_world_model("lewm-tworoom-3072")), PairHead(192, hidden=4))
    >>> frames = torch.zeros(2, 4, 1, 64, 64, 3, dtype=torch.uint8)
    >>> model.get_cost({"pixels": frames, "goal": frames}, torch.zeros(2, 4, 5, 10)).shape
    torch.Size([2, 4])
    """

    def __init__(self, model: nn.Module, head: LearnedHead, weight: float | None = None) -> None:
        if not isinstance(model, nn.Module) or isinstance(model, RepairedModel):
            raise ReachcostError(f"the model is a {type(model).__name__}: give a LeWM or PLDM, or SwmModel(model)")
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
            _require_tensor(fresh, key)
        rolled = self._folded.rollout(self.model, fresh, action_candidates)
        if rolled is None:
            return self.objective(self._rollout(fresh, action_candidates))
        with reserve_threads():  # keeps every core free for the next rollout
            return self.objective(rolled)

    def _rollout(self, info: dict[str, Any], candidates: Tensor) -> dict[str, Any]:
        """Roll out by the model's own code: `predicted_emb` [B, S, T, D], `goal_emb` [B, G, D].

        Its `encode` reads the goal [B, G, ...] in place of the frames, and `goal_x` in place of x, if there are any.
        """
        first = {key: value[:, 0] for key, value in info.items() if isinstance(value, Tensor)}
        named = {key.removeprefix("goal_"): value for key, value in first.items() if key.startswith("goal_")}
        observed = {**first, **named, "pixels": first["goal"]}
        observed = {key: part for key, part in observed.items() if key != "action" and not key.startswith("goal")}
        with torch.no_grad():
            goal = self.model.encode(observed)
        rolled = self.model.rollout({**info, "pixels": info["pixels"][:, :, -1:]}, candidates)
        return {**rolled, "goal_emb": goal["emb"]}


class FromLogs(WrappedModel):
    """A model of release 0.1.1 whose solvers begin with actions that were logged in states like the current one.

    CEM, iCEM, MPPI and the gradient solvers ask `get_action` of a model for the mean of their first candidates. Here it
    returns the logged action sequence that ended best, by the model's own cost, among those that began nearest to the
    current latent.

    Args:
        model: What a solver plans with: `RepairedModel`, `SwmModel`, or a LeWM or PLDM of the release.
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


class Standardiser:
    """The `process` of a policy: standardises actions by the logs of a model.

    >>> blocks = ActionBlocks(mean=(0.0, 1.0), std=(1.0, 2.0), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)
    >>> Standardiser(blocks).inverse_transform(np.array([0.5, 0.5])).tolist()
    [0.5, 2.0]
    """

    def __init__(self, blocks: ActionBlocks) -> None:
        self.mean, self.std = np.array(blocks.mean, np.float32), np.array(blocks.std, np.float32)

    def transform(self, actions: np.ndarray) -> np.ndarray:
        """Actions [..., a] -> standardised."""
        return (actions - self.mean) / self.std

    def inverse_transform(self, actions: np.ndarray) -> np.ndarray:
        """Standardised [..., a] -> actions."""
        return actions * self.std + self.mean


def _goal_of(info: dict[str, Any], terminal: Tensor) -> Tensor:
    """Goal latents [B, D] for terminal [B, S, D], from `goal_emb` [B, T, D] or [B, S, T, D]; without gradient."""
    goal, (batch, _, size) = info.get("goal_emb"), terminal.shape
    if goal is None or goal.ndim not in (3, 4) or len(goal) != batch or goal.shape[-1] != size:
        found = "missing" if goal is None else tuple(goal.shape)
        raise ReachcostError(f"goal_emb is {found}: give latents [B = {batch}, frames, D = {size}]")
    return (goal[:, -1] if goal.ndim == 3 else goal[:, 0, -1]).detach()


def _require_tensor(info: dict[str, Any], key: str) -> Tensor:
    if not isinstance(found := info.get(key), Tensor):
        raise ReachcostError(f"the info dictionary has no {key!r}: plan in a World with goals, see World.evaluate")
    return found


def _require_frames(info: dict[str, Any], key: str, dimensions: int) -> Tensor:
    found = _require_tensor(info, key)
    if found.dtype != torch.uint8 or found.ndim != dimensions:
        raise ReachcostError(
            f"{key} are {found.dtype} {tuple(found.shape)}: give uint8 frames [..., T, height, width, 3] as rendered, "
            "without the policy's transform"
        )
    return found
