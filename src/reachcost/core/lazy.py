"""Public names of a package, listed in its stub and imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader

from reachcost.errors import did_you_mean


def names_of_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package with a stub next to its `__init__.py`."""
    load, names, known = lazy_loader.attach_stub(package, file)

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"{package} has no {name!r}: {did_you_mean(name, known)}")
        return load(name)

    return find, names, known
