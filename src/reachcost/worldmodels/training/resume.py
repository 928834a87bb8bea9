"""What an interrupted training continues from; what is not whole is refused, as it would train another model."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from reachcost.core.atomic import read_with_checksum, write_with_checksum
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.worldmodels.training.train import Training

STATE = "training.pt"
TOLD = ("step", "one_step", "rollout", "seconds")
"""What every point of a curve tells, among others."""
Curve = list[dict[str, float]]


def save(training: Training, path: Path, curve: Curve, best: dict[str, Tensor]) -> None:
    """Keep a training as it is."""
    beside = training.phase.beside
    state = {
        "origin": training.origin,
        "curve": curve,
        "best": best,
        "parts": training.parts.state_dict(),
        "optimizer": training.phase.optimizer.state_dict(),
        "beside": beside.state_dict() if beside is not None else {},
    }
    content = io.BytesIO()
    torch.save(state, content)
    write_with_checksum(path, content.getvalue())


def resume(training: Training, path: Path) -> tuple[Curve, dict[str, Tensor]]:
    """Put a training where it was kept, if it was; return the curve so far and its best weights."""
    if not path.exists():
        return [], {}
    try:
        state = torch.load(io.BytesIO(read_with_checksum(path)), weights_only=True, map_location=training.plan.device)
        require_origin(path, state["origin"], training.origin)
        _restore(training, state)
    except ReachcostError:
        raise
    except Exception as error:  # torch raises many kinds for what is not its own
        reason = str(error).partition("\n")[0]
        raise ReachcostError(f"{path} is no whole state of a training ({reason}): remove it to start again") from error
    return state["curve"], state["best"]


def _restore(training: Training, state: dict[str, Any]) -> None:
    for point in state["curve"]:
        if not all(isinstance(point[name], int | float) for name in TOLD):
            raise TypeError("its curve holds no numbers")
    training.parts.load_state_dict(state["best"])  # that they fit is known now
    training.parts.load_state_dict(state["parts"])
    training.enter(int(state["curve"][-1]["step"]))
    if training.phase.beside is not None:
        training.phase.beside.load_state_dict(state["beside"])
    optimizer = training.phase.optimizer
    optimizer.load_state_dict(state["optimizer"])
    for weight, moments in optimizer.state.items():
        if any(moment.ndim and moment.shape != weight.shape for moment in moments.values()):
            raise ValueError("its optimiser belongs to other weights")


def require_origin(path: Path, recorded: dict[str, Any], origin: dict[str, Any]) -> None:
    """Refuse what was trained otherwise."""
    for key, value in origin.items():
        before = recorded.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            require_origin(path, before, value)
        elif before != value:
            raise ReachcostError(f"{path} was trained with {key} {before}, not {value}: choose another --out")
