"""The `reachcost` command; every subcommand is a typed function, and its docstring is its help."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

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


def logs(
    action: Annotated[Literal["generate"], tyro.conf.Positional],
    task: Annotated[Literal["tworoom"], tyro.conf.Positional],
    out: Path,
    episodes: int = 10_000,
    seed: int = 0,
    pixels: int = 0,
    overwrite: bool = False,
) -> None:
    """Log the public data policy of a task into an HDF5 file in the layout of stable-worldmodel.

    Args:
        action: What to do with logs.
        task: The task whose policy is logged.
        out: The HDF5 file to write.
        episodes: How many episodes to log.
        seed: Of starts, goals and noise.
        pixels: Side of the frames to store, 8 to 224; 0 stores states alone, and frames are drawn when read.
        overwrite: Replace the file if it exists.
    """
    from reachcost.logs.hdf5 import write_logs
    from reachcost.progress import ConsoleProgress
    from reachcost.tasks import make_task
    from reachcost.tasks.tworoom.statistics import PUBLIC_CACHE, log_statistics

    world = make_task(task)
    logged = world.generate_logs(episodes, seed)
    progress = ConsoleProgress(_console)
    progress.step("pixels")
    render = (lambda states: world.render(states, pixels)) if pixels else None
    write_logs(logged, out, render=render, overwrite=overwrite, progress=progress)
    table = Table(
        "", "ours", "public cache", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left"
    )
    for name, value in log_statistics(logged).items():
        table.add_row(name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", f"{PUBLIC_CACHE[name]:,}")
    _console.print(table)


COMMANDS = {"demo": demo, "reproduce": reproduce, "logs": logs}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 on success, 1 on a mistake that the message explains."""
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="reachcost")
    except ReachcostError as error:
        Console(stderr=True).print(f"reachcost: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        message = f"reachcost: the system refused{where} ({error.strerror or error}): choose another --out"
        Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "reachcost: interrupted; nothing half-written is left, run the same command again", style="yellow"
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
