"""`reachcost demo`: a planner that fails, and its repair."""

from __future__ import annotations

import time
from pathlib import Path

import reachcost as rc
from reachcost.commands import console, name_page, options, say


def demo(
    out: Path = Path("reachcost-demo"), episodes: int = 100, log_episodes: int = 3000, device: options.Device = "auto"
) -> None:
    """Show how a planner fails and is repaired, with a bundled world model (90 seconds on two idle cores).

    Args:
        out: Directory for records, table and report.
        episodes: Number of evaluation episodes, at most 100.
        log_episodes: Number of logged episodes that the head is trained on.
    """
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.experiments.demo import run_demo
    from reachcost.report.collector import Collector
    from reachcost.report.sources import SCENE_FILE

    use_device(device)
    options.require_least(1, episodes=episodes, log_episodes=log_episodes)
    options.require_writable(out, out / "tables", out / "runs")
    start, collector = time.perf_counter(), Collector()
    progress = ConsoleProgress(console)
    ((table, recording),) = run_demo(out, progress, episodes, log_episodes)
    collector.add(recording, table)
    if collector.scene is not None:
        collector.scene.write(out / SCENE_FILE)
    page = rc.Report(collector.material(), title="reachcost demo").save(out / "report.html")
    success = {row.cost: row.ours["success"] for row in table.rows if not row.setting}
    title = f"{table.rows[0].n} episodes. Only the terminal cost changes; the last row also changes the planner."
    console.print(table.terminal(title))
    if success["trm"] <= success["raw"]:
        console.print("trm is not better than raw here: give more --log-episodes or more --episodes")
    say(
        "raw is plain latent distance; trm was trained on logged times alone (reachcost fit --labels temporal).\n"
        "trm-shuffled was trained on permuted times; random is the floor, oracle the reference.\n"
        f"table   {out / 'tables' / 'demo.md'}"
    )
    name_page(page)
    say(f"({time.perf_counter() - start:.0f} s)")
