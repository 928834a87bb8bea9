"""To look at what a device computed is to wait for it: inside a plan nothing is looked at, and all of it at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from torch import Tensor

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
def looking_later() -> Iterator[None]:
    """Ask at the end what `refuse_if` was asked meanwhile."""
    outer, _OPEN.questions = getattr(_OPEN, "questions", None), []
    try:
        yield
        for wrong, refusal in _OPEN.questions:
            if wrong:
                refusal()
    finally:
        _OPEN.questions = outer
