"""`reachcost demo`: watch a planner fail and be repaired."""

from __future__ import annotations

import time
from pathlib import Path

from reachcost.commands import console, name_page, require_least, require_writable


def demo(
    out: Path = Path("reachcost-demo"), episodes: int = 100, log_episodes: int = 3000, device: str = "auto"
) -> None:
    """Watch a planner fail and be repaired (a bundled world model, about a minute on two cores).

    Args:
        out: Directory for records, table, pictures and report.
        episodes: Evaluation episodes; the set has 100.
        log_episodes: Logged episodes that the head learns from.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.experiments.demo import run_demo
    from reachcost.report.report import Report
    from reachcost.report.sources import SCENE_FILE
    from reachcost.report.studied import Studied

    use_device(device)
    require_least(1, episodes=episodes, log_episodes=log_episodes)
    require_writable(out, out / "tables", out / "runs")
    start = time.perf_counter()
    studied = Studied()
    table, picture = run_demo(
        out,
        ConsoleProgress(console),
        then=studied.add,
        episodes=episodes,
        log_episodes=log_episodes,
    )
    if studied.scene is not None:
        studied.scene.write(out / SCENE_FILE)
    page = Report(studied.material(), title="reachcost demo").save(out / "report.html")
    success = {row.cost: row.ours["success"] for row in table.rows if not row.setting}
    title = f"{table.rows[0].n} episodes. Only the terminal cost changes; the last row also changes the planner."
    console.print(table.terminal(title))
    if success["trm"] <= success["raw"]:
        console.print("trm is no better than raw here: give it more --log-episodes, or ask for more --episodes")
    shown = f"{picture}, moving in {picture.with_suffix('.gif').name}" if picture else None
    console.print(
        "raw is plain latent distance; trm learned from logged times alone (reachcost fit --labels temporal).\n"
        "trm-shuffled learned from permuted times; random is the floor, oracle the reference.\n"
        f"picture {shown or 'none: no episode was repaired, ask for more --episodes'}\n"
        f"table   {out / 'tables' / 'demo.md'}",
        highlight=False,
        soft_wrap=True,
    )
    name_page(page)
    console.print(f"({time.perf_counter() - start:.0f} s)", highlight=False)
