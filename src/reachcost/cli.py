"""The `reachcost` command; every subcommand is a typed function, and its docstring is its help."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from reachcost.errors import ReachcostError

_console = Console()


def demo(out: Path = Path("reachcost-demo")) -> None:
    """Watch a planner fail and be repaired (TopoNav, one head seed, under a minute).

    Args:
        out: Directory for records, table and picture.
    """
    from reachcost.demo import run_demo
    from reachcost.progress import ConsoleProgress

    start = time.perf_counter()
    table, picture = run_demo(out, ConsoleProgress(_console))
    _console.print(table.terminal("TopoNav, 120 episodes: only the terminal cost changes"))
    _console.print(
        "raw is plain latent distance: it stops at walls.\n"
        "trm learned from logged times alone: it goes around them.\n"
        "shuffled learned from permuted times; random is the floor, oracle the ceiling.\n"
        f"picture {picture}\ntable   {out / 'tables' / 'toponav.md'}\n({time.perf_counter() - start:.0f} s)",
        highlight=False,
    )


def reproduce(name: Annotated[str, tyro.conf.Positional], out: Path = Path("results")) -> None:
    """Reproduce a table of the paper, with the paper's numbers beside ours. Interrupt and repeat at will.

    Args:
        name: The table: toponav, toponav-readings or toponav-recipes.
        out: Directory for records and tables.
    """
    from reachcost.experiments import reproduce as make_table
    from reachcost.progress import ConsoleProgress

    start, cpu = time.perf_counter(), time.process_time()
    table = make_table(name, out, ConsoleProgress(_console))
    _console.print(table.terminal(name))
    _console.print(
        f"{out / 'tables' / name}.md\n{out / 'tables' / name}.json\n"
        f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
        highlight=False,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 on success, 1 on a mistake that the message explains."""
    try:
        tyro.extras.subcommand_cli_from_dict({"demo": demo, "reproduce": reproduce}, args=arguments, prog="reachcost")
    except ReachcostError as error:
        Console(stderr=True).print(f"reachcost: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        message = f"reachcost: the system refused{where} ({error.strerror or error}): choose another --out"
        Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print("reachcost: interrupted; the same command goes on where it stopped", style="yellow")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
