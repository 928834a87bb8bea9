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
"""Entry point group through which other packages add commands."""


def commands() -> dict[str, Callable[..., int | None]]:
    """Commands of the library and of installed packages, by name."""
    found = dict(COMMANDS)
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()
        except (ImportError, AttributeError) as error:
            text = f"the command {entry.name} of {entry.value} cannot be imported ({error}): install that package again"
            warnings.warn(text, ReachcostWarning, stacklevel=2)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code: that of the command, or 1 after an error that was explained."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        console.print(f"reachcost {version('reachcost')}", highlight=False)
        return 0
    asked[:] = arguments
    try:
        with _interruptible(), _terminable(), _plain_warnings():
            code = parse(commands(), arguments)()
    except KeyboardInterrupt as interrupt:
        how, code = ("terminated", 143) if isinstance(interrupt, Terminated) else ("interrupted", INTERRUPTED)
        _print_error(f"reachcost: {how}; saved files are complete, and the same command uses them", "yellow")
        return code
    except Exception as error:
        message = _message_of(error)
        if not message:
            raise
    else:
        return code or 0
    _print_error(f"reachcost: {message}", "red")  # the exception and the memory that it held are released by now
    return 1


def _message_of(error: Exception) -> str:
    """The message for an error that is not a bug of the program; empty for others."""
    if isinstance(error, ReachcostError):
        return str(error)
    if ran_out(error):
        return (
            "memory ran out; saved files are complete: end other programs or reduce the sizes, and repeat the command"
        )
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        return f"the system refused{where} ({error.strerror or error}): choose another --out"
    return ""


def _print_error(text: str, style: str) -> None:
    try:
        PlainConsole(stderr=True).print(text, style=style, highlight=False, soft_wrap=True)
    except (MemoryError, ImportError):  # no memory for more than that
        sys.stderr.write(f"{text}\n")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C an exception during a command, which cleans up; before and after, it ends the program."""
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
    """Make SIGTERM an exception in the main thread; forks end as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner, before, unraisable = os.getpid(), signal.getsignal(signal.SIGTERM), sys.unraisablehook

    def terminate(number: int, frame: Any) -> None:
        if os.getpid() != owner:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise Terminated

    def repeat(lost: Any) -> None:
        # an exception in a finalizer (h5py has many) is lost: send the signal again
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            unraisable(lost)
            return
        number = signal.SIGTERM if issubclass(lost.exc_type, Terminated) else signal.SIGINT
        timer = threading.Timer(0.01, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, terminate)
    sys.unraisablehook = repeat
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = unraisable


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print our warnings as one line, without the line of code that raised them."""
    default = warnings.formatwarning

    def plain(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        if issubclass(category, ReachcostWarning):
            return f"warning: {escape_hidden(message)}\n"
        return default(message, category, *where, **more)

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = default
