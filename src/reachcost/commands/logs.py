"""`reachcost logs generate`: logs of the data policy of a task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from reachcost.commands import console, console_table, require_least, require_writable
from reachcost.commands.options import task_option
from reachcost.core.machine import require_memory

MANY = 100_000
"""Number of episodes that fits into the memory of any machine."""


def generate_logs(
    task: Annotated[str, tyro.conf.Positional],
    out: Path,
    episodes: int = 10_000,
    seed: int = 0,
    pixels: int = 0,
    overwrite: bool = False,
) -> None:
    """Run the public data policy of a task, and log it into an HDF5 file in the layout of stable-worldmodel.

    Args:
        task: Task, or a custom one as module:Class or file.py:Class.
        out: HDF5 file for the logs.
        episodes: Number of episodes.
        seed: Seed of starts, goals and noise.
        pixels: Height and width of the stored frames, 8 to 224. By default only states are stored, and frames are
            rendered when they are read.
        overwrite: Replace the file if it exists.
    """
    from reachcost.core.files import require_file
    from reachcost.core.progress import ConsoleProgress
    from reachcost.data.logs_hdf5 import write_logs

    require_least(1, episodes=episodes)
    require_least(0, seed=seed)
    require_file(out, overwrite)
    require_writable(out.parent)
    world = task_option(task)
    sized = task_option(task, pixels=pixels) if pixels else world
    if episodes > MANY:  # before hours are spent on them
        one = world.generate_logs(1, seed)
        size = sum(np.asarray(column).nbytes for column in one.columns.values())
        require_memory(size * episodes, f"--episodes {episodes}", "give fewer, and log into several files")
    logged = world.generate_logs(episodes, seed)
    progress = ConsoleProgress(console)
    progress.step("pixels")
    render = sized.render if pixels else None
    write_logs(logged, out, render=render, overwrite=overwrite, progress=progress)
    table = console_table("", "ours", "public", title=f"{out}")
    for name, (value, public) in world.describe_logs(logged).items():
        known = "–" if public is None else f"{public:,}"
        table.add_row(name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", known)
    console.print(table)
