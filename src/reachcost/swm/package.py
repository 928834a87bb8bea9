"""Import of stable-worldmodel, the extra `swm`, without its warnings and prints."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from reachcost.errors import ReachcostError


def import_stable_worldmodel() -> Any:
    """Return the package `stable_worldmodel`; its environments are then registered in Gymnasium."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every environment whose extra is missing
        try:
            _import_torchvision()
            import stable_worldmodel
        except ImportError as error:
            raise ReachcostError(f"this needs stable-worldmodel ({error}): pip install 'reachcost[swm]'") from error
    return stable_worldmodel


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Stop its solvers from printing, and ignore warnings that its environments cause in Gymnasium.

    Standard output is not redirected, because progress is shown there.
    """
    package = "stable_worldmodel.solver."
    solvers: list[Any] = [module for name, module in sys.modules.items() if name.startswith(package)]
    for module in solvers:
        module.print = lambda *values, **options: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for module in solvers:
            module.__dict__.pop("print", None)


def _import_torchvision() -> None:
    """Import torchvision, which stable-worldmodel needs.

    A torchvision built for CUDA next to a torch for the CPU looks for two missing operators. Declaring them is enough,
    because nothing here calls them.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
        import torchvision  # noqa: F401


_DECLARED: list[torch.library.Library] = []
"""Declarations last as long as their library."""
