"""reachcost: find out why a latent world-model planner fails, and repair its terminal cost from logs.

`__init__.pyi` lists the public names. They are imported on first use, so `import reachcost` does not load torch.
"""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from reachcost.core.lazy import names_of_stub

if sys.argv[:1] == ["-m"] and "reachcost" in sys.orig_argv:  # `python -m reachcost`: what follows takes a while
    from reachcost_command import listen

    listen()

from reachcost.tasks.registry import register_environments

_import, __dir__, __all__ = names_of_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    return importlib.metadata.version("reachcost") if name == "__version__" else _import(name)


register_environments()
