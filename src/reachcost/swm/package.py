"""The door to stable-worldmodel itself, which only its own worlds need: the extra `swm`, imported without noise."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from reachcost.errors import ReachcostError


def import_stable_worldmodel() -> Any:
    """The package `stable_worldmodel`, with its environments known to Gymnasium."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every environment whose own extra is missing
        try:
            _import_torchvision()
            import stable_worldmodel
        except ImportError as error:
            raise ReachcostError(f"this needs stable-worldmodel ({error}): pip install 'reachcost[swm]'") from error
    return stable_worldmodel


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Give its solvers a `print` that prints nothing, and ignore what its environments make Gymnasium warn of.

    Standard output itself is left alone: progress is shown there meanwhile.
    """
    package = "stable_worldmodel.solver."
    solvers: list[Any] = [module for name, module in sys.modules.items() if name.startswith(package)]
    for module in solvers:
        module.print = _print_nothing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for module in solvers:
            module.__dict__.pop("print", None)


def _print_nothing(*values: object, **options: object) -> None:
    """Take what `print` takes."""


def _import_torchvision() -> None:
    """Import torchvision, which stable-worldmodel needs.

    The build that a package index offers can be one for CUDA beside a torch for the CPU. Its import then looks for two
    operators that are missing; declaring them is enough, as nothing here calls them.
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
