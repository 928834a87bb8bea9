"""Devices of networks, and checks of their results that do not interrupt a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import torch
from torch import Tensor

from reachcost.errors import ReachcostError

_AUTO: list[str] = []
"""The device of `auto`, if a command set one."""


def use_device(name: str) -> None:
    """Set the device that `choose_device("auto")` returns."""
    _AUTO[:] = [] if name == "auto" else [choose_device(name)]


def choose_device(name: str) -> str:
    """A device, by name; `auto` is the one that `use_device` set, else a GPU if there is one."""
    if name == "auto":
        return _AUTO[0] if _AUTO else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ReachcostError(f"there is no device {name!r} here ({str(error).splitlines()[0]}): use cpu") from error
    return name


def device_of(thing: object) -> torch.device:
    """The device of a network or a world model: of its weights, or its `device`; by default the CPU."""
    if isinstance(thing, torch.nn.Module) and not hasattr(thing, "device"):
        return next((weight.device for weight in thing.parameters()), torch.device("cpu"))
    return torch.device(getattr(thing, "device", "cpu"))


def move_to_device(module: torch.nn.Module, device: torch.device) -> None:
    """Move a network to a device, unless it is there."""
    if any(weight.device != device for weight in module.parameters()):
        with torch.inference_mode(False):  # a planner may run in that mode, and training after it needs gradients
            module.to(device)


class DeviceCopies:
    """A tensor and its copies on other devices, each made once."""

    def __init__(self, tensor: Tensor) -> None:
        self._copies = {tensor.device: tensor}

    def on(self, device: torch.device) -> Tensor:
        """Return a copy on the device."""
        if device not in self._copies:
            self._copies[device] = next(iter(self._copies.values())).to(device)
        return self._copies[device]


_DEFERRED = threading.local()


def refuse_if(wrong: Tensor, refusal: Callable[[], NoReturn]) -> None:
    """Call a refusal if a tensor [] is true: at once on a CPU, else when the current plan is complete."""
    if wrong.is_meta:  # it has no value
        return
    checks = getattr(_DEFERRED, "checks", None)
    if checks is not None and wrong.device.type != "cpu":
        checks.append((wrong, refusal))
    elif wrong:
        refusal()


@contextmanager
def defer_device_checks() -> Iterator[None]:
    """Defer the checks of `refuse_if` to the end of the block."""
    outer, _DEFERRED.checks = getattr(_DEFERRED, "checks", None), []
    try:
        yield
        for wrong, refusal in _DEFERRED.checks:
            if wrong:
                refusal()
    finally:
        _DEFERRED.checks = outer
