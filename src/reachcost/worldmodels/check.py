"""`check_world_model`: the contract of a frozen world model, made executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.data.actions import blocks_of
from reachcost.data.models import history_of, parts_of
from reachcost.errors import ReachcostError, call_foreign
from reachcost.protocols import Observations, WorldModel


def check_world_model(model: WorldModel, observations: Observations, actions: Tensor) -> None:
    """Raise a `ReachcostError` that teaches, if `model` breaks the contract planning relies on.

    Args:
        model: The model to check.
        observations: At least two different observations, as the model's `encode` takes them.
        actions: Candidate action blocks [B, S, H, A], B no larger than the number of observations.

    Checked: attributes, eval mode, no gradient, shapes, finite floats (planners round them to float32), determinism,
    that rows and candidates do not mix, that actions matter; with a `history`, for a context of one frame and of as
    many as it reads.

    >>> from reachcost import make_task
    >>> from reachcost.tasks.toponav.features import ExactTopoNav
    >>> observations = make_task("toponav").observe(np.array([[1, 1], [27, 3]]))
    >>> check_world_model(ExactTopoNav(), observations, torch.randint(5, (2, 6, 12, 1)))
    """
    require_contract(model)
    if not isinstance(observations, Mapping):
        _fail(f"got observations of type {type(observations).__name__}", "pass a mapping of column name to array")
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
    batch, samples = actions.shape[:2]

    latents = _check_function(
        "encode",
        lambda part: model.encode({name: column[part] for name, column in columns.items()}),
        (rows, model.latent_dim),
    ).float()  # as planners give them to a rollout
    if torch.equal(latents[0], latents[1]):
        _fail("encode maps the first two observations to the same latent", "pass two that differ, or mend encode")

    for count in sorted({1, history_of(model)}):
        frames = torch.arange(batch)[:, None] + torch.arange(1 - count, 1)
        blocks = torch.arange(count - 1) % actions.shape[2]
        past = actions[:, :1, blocks].expand(-1, samples, -1, -1)
        _check_rollout(model, latents[frames % rows], torch.cat([past, actions], dim=2))


def require_contract(model: WorldModel) -> None:
    """Refuse a model without the two attributes and methods, one that is not frozen, and wrong optional attributes."""
    _check_attributes(model)
    _check_frozen(model)
    history_of(model)
    blocks = blocks_of(model)
    if blocks is not None and blocks.size != model.action_dim:
        _fail(f"`actions` make blocks of {blocks.size} numbers, `action_dim` is {model.action_dim}", "make them agree")


def _check_rollout(model: WorldModel, context: Tensor, actions: Tensor) -> None:
    """Check rollouts from contexts [B, T, D] with actions [B, S, T - 1 + H, A]."""
    batch, samples = actions.shape[:2]
    name = "rollout" if context.shape[1] == 1 else f"rollout from {context.shape[1]} frames"
    if history_of(model) > 1:
        _quietly(lambda: model.rollout(context, actions), _SOME_FRAMES.format(context.shape[1]))
    terminal = _check_function(
        name, lambda part: model.rollout(context[part], actions[part]), (batch, samples, model.latent_dim)
    )
    alone = _quietly(lambda: model.rollout(context, actions[:, :1]))
    reversed_ = _quietly(lambda: model.rollout(context, actions.flip(1))).flip(1)
    if not (_close(alone, terminal[:, :1]) and _close(reversed_, terminal)):
        _fail(f"{name} of a candidate changes with the other candidates", "treat the S axis as a batch axis")
    if samples > 1 and (terminal == terminal[:, :1]).all() and not (actions == actions[:, :1]).all():
        _fail(f"{name} ends in the same latent whatever the actions", "make it follow the actions, or pass other ones")


_SOME_FRAMES = (
    "take a context of {} frame(s) too; an episode begins with one, which a model that wants more may repeat, and with "
    "T frames come T - 1 + H blocks"
)


def _fail(what: str, remedy: str) -> None:
    raise ReachcostError(f"world model: {what}: {remedy}")


def _check_attributes(model: object) -> None:
    if isinstance(model, type):
        _fail(f"got the class {model.__name__}", "pass an instance of it")
    for name in ("latent_dim", "action_dim"):
        value = getattr(model, name, None)
        if not isinstance(value, int) or value < 1:
            _fail(f"`{name}` is {value!r}", "make it a positive int")
    for name in ("encode", "rollout"):
        if not callable(getattr(model, name, None)):
            _fail(f"no method `{name}`", "see reachcost.WorldModel for the two methods and their shapes")


def _check_frozen(model: object) -> None:
    for module in (part for _, part in parts_of(model) if isinstance(part, nn.Module)):
        if any(part.training for part in module.modules()):
            _fail("it is in train mode, so dropout and batch statistics are live", "call .eval() on it")
        if any(parameter.requires_grad for parameter in module.parameters()):
            _fail("its parameters require gradients", "freeze it with .requires_grad_(False)")


def _quietly(call: Callable[[], Tensor], remedy: str = "see reachcost.WorldModel for the shapes") -> Tensor:
    return call_foreign(call, "world model: it failed on a batch of the documented shapes", remedy)


def _close(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-5)


def _check_function(name: str, call: Callable[[list[int]], Tensor], shape: tuple[int, ...]) -> Tensor:
    everything = list(range(shape[0]))
    whole = _quietly(lambda: call(everything))
    if not isinstance(whole, Tensor):
        _fail(f"{name} returned {type(whole).__name__}", "return a torch.Tensor")
    if whole.requires_grad:
        _fail(f"{name} builds a gradient graph", "wrap it in torch.no_grad() or detach its result")
    if not whole.is_floating_point():
        _fail(f"{name} returned {whole.dtype}", "return float32")
    if whole.shape != shape:
        _fail(f"{name} returned shape {tuple(whole.shape)}", f"return {shape}")
    if not torch.isfinite(whole).all():
        row = int(torch.argwhere(~torch.isfinite(whole))[0, 0])
        _fail(f"{name} returned non-finite numbers (first in row {row})", "check weights and input normalisation")
    if not torch.equal(whole, _quietly(lambda: call(everything))):
        _fail(f"{name} gives different results for the same input", "remove dropout, sampling and hidden state")
    alone, reversed_ = _quietly(lambda: call([0])), _quietly(lambda: call(everything[::-1]))
    if not (_close(alone, whole[:1]) and _close(reversed_.flip(0), whole)):
        _fail(f"{name} of a row changes with the other rows", "use running statistics; never mix rows")
    return whole
