"""The subcommands of `reachcost`: typed functions whose docstrings are their help.

Functions import what they need when they run: `--help` and mistakes are answered without waiting for torch.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

from rich import box
from rich.table import Table

from reachcost.core.progress import PlainConsole
from reachcost.errors import ReachcostError

console = PlainConsole()
current: list[str] = []
"""Arguments of the command that runs."""


def say(text: str) -> None:
    """Print text as it is, without colours and line breaks."""
    console.print(text, highlight=False, soft_wrap=True)


def console_table(*headings: str, title: str | None = None) -> Table:
    """An empty table for the console."""
    return Table(*headings, box=box.SIMPLE_HEAD, show_edge=False, title=title, title_justify="left")


def command_line() -> str:
    """The command that the user typed."""
    return shlex.join(["reachcost", *current])


def require_new(out: Path) -> None:
    """Refuse to overwrite something."""
    if out.exists():
        raise ReachcostError(f"{out} exists already: choose another --out, or remove it first")


def require_writable(*directories: Path) -> None:
    """Refuse directories that could not be made or written to, before there is anything to write."""
    for directory in directories:
        place = next(parent for parent in (directory.absolute(), *directory.absolute().parents) if parent.exists())
        if not place.is_dir():
            raise ReachcostError(f"{place} is a file: choose another --out, a directory")
        try:
            with tempfile.TemporaryFile(dir=place):  # permissions do not show whether a medium is read-only
                pass
        except OSError as error:
            raise ReachcostError(
                f"{place} cannot be written to ({error.strerror or error}): choose another --out, or change its rights"
            ) from error


def require_least(least: int, **options: int | None) -> None:
    """Refuse values of options below a minimum; None is an option that was not given."""
    for name, number in options.items():
        if number is not None and number < least:
            raise ReachcostError(f"--{name.replace('_', '-')} {number}: give {least} or more")


def require_page(path: Path | None, option: str = "--report") -> None:
    """Refuse a path where no report could be written."""
    if path is not None:
        if path.is_dir():
            raise ReachcostError(f"{option} {path} is a directory: name a file, {path / 'report.html'}")
        require_writable(path.parent)


def name_page(path: Path) -> None:
    """Print where a report is, and how to open it."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    say(f"report  {path} (open it in a browser: {opener} {shlex.quote(str(path))})")
