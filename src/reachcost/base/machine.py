"""What records tell of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path


def processor() -> str:
    """Name of the processor, as well as the system tells."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.processor()


def machine() -> str:
    """Processor and number of usable cores."""
    return (
        f"{processor()}, {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores"
    )


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    packages = {name: importlib.metadata.version(name) for name in ("reachcost", "torch", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
