"""The machine and this process: processor, versions, free memory, interrupts."""

from __future__ import annotations

import hashlib
import importlib.metadata
import mmap
import os
import platform
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


PAGE = os.sysconf("SC_PAGE_SIZE")


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what this machine has no memory for.

    >>> require_memory(2**60, "an array", "cut it into parts")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: an array needs 1,073,741,824.0 GB of memory, more than there is: cut it into parts
    """
    if needed > available_memory():
        raise ReachcostError(f"{what} needs {needed / 2**30:,.1f} GB of memory, more than there is: {remedy}")


def available_memory() -> int:
    """Bytes that this process may still use, as far as the system tells."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    try:
        told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = 1024 * int(told["MemAvailable"].split()[0])
        used = PAGE * int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, LookupError):  # another system, where all of it has to do
        return PAGE * os.sysconf("SC_PHYS_PAGES")
    return free if limit == resource.RLIM_INFINITY else min(free, max(0, limit - used))


def try_memory(size: int) -> None:
    """Raise MemoryError if so many bytes cannot be had: now, where a library would crash for want of them."""
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(f"{size} bytes") from error


class Terminated(KeyboardInterrupt):
    """SIGTERM: whoever tidies up after Ctrl-C does so then, too."""


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the end of the block.

    Python raises what they mean in whatever runs next. After a long call into a library that is often one of its
    finalizers or callbacks, where exceptions are lost.

    >>> try:
    ...     with defer_interrupts():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("this is done first")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    this is done first
    interrupted
    """
    if threading.current_thread() is not threading.main_thread():  # no signal is raised there
        yield
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    came: list[tuple[int, FrameType | None]] = []
    try:
        for number, handler in usual.items():
            if callable(handler):
                signal.signal(number, lambda *what: came.append(what))
        yield
    finally:
        for number, handler in usual.items():
            if callable(handler):
                signal.signal(number, handler)
        for number, frame in came[:1]:
            handler = usual[signal.Signals(number)]
            assert callable(handler)
            handler(number, frame)
