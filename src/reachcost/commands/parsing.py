"""What a command line asks for; a number that is none gets one sentence."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from functools import partial, wraps
from inspect import signature
from io import StringIO
from typing import Any

import tyro

from reachcost.errors import NUMBER_KINDS

Command = Callable[..., int | None]


def parse(commands: Mapping[str, Command], arguments: Sequence[str]) -> Callable[[], int | None]:
    """The command that the arguments name, ready to be called; bad usage and `--help` end the program here.

    >>> from reachcost.commands.demo import demo
    >>> from reachcost.commands.push import push
    >>> parse({"demo": demo, "push": push}, ["demo", "--episodes", "3"]).keywords["episodes"]
    3
    """
    given, said = _joined(commands, arguments), StringIO()
    waiting = {name: _waiting(command) for name, command in commands.items()}
    try:
        with redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(waiting, args=given, prog="reachcost")
    except SystemExit:
        option = re.search(r"Error parsing --([\w-]+):", said.getvalue())
        sentence = option and _sentence(given, commands[given[0]], option[1])
        sys.stderr.write(sentence or said.getvalue())
        raise


def _joined(commands: Mapping[str, Command], arguments: Sequence[str]) -> list[str]:
    """Words of one command as one: `logs generate`. Its first word alone asks for help."""
    for name in commands:
        words = name.split()
        if len(words) > 1 and [*arguments[: len(words)]] == words:
            return [name, *arguments[len(words) :]]
        if len(words) > 1 and [*arguments] in (words[:1], [words[0], "--help"], [words[0], "-h"]):
            return [name, "--help"]
    return [*arguments]


def _waiting(command: Command) -> Callable[..., Any]:
    """The same arguments, but it only remembers them: what is said while it runs is no usage message."""

    @wraps(command)
    def remember(*given: Any, **named: Any) -> Callable[[], int | None]:
        return partial(command, *given, **named)

    return remember


def _sentence(arguments: Sequence[str], command: Command, option: str) -> str | None:
    """What is wrong with an option that takes a number; nothing about others."""
    annotation = str(signature(command).parameters[option.replace("-", "_")].annotation)
    wanted = next((words for kind, (_, words) in NUMBER_KINDS.items() if kind in annotation), None)
    if wanted is None:
        return None
    several = "one or more numbers, as in: 0 1" if "tuple" in annotation else wanted
    at = next(n for n, word in enumerate(arguments) if word.partition("=")[0].replace("_", "-") == f"--{option}")
    given = arguments[at].partition("=")[2] or " ".join(arguments[at + 1 : at + 2])
    return f"reachcost: --{option} {given}: give {several} (reachcost {arguments[0]} --help)\n"
