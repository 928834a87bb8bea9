"""World models of users: the check of their contract, and the action blocks that planners need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.devices import device_of
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.logs import Logs
from reachcost.data.models import fingerprint_of, history_of, name_of, parts_of
from reachcost.errors import ReachcostError, call_foreign, require_type
from reachcost.protocols import Observations, WorldModel

Units = Literal["standardised", "environment"]


def check_world_model(model: WorldModel, observations: Observations, actions: Tensor | None = None) -> None:
    """Raise a `ReachcostError` that says what to fix if `model` breaks the contract of `WorldModel`.

    Checked: attributes, eval mode, no gradients, shapes, finite floats, determinism, independence of the other rows and
    candidates, and an effect of the actions. A model with a `history` is checked with one frame and with all.

    Args:
        model: The model to check.
        observations: At least two different observations, as the model's `encode` takes them.
        actions: Candidate action blocks [B, S, H, A], B no larger than the number of observations; by default random
            ones. Pass indices for discrete actions.

    >>> from reachcost import make_task
    >>> from reachcost.tasks.toponav.features import ExactTopoNav
    >>> observations = make_task("toponav").observe(np.array([[1, 1], [27, 3]]))
    >>> check_world_model(ExactTopoNav(), observations, torch.randint(5, (2, 6, 12, 1)))
    """
    require_contract(model)
    if not isinstance(observations, Mapping):
        _fail(f"got observations of type {type(observations).__name__}", "pass a mapping of column name to array")
    if actions is None:
        actions = torch.randn(2, 8, 5, model.action_dim, generator=torch.Generator().manual_seed(0))
    actions = torch.as_tensor(actions)
    columns = {name: np.asarray(observations[name]) for name in observations}
    rows = min((len(column) for column in columns.values()), default=0)
    if rows < 2:
        _fail("needs at least two observations to test batches", "pass two or more different rows")
    if actions.ndim != 4 or actions.shape[-1] != model.action_dim or len(actions) > rows:
        _fail(
            f"got actions of shape {tuple(actions.shape)}",
            f"pass [B <= {rows}, S, H, A = {model.action_dim}], one start observation per B",
        )

    def encode(part: list[int]) -> Tensor:
        return model.encode({name: column[part] for name, column in columns.items()})

    latents = _check_function("encode", encode, (rows, model.latent_dim)).float()
    if torch.equal(latents[0], latents[1]):
        _fail("encode maps the first two observations to the same latent", "pass two that differ, or fix encode")
    for count in sorted({1, history_of(model)}):
        frames = torch.arange(len(actions))[:, None] + torch.arange(1 - count, 1)
        blocks = torch.arange(count - 1) % actions.shape[2]
        past = actions[:, :1, blocks].expand(-1, actions.shape[1], -1, -1)
        _check_rollout(model, latents[frames % rows], torch.cat([past, actions], dim=2))


def require_contract(model: WorldModel) -> None:
    """Raise an error if attributes or methods of a model are missing or wrong, or if it is not frozen."""
    if isinstance(model, type):
        _fail(f"got the class {model.__name__}", "pass an instance of it")
    for name in ("latent_dim", "action_dim"):
        value = getattr(model, name, None)
        if not isinstance(value, int) or value < 1:
            _fail(f"`{name}` is {value!r}", "make it a positive int")
    for name in ("encode", "rollout"):
        if not callable(getattr(model, name, None)):
            _fail(f"no method `{name}`", "see reachcost.WorldModel for the two methods and their shapes")
    for module in (part for _, part in parts_of(model) if isinstance(part, nn.Module)):
        if any(part.training for part in module.modules()):
            _fail("it is in train mode, so dropout and batch statistics are live", "call .eval() on it")
        if any(parameter.requires_grad for parameter in module.parameters()):
            _fail("its parameters require gradients", "freeze it with .requires_grad_(False)")
    history_of(model)
    blocks_of(model)


def _check_rollout(model: WorldModel, context: Tensor, actions: Tensor) -> None:
    """Check rollouts from contexts [B, T, D] with actions [B, S, T - 1 + H, A]."""
    frames = context.shape[1]
    name = "rollout" if frames == 1 else f"rollout from {frames} frames"
    shape = (*actions.shape[:2], model.latent_dim)
    remedy = "see reachcost.WorldModel for the shapes"
    if history_of(model) > 1:
        remedy = f"accept contexts of {frames} frame(s); with T frames come T - 1 + H blocks"
    terminal = _check_function(name, lambda part: model.rollout(context[part], actions[part]), shape, remedy)
    alone = _call(name, lambda: model.rollout(context, actions[:, :1]))
    reversed_ = _call(name, lambda: model.rollout(context, actions.flip(1))).flip(1)
    if not (_close(alone, terminal[:, :1]) and _close(reversed_, terminal)):
        _fail(f"{name} of a candidate changes with the other candidates", "treat the S axis as a batch axis")
    if len(terminal[0]) > 1 and (terminal == terminal[:, :1]).all() and not (actions == actions[:, :1]).all():
        _fail(f"{name} ends in the same latent for all actions", "make it follow the actions, or pass other ones")


def _check_function(
    name: str, call: Callable[[list[int]], Tensor], shape: tuple[int, ...], remedy: str | None = None
) -> Tensor:
    """Check what a function returns for rows of a batch; return its result for all rows."""
    rows = list(range(shape[0]))
    found = _call(name, lambda: call(rows), remedy)
    if not isinstance(found, Tensor):
        _fail(f"{name} returned {type(found).__name__}", "return a torch.Tensor")
    if found.requires_grad:
        _fail(f"{name} builds a gradient graph", "wrap it in torch.no_grad() or detach its result")
    if not found.is_floating_point():
        _fail(f"{name} returned {found.dtype}", "return float32")
    if found.shape != shape:
        _fail(f"{name} returned shape {tuple(found.shape)}", f"return {shape}")
    if not torch.isfinite(found).all():
        row = int(torch.argwhere(~torch.isfinite(found))[0, 0])
        _fail(f"{name} returned non-finite numbers (first in row {row})", "check weights and input normalisation")
    if not torch.equal(found, _call(name, lambda: call(rows))):
        _fail(f"{name} gives different results for the same input", "remove dropout, sampling and hidden state")
    alone, reversed_ = _call(name, lambda: call([0])), _call(name, lambda: call(rows[::-1]))
    if not (_close(alone, found[:1]) and _close(reversed_.flip(0), found)):
        _fail(f"{name} of a row changes with the other rows", "use running statistics; never mix rows")
    return found


def _fail(what: str, remedy: str) -> None:
    raise ReachcostError(f"world model: {what}: {remedy}")


def _call(name: str, call: Callable[[], Tensor], remedy: str | None = None) -> Tensor:
    failed = f"world model: {name} failed on a batch of the documented shapes"
    return call_foreign(call, failed, remedy or "help(reachcost.WorldModel.encode) and .rollout show the shapes")


def _close(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-5)


def with_actions(
    model: WorldModel, logs: Logs | ActionBlocks, length: int = 1, *, clamp: bool = True, units: Units = "standardised"
) -> ModelWithActions:
    """Return a world model with action blocks, so that planners sample actions that the world can execute.

    Args:
        model: A frozen `WorldModel`.
        logs: Logs to measure the actions on (mean, deviation and range of each component), or the blocks themselves.
        length: Environment steps per step of the model (the frameskip); a block holds their actions.
        clamp: Clamp the actions that the model reads to the range of the logs. This is exact where the environment
            clips to that range. Planners still sample and execute unclamped actions, unless `CEM(bounds="logs")`.
        units: Units in which the model reads actions: `standardised` by the logs, or those of the `environment`.

    >>> class Sum:
    ...     latent_dim, action_dim = 2, 2
    ...     def encode(self, observations):
    ...         return torch.as_tensor(observations["state"])
    ...     def rollout(self, context, actions):
    ...         return context[:, -1, None] + actions.sum(2)
    >>> logs = Logs({"action": np.array([[0.0, 2.0], [4.0, 6.0], [0.0, 0.0]])}, np.array([3]))
    >>> model = with_actions(Sum(), logs, units="environment")
    >>> model.rollout(torch.zeros(1, 1, 2), torch.tensor([[[[0.0, 9.0]]]])).tolist()
    [[[2.0, 6.0]]]
    """
    require_contract(model)
    if blocks_of(model) is not None:
        raise ReachcostError(f"{name_of(model)} already has `actions`: plan with it directly")
    require_type(logs, Logs | ActionBlocks, "logs", "give rc.Logs, for example rc.open_logs(path)")
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
    return ModelWithActions(model, blocks, clamp, units)


class ModelWithActions:
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
            actions = actions.clamp(self._low, self._high)
        if self.units == "environment":
            actions = (actions * self._std + self._mean).float()
        return self.model.rollout(context, actions)
