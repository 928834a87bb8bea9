"""Asking a world model for latents, and for where candidates end; what is no answer is refused, and the model named."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import PurePath
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import device_of, refuse_if
from reachcost.core.parallel import all_threads
from reachcost.data.fingerprint import name_of
from reachcost.errors import FOREIGN_ERRORS, ReachcostError, refuse
from reachcost.protocols import Observations, WorldModel


def require_model(model: object, *parts: str) -> None:
    """Refuse what is no world model, or one without these parts; by default all that planning needs."""
    wanted = parts or ("latent_dim", "action_dim", "encode", "rollout")
    if model is None or isinstance(model, str | PurePath | type):
        refuse(model, "the world model", "load it, rc.load_world_model(name), or make one of your own")
    if missing := [part for part in wanted if not hasattr(model, part)]:
        refuse(model, "the world model", f"it lacks {', '.join(missing)}, see reachcost.WorldModel")


def history_of(model: object) -> int:
    """Frames of context, one action block apart, that a world model reads at most: its `history`, by default 1."""
    history = getattr(model, "history", 1)
    if isinstance(history, bool) or not isinstance(history, int | np.integer) or history < 1:
        raise ReachcostError(f"`history` of the world model is {history!r}: make it a positive int, or leave it out")
    return int(history)


def encoded(
    model: WorldModel, observations: Observations, rows: int, remedy: str = "give states as they are logged"
) -> Tensor:
    """The latents of `rows` observations [rows, D] in single precision, and nothing else.

    Args:
        model: The world model.
        observations: What it encodes.
        rows: How many they are.
        remedy: What to do about observations that it cannot encode.
    """
    try:
        latents = model.encode(observations)
    except ReachcostError:
        raise
    except FOREIGN_ERRORS as error:
        raise ReachcostError(
            f"`encode` of the world model {name_of(model)} failed on {rows} observations with "
            f"{', '.join(observations)} ({type(error).__name__}: {error}): {remedy}, or mend it; "
            "reachcost.check_world_model tests it"
        ) from error
    require_shape(model, "encode", latents, (rows, model.latent_dim))
    return _single(latents)


def ends_of(model: WorldModel, context: Tensor, actions: Tensor) -> Tensor:
    """Where candidates end: context [B, T, D], actions [B, S, T - 1 + H, A] -> [B, S, D], and nothing else.

    >>> import torch
    >>> from reachcost.tasks import ExactTopoNav
    >>> model = ExactTopoNav()
    >>> ends_of(model, model.latents[:2, None], torch.zeros(2, 3, 4, 1, dtype=torch.long)).shape
    torch.Size([2, 3, 10])
    """
    device = device_of(model)
    with nullcontext() if getattr(model, "in_pieces", False) else all_threads():
        ends = model.rollout(context.to(device), actions.to(device))
    require_shape(model, "rollout", ends, (*actions.shape[:2], model.latent_dim))

    def refusal() -> NoReturn:
        wrong = ~torch.isfinite(ends).all(2)
        raise ReachcostError(
            f"`rollout` of the world model {name_of(model)} predicts {int(wrong.sum())} of {wrong.numel()} "
            "candidates to end in numbers that are not finite: check its predictor and what it makes of large "
            "actions; reachcost.check_world_model tests it"
        )

    refuse_if(~torch.isfinite(ends).all(), refusal)
    return _single(ends)


def _single(latents: Tensor) -> Tensor:
    """Single precision, which heads and costs are in; numbers of states stay whole."""
    return latents.float() if latents.is_floating_point() else latents


def require_shape(model: object, method: str, found: object, shape: tuple[int, ...]) -> None:
    """Refuse what a method of a world model returned if it is no tensor of that shape."""
    if not isinstance(found, Tensor) or found.shape != shape:
        returned = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ReachcostError(
            f"`{method}` of the world model {name_of(model)} returned {returned}: return a torch.Tensor {shape}; "
            "reachcost.check_world_model tests it"
        )
