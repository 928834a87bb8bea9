"""`reachcost demo`: watch a planner fail and be repaired."""

from __future__ import annotations

import time
from pathlib import Path

from reachcost.commands import console
from reachcost.errors import ReachcostError


def demo(out: Path = Path("reachcost-demo"), episodes: int = 100, log_episodes: int = 10_000) -> None:
    """Watch a planner fail and be repaired (a bundled world model, three minutes on two cores).

    Args:
        out: Directory for records, table and picture.
        episodes: Evaluation episodes; at most as many as the set has.
        log_episodes: Logged episodes that the head learns from.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.studies.registry import demo as run_demo

    if episodes < 1:
        raise ReachcostError(f"--episodes {episodes}: give at least one")
    start = time.perf_counter()
    table, picture = run_demo(out, ConsoleProgress(console), episodes=episodes, log_episodes=log_episodes)
    console.print(table.terminal(f"{table.rows[0].n} episodes: only the terminal cost changes"))
    console.print(
        "raw is plain latent distance; trm learned from logged times alone.\n"
        "trm-shuffled learned from permuted times; random is the floor, oracle a yardstick.\n"
        f"picture {picture or 'none: no episode was repaired, ask for more --episodes'}\n"
        f"table   {out / 'tables' / 'demo.md'}\n({time.perf_counter() - start:.0f} s)",
        highlight=False,
        soft_wrap=True,
    )
