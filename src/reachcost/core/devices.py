"""Where networks compute, and checks of their results that do not interrupt a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import torch
from torch import Tensor

from reachcost.errors import ReachcostError

_AUTO: list[str] = []
"""What `auto` is, if a command was told."""


def use_device(name: str) -> None:
    """Make a device what `auto` means from now on; `auto` itself is a GPU if there is one."""
    _AUTO[:] = [] if name == "auto" else [choose_device(name)]


def choose_device(name: str) -> str:
    """Return the device of that name, what was chosen or else a GPU if there is one for `auto`; refuse a missing one.

    >>> choose_device("cpu")
    'cpu'
    """
    if name == "auto":
        return _AUTO[0] if _AUTO else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ReachcostError(f"there is no device {name!r} here ({str(error).splitlines()[0]}): use cpu") from error
    return name


def device_of(thing: object) -> torch.device:
    """Where a network or a world model computes: its weights, or its `device`; by default the processor.

    >>> device_of(torch.nn.Linear(1, 1)), device_of("nothing that computes")
    (device(type='cpu'), device(type='cpu'))
    """
    if isinstance(thing, torch.nn.Module) and not hasattr(thing, "device"):
        return next((weight.device for weight in thing.parameters()), torch.device("cpu"))
    return torch.device(getattr(thing, "device", "cpu"))


def move_to_device(module: torch.nn.Module, device: torch.device) -> None:
    """Move a network to a device, once: where everything else is that it computes with."""
    if any(weight.device != device for weight in module.parameters()):
        with torch.inference_mode(False):  # a planner may run in that mode, and gradients come after it
            module.to(device)


class DeviceCopies:
    """A tensor, copied once to each device that asks for it.

    >>> DeviceCopies(torch.ones(2)).on(torch.device("meta")).device
    device(type='meta')
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._copies = {tensor.device: tensor}

    def on(self, device: torch.device) -> torch.Tensor:
        """The copy there."""
        if device not in self._copies:
            self._copies[device] = next(iter(self._copies.values())).to(device)
        return self._copies[device]


_OPEN = threading.local()


def refuse_if(wrong: Tensor, refusal: Callable[[], NoReturn]) -> None:
    """Call a refusal if a tensor [] is true: at once on a processor, else when the plan that asked is made."""
    if wrong.is_meta:  # shapes alone, and nothing to see
        return
    questions = getattr(_OPEN, "questions", None)
    if questions is not None and wrong.device.type != "cpu":
        questions.append((wrong, refusal))
    elif wrong:
        refusal()


@contextmanager
def defer_device_checks() -> Iterator[None]:
    """Ask at the end what `refuse_if` was asked meanwhile."""
    outer, _OPEN.questions = getattr(_OPEN, "questions", None), []
    try:
        yield
        for wrong, refusal in _OPEN.questions:
            if wrong:
                refusal()
    finally:
        _OPEN.questions = outer
