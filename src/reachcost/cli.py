"""The `reachcost` command."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
import warnings
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.metadata import entry_points, version
from inspect import signature
from io import StringIO
from itertools import chain
from typing import Any, get_type_hints

import tyro

from reachcost.commands import console, current
from reachcost.commands.audit import audit
from reachcost.commands.demo import demo
from reachcost.commands.explore import explore
from reachcost.commands.heads import compare, evaluate, fit
from reachcost.commands.models import check, generate_logs, push, train_model
from reachcost.commands.report import report
from reachcost.commands.reproduce import reproduce
from reachcost.commands.sweep import sweep
from reachcost.core.machine import Terminated
from reachcost.core.progress import PlainConsole, escape_hidden
from reachcost.errors import ReachcostError, ReachcostWarning, did_you_mean
from reachcost_command import INTERRUPTED, end, ran_out

Command = Callable[..., int | None]
COMMANDS: dict[str, Command] = {
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


def commands() -> dict[str, Command]:
    """Return the commands of the library and of installed packages, by name."""
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
    current[:] = arguments
    try:
        with _signals(), _plain_warnings():
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


def parse(commands: Mapping[str, Command], arguments: Sequence[str]) -> Callable[[], int | None]:
    """Return the command that the arguments name, ready to be called; bad usage and `--help` end the program here.

    >>> parse({"demo": demo, "push": push}, ["demo", "--episodes", "3"]).keywords["episodes"]
    3
    """
    given, shown = _joined(commands, arguments), StringIO()
    deferred = {name: _deferred(command) for name, command in commands.items()}
    config = (tyro.conf.FlagCreatePairsOff,)
    try:
        with redirect_stderr(shown):
            return tyro.extras.subcommand_cli_from_dict(deferred, args=given, prog="reachcost", config=config)
    except SystemExit:
        sys.stderr.write(_sentence(commands, given, shown.getvalue()) or shown.getvalue())
        raise


def _joined(commands: Mapping[str, Command], arguments: Sequence[str]) -> list[str]:
    """Join the two words of the command `logs generate`; `logs` alone shows its help."""
    for name in commands:
        words = name.split()
        if len(words) > 1 and [*arguments[: len(words)]] == words:
            return [name, *arguments[len(words) :]]
        if len(words) > 1 and [*arguments] in (words[:1], [words[0], "--help"], [words[0], "-h"]):
            return [name, "--help"]
    return [*arguments]


def _deferred(command: Command) -> Callable[..., Any]:
    """Return a function with the same arguments that calls nothing: output of the command is not a usage message."""

    def defer(*given: Any, **named: Any) -> Callable[[], int | None]:
        return partial(command, *given, **named)

    defer.__signature__ = signature(command)
    defer.__annotations__ = get_type_hints(command, include_extras=True)
    defer.__doc__ = re.sub(r"\n {12}", " ", command.__doc__ or "")  # as the help keeps line breaks
    return defer


def _sentence(commands: Mapping[str, Command], arguments: Sequence[str], shown: str) -> str:
    """Return one sentence about wrong usage that tyro explains in a box; empty for help, and for other errors."""
    text = re.sub(r"[\s│╭╮╰╯─]+", " ", shown)
    name = arguments[0] if arguments else ""
    if name not in commands:
        unknown = name and not name.startswith("-") and f"there is no command {name}: {did_you_mean(name, commands)}"
        return f"reachcost: {unknown}\n" if unknown else ""
    hint = f"(reachcost {name} --help)\n"
    if found := re.search(r"Unrecognized options: (--[\w-]+)", text):
        options = signature(commands[name]).parameters.values()
        names = [[part.name for part in fields(o.default)] if is_dataclass(o.default) else [o.name] for o in options]
        remedy = did_you_mean(found[1], [f"--{option.replace('_', '-')}" for option in chain(*names)])
        return f"reachcost: {name} has no option {found[1]}: {remedy} {hint}"
    if found := re.search(r"invalid choice '([^']*)' for argument '([\w-]+)'\. Expected one of \(([^)]*)\)", text):
        return f"reachcost: {found[2]} {found[1]}: choose one of {found[3].replace(chr(39), '')} {hint}"
    option, number = re.search(r"Error parsing --([\w-]+):", text), re.search(r"\[?(INT|FLOAT)\b", text)
    if not option or not number:
        return ""
    wanted = {"INT": "a whole number", "FLOAT": "a number", "[INT": "one or more numbers, as in: 0 1"}[number[0]]
    given = f"--{option[1]}"
    at = next(n for n, word in enumerate(arguments) if word.partition("=")[0].replace("_", "-") == given)
    value = arguments[at].partition("=")[2] or " ".join(arguments[at + 1 : at + 2])
    return f"reachcost: {given} {value}: give {wanted} {hint}"


def _message_of(error: Exception) -> str:
    """Return the message for an error that is not a bug of the program; empty for others."""
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
def _signals() -> Iterator[None]:
    """Make Ctrl-C and SIGTERM exceptions during a command, which cleans up; forks of it end as usual.

    Before and after a command, Ctrl-C ends the program.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner, unraisable = os.getpid(), sys.unraisablehook
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

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
        start_new_thread(send_later, (number,))

    def send_later(number: int) -> None:
        time.sleep(0.05)  # after this hook, where it would be lost again
        os.kill(os.getpid(), number)

    if before[signal.SIGINT] is end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, terminate)
    sys.unraisablehook = repeat
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
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
