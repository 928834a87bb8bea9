"""`check_world_model`: the contract of a frozen world model, made executable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.errors import ReachcostError
from reachcost.protocols import Observations, WorldModel


def check_world_model(model: WorldModel, observations: Observations, actions: Tensor, history: int = 1) -> None:
    """Raise a `ReachcostError` that teaches, if `model` breaks the contract planning relies on.

    Args:
        model: The model to check.
        observations: At least two different observations, as the model's `encode` takes them.
        actions: Candidate action blocks [B, S, H, A], B no larger than the number of observations.
        history: T, the number of context frames the model expects.

    Checked: attributes, eval mode, no gradient, shapes, finite values, determinism, independence of the batch.

    >>> from reachcost.tasks import make_task
    >>> from reachcost.worldmodels.toponav import ExactTopoNav
    >>> observations = make_task("toponav").observe(np.array([[1, 1], [27, 3]]))
    >>> check_world_model(ExactTopoNav(), observations, torch.randint(5, (2, 6, 12, 1)))
    """
    _check_attributes(model)
    _check_frozen(model)
    columns = {name: np.asarray(observations[name]) for name in observations}
    rows = len(next(iter(columns.values())))
    if rows < 2:
        _fail("needs at least two observations to test batches", "pass two or more different rows")
    batch, samples = actions.shape[:2]
    if actions.ndim != 4 or actions.shape[-1] != model.action_dim or batch > rows:
        _fail(
            f"got actions of shape {tuple(actions.shape)}",
            f"pass [B <= {rows}, S, H, A = {model.action_dim}], one start observation per B",
        )

    latents = _check_function(
        "encode",
        lambda part: model.encode({name: column[part] for name, column in columns.items()}),
        (rows, model.latent_dim),
    )
    if torch.equal(latents[0], latents[1]):
        _fail("encode maps the first two observations to the same latent", "pass two that differ, or mend encode")

    context = latents[:batch, None].expand(batch, history, model.latent_dim).contiguous()
    terminal = _check_function(
        "rollout", lambda part: model.rollout(context[part], actions[part]), (batch, samples, model.latent_dim)
    )
    first = _quietly(lambda: model.rollout(context, actions[:, :1]))
    if not torch.allclose(first, terminal[:, :1], rtol=1e-4, atol=1e-5):
        _fail("rollout of a candidate changes with the other candidates", "treat the S axis as a batch axis")


def _fail(what: str, remedy: str) -> None:
    raise ReachcostError(f"world model: {what}: {remedy}")


def _check_attributes(model: object) -> None:
    for name in ("latent_dim", "action_dim"):
        value = getattr(model, name, None)
        if not isinstance(value, int) or value < 1:
            _fail(f"`{name}` is {value!r}", "make it a positive int")
    for name in ("encode", "rollout"):
        if not callable(getattr(model, name, None)):
            _fail(f"no method `{name}`", "see reachcost.WorldModel for the two methods and their shapes")


def _check_frozen(model: object) -> None:
    modules = [model] if isinstance(model, nn.Module) else [v for v in vars(model).values() if isinstance(v, nn.Module)]
    for module in modules:
        if any(part.training for part in module.modules()):
            _fail("it is in train mode, so dropout and batch statistics are live", "call .eval() on it")
        if any(parameter.requires_grad for parameter in module.parameters()):
            _fail("its parameters require gradients", "freeze it with .requires_grad_(False)")


def _quietly(call: Callable[[], Tensor]) -> Tensor:
    try:
        return call()
    except ReachcostError:
        raise
    except (TypeError, ValueError, RuntimeError, KeyError, IndexError) as error:
        raise ReachcostError(
            f"world model: it failed on a batch of the documented shapes ({type(error).__name__}: {error}): "
            "see reachcost.WorldModel for the shapes of encode and rollout"
        ) from error


def _check_function(name: str, call: Callable[[slice], Tensor], shape: tuple[int, ...]) -> Tensor:
    whole = _quietly(lambda: call(slice(None)))
    if not isinstance(whole, Tensor):
        _fail(f"{name} returned {type(whole).__name__}", "return a torch.Tensor")
    if whole.requires_grad:
        _fail(f"{name} builds a gradient graph", "wrap it in torch.no_grad() or detach its result")
    if whole.shape != shape:
        _fail(f"{name} returned shape {tuple(whole.shape)}", f"return {shape}")
    if not torch.isfinite(whole).all():
        row = int(torch.argwhere(~torch.isfinite(whole))[0, 0])
        _fail(f"{name} returned non-finite numbers (first in row {row})", "check weights and input normalisation")
    if not torch.equal(whole, _quietly(lambda: call(slice(None)))):
        _fail(f"{name} gives different results for the same input", "remove dropout, sampling and hidden state")
    alone = _quietly(lambda: call(slice(0, 1)))
    if alone.shape != (1, *shape[1:]) or not torch.allclose(alone[0], whole[0], rtol=1e-4, atol=1e-5):
        _fail(f"{name} of a row changes with the other rows", "use running statistics; never mix rows")
    return whole
