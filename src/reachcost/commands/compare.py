"""`reachcost compare`: several heads in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

import reachcost as rc
from reachcost.commands import console, require_least, require_new, require_page, require_writable, say
from reachcost.commands.options import Device, ModelName, TrustPickle, logs_option, model_option, task_option
from reachcost.commands.report import report_heads
from reachcost.errors import ReachcostError


def compare(
    heads: Annotated[tuple[str, ...], tyro.conf.Positional],
    model: ModelName,
    logs: Path,
    task: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    report: Path | None = None,
    trust_pickle: TrustPickle = False,
    device: Device = "auto",
) -> None:
    """Compare heads on logs that none of them has seen: how they rank states, and how large their errors are.

    Args:
        heads: Directories of heads, or hf://user/name.
        logs: Dataset that no head was fitted on. It needs frames, or states if --task renders them.
        task: World that renders frames of logged states: a name, or a custom task as module:Class or file.py:Class.
        seed: Seed of the sampled goals and pairs.
        out: Directory for the table: OUT/tables/heads.json and .md.
        report: HTML file for a report with the table, and with maps of each head.
    """
    from reachcost.audits.comparison import compare_heads
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress

    use_device(device)
    require_least(0, seed=seed)
    if not heads:
        raise ReachcostError("there are no heads to compare: name directories of `reachcost fit`")
    if len({*heads}) < len(heads):
        raise ReachcostError("a head is named twice: name each once")
    if out is not None:
        require_new(out / "tables" / "heads.json")
        require_writable(out / "tables")
    require_page(report)
    short = [head.rstrip("/").rpartition("/")[2] for head in heads]
    names = short if len({*short}) == len(heads) else heads
    loaded_heads = dict(zip(names, map(rc.load_head, heads), strict=True))
    world = None if task is None else task_option(task)
    opened = logs_option(logs, world)
    loaded = model_option(model, task=world, logs=opened, trust_pickle=trust_pickle)
    table = compare_heads(loaded_heads, loaded, opened, seed=seed, progress=ConsoleProgress(console))
    console.print(table.terminal(f"{len(opened)} episodes, {table.rows[0].n} goals"))
    console.print(table.note, highlight=False)
    if out is not None:
        table.write(out)
        say(f"{out / 'tables' / table.name}.md")
    if report is not None:
        latents = rc.encode_logs(loaded, opened)
        report_heads(report, "reachcost compare", loaded_heads, world, loaded, latents, table)
