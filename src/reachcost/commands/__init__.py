"""The subcommands of `reachcost`: typed functions whose docstrings are their help.

Functions import what they need when they run: `--help` and mistakes are answered without waiting for torch.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rich import box
from rich.table import Table

from reachcost.core.progress import PlainConsole

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


def name_page(path: Path) -> None:
    """Print where a report is, and how to open it."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    say(f"report  {path} (open it in a browser: {opener} {shlex.quote(str(path))})")
