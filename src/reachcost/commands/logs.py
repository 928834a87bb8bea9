"""`reachcost logs generate`: log the data policy of a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from rich import box
from rich.table import Table

from reachcost.commands import console, require_least, require_writable
from reachcost.commands.options import task_option
from reachcost.core.machine import require_memory

if TYPE_CHECKING:
    from reachcost.tasks.contract import Task

MANY = 100_000
"""Episodes that anybody may ask for."""


def generate_logs(
    task: Annotated[str, tyro.conf.Positional],
    out: Path,
    episodes: int = 10_000,
    seed: int = 0,
    pixels: int = 0,
    overwrite: bool = False,
) -> None:
    """Log the public data policy of a task into an HDF5 file in the layout of stable-worldmodel.

    Args:
        task: The task whose policy is logged, or your own as module:Class or file.py:Class.
        out: The HDF5 file to write.
        episodes: How many episodes to log.
        seed: Of starts, goals and noise.
        pixels: Side of the frames to store, 8 to 224; 0 stores states alone, and frames are drawn when read.
        overwrite: Replace the file if it exists.
    """
    from reachcost.core.atomic import require_file
    from reachcost.core.progress import ConsoleProgress
    from reachcost.data.logs_hdf5 import write_logs

    require_least(1, episodes=episodes)
    require_least(0, seed=seed)
    require_file(out, overwrite)
    require_writable(out.parent)
    world = task_option(task)
    sized = task_option(task, pixels=pixels) if pixels else world
    _require_room(world, episodes, seed)
    logged = world.generate_logs(episodes, seed)
    progress = ConsoleProgress(console)
    progress.step("pixels")
    render = sized.render if pixels else None
    write_logs(logged, out, render=render, overwrite=overwrite, progress=progress)
    table = Table("", "ours", "public", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left")
    for name, (value, public) in world.describe_logs(logged).items():
        known = "–" if public is None else f"{public:,}"
        table.add_row(name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", known)
    console.print(table)


def _require_room(world: Task, episodes: int, seed: int) -> None:
    """Refuse more episodes than memory holds, judged by one of them, before years are spent on them."""
    if episodes > MANY:
        one = world.generate_logs(1, seed)
        size = sum(np.asarray(column).nbytes for column in one.columns.values())
        require_memory(size * episodes, f"--episodes {episodes}", "give fewer, and log into several files")
