"""The `reachcost` command."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points, version
from typing import Any

from reachcost.commands import asked, console
from reachcost.commands.audit import audit
from reachcost.commands.check import check
from reachcost.commands.compare import compare
from reachcost.commands.demo import demo
from reachcost.commands.evaluate import evaluate
from reachcost.commands.explore import explore
from reachcost.commands.fit import fit
from reachcost.commands.logs import generate_logs
from reachcost.commands.parsing import parse
from reachcost.commands.push import push
from reachcost.commands.report import report
from reachcost.commands.reproduce import reproduce
from reachcost.commands.sweep import sweep
from reachcost.commands.train_model import train_model
from reachcost.core.machine import Terminated
from reachcost.core.progress import PlainConsole, escape_hidden
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost_command import INTERRUPTED, end, ran_out

COMMANDS = {
    "demo": demo,
    "audit": audit,
    "fit": fit,
    "compare": compare,
    "explore": explore,
    "evaluate": evaluate,
    "reproduce": reproduce,
    "sweep": sweep,
    "report": report,
    "logs generate": generate_logs,
    "train-model": train_model,
    "check": check,
    "push": push,
}
GROUP = "reachcost.commands"
"""Name of the entry point through which other packages add commands."""


def commands() -> dict[str, Callable[..., int | None]]:
    """Every command by its name: those of the library, then those that installed packages add."""
    found = dict(COMMANDS)
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()
        except (ImportError, AttributeError) as error:
            what = f"the command {entry.name} of {entry.value} cannot be imported ({error}): install that package again"
            warnings.warn(what, ReachcostWarning, stacklevel=2)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; what the command returns, 0 if nothing, 1 on a mistake that the message explains."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        console.print(f"reachcost {version('reachcost')}", highlight=False)
        return 0
    asked[:] = arguments
    try:
        with _interruptible(), _terminable(), _plain_warnings():
            code = parse(commands(), arguments)()
    except KeyboardInterrupt as interrupt:
        terminated = isinstance(interrupt, Terminated)
        how = "terminated" if terminated else "interrupted"
        _tell(f"reachcost: {how}; what is saved is whole, and the same command uses it", "yellow")
        return 143 if terminated else INTERRUPTED
    except Exception as error:
        refused = _refusal(error)
        if not refused:
            raise
    else:
        return code or 0
    _tell(f"reachcost: {refused}", "red")  # what failed is forgotten by now, and with it the memory that it held
    return 1


def _refusal(error: Exception) -> str:
    """What to say of an error that the program is not to blame for; nothing of others."""
    if isinstance(error, ReachcostError):
        return str(error)
    if ran_out(error):
        return "memory ran out; what is saved is whole: end other programs, or ask for less, and repeat the command"
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        return f"the system refused{where} ({error.strerror or error}): choose another --out"
    return ""


def _tell(text: str, style: str) -> None:
    """Print a sentence as text, whatever a name or a path in it holds."""
    try:
        PlainConsole(stderr=True).print(text, style=style, highlight=False, soft_wrap=True)
    except (MemoryError, ImportError):  # there is no memory left for more than that
        sys.stderr.write(f"{text}\n")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C an exception while there is somebody to tidy up after it; before and after, it ends the program."""
    if signal.getsignal(signal.SIGINT) is not end:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, end)


@contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM an exception; only the main thread may, and forks of it end as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner, before, unraisable = os.getpid(), signal.getsignal(signal.SIGTERM), sys.unraisablehook

    def terminate(number: int, frame: Any) -> None:
        if os.getpid() != owner:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise Terminated

    def again(lost: Any) -> None:
        # It may come while a finalizer runs (h5py has many), which can raise nothing: then it comes once more.
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            unraisable(lost)
            return
        number = signal.SIGTERM if issubclass(lost.exc_type, Terminated) else signal.SIGINT
        late = threading.Timer(0.01, os.kill, (os.getpid(), number))
        late.daemon = True
        late.start()

    signal.signal(signal.SIGTERM, terminate)
    sys.unraisablehook = again
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = unraisable


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print what a user is warned of as one line, without the line of code that says so; only for a while."""
    usual = warnings.formatwarning

    def plain(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        return (
            f"warning: {escape_hidden(message)}\n"
            if issubclass(category, ReachcostWarning)
            else usual(message, category, *where, **more)
        )

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = usual
