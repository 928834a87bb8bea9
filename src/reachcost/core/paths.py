"""Places on disk as people write them."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

_BROUGHT: dict[str, Path] = {}
"""Places by what people write for them, where that is on another machine."""


def expanded(path: str | Path) -> Path:
    """A path with the home directory for `~`; as it is, where nobody knows of one. What was brought here is here.

    >>> expanded("runs/model").name
    'model'
    """
    if (brought := _BROUGHT.get(str(Path(path)))) is not None:
        return brought
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def bring(places: Mapping[str, Path]) -> None:
    """From now on, take what people write for a place for another one: a copy of it on this machine.

    >>> bring({"nowhere/maze.py": Path("/tmp/maze.py")})
    >>> expanded("nowhere/maze.py").name
    'maze.py'
    """
    _BROUGHT.update({str(Path(written)): place for written, place in places.items()})


def user_files(reads: Iterable[str]) -> Iterable[Path]:
    """Files that a study reads, and loaded modules of no installed package."""
    for path in map(expanded, reads):
        yield from (file for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file())
    modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    yield from (Path(file) for file in modules if file and _is_own(file))


@cache  # there are thousands of modules
def _is_own(module: str) -> bool:
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[2])
    path = Path(module)
    return path.suffix == ".py" and path.is_file() and not any(path.resolve().is_relative_to(one) for one in installed)
