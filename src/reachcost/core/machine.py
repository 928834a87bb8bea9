"""What records tell of the machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from functools import cache
from pathlib import Path


def processor() -> str:
    """Name of the processor, as well as the system tells."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.processor()


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """Processor and number of usable cores."""
    return f"{processor()}, {cores()} cores"


@cache
def code_sha256() -> str:
    """sha256 over the code of reachcost: two states of it may bear one version."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache  # packages are read from disk for it, and every run asks
def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    packages = {name: importlib.metadata.version(name) for name in ("reachcost", "torch", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
