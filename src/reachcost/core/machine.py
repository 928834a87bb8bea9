"""The machine and this process: processor, versions, free memory, deferred interrupts."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

from reachcost.errors import ReachcostError


def processor() -> str:
    """Name of the processor, as the system reports it."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:(.*)", info.read_text()) if info.exists() else []
    return names[0].strip() if names else platform.processor()


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """Processor and number of usable cores."""
    return f"{processor()}, {cores()} cores"


@cache
def code_sha256() -> str:
    """sha256 over the code of reachcost, as different code may have one version."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache  # it reads packages from disk, and every run needs it
def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on."""
    packages = {name: importlib.metadata.version(name) for name in ("reachcost", "torch", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse work that needs more memory than this machine has."""
    if needed > available_memory():
        raise ReachcostError(f"{what} needs {needed / 2**30:,.1f} GB of memory, more than there is: {remedy}")


def available_memory() -> int:
    """Bytes that this process may still use, as the system reports them."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        info = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = 1024 * int(info["MemAvailable"].split()[0])
        used = page * int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, LookupError):  # not Linux: all memory of the machine
        return page * os.sysconf("SC_PHYS_PAGES")
    return free if limit == resource.RLIM_INFINITY else min(free, max(0, limit - used))


class Terminated(KeyboardInterrupt):
    """SIGTERM: code that cleans up after Ctrl-C also cleans up after it."""


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM to the end of the block.

    Python raises their exceptions in the code that runs next. After a long call into a library, that is often one of
    its finalizers or callbacks, where exceptions are lost.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are raised in the main thread
        yield
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {int(number): handler for number, handler in found.items() if callable(handler)}
    received: list[tuple[int, FrameType | None]] = []
    try:
        for number in handlers:
            signal.signal(number, lambda *what: received.append(what))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in received[:1]:
            handlers[number](number, frame)
