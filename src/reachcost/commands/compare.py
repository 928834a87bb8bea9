"""`reachcost compare`: several heads in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands import (
    command_line,
    console,
    name_page,
    require_least,
    require_new,
    require_page,
    require_writable,
)
from reachcost.commands.options import head_name, logs_option, model_option, shown_set, task_option
from reachcost.errors import ReachcostError


def compare(
    heads: Annotated[tuple[str, ...], tyro.conf.Positional],
    model: str,
    logs: Path,
    task: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    report: Path | None = None,
    trust_pickle: bool = False,
    device: str = "auto",
) -> None:
    """Compare heads on logs that none of them has seen: how they rank states, and how far they err.

    Args:
        heads: Directories of heads, or hf://user/name.
        model: A name that `rc.zoo()` lists, a directory of `reachcost train-model`, a checkpoint of stable-worldmodel, hf://user/name,
            or your own, as module:factory or file.py:factory.
        logs: Dataset that no head was fitted on, with frames, or with states if --task draws them.
        task: The world that draws frames of logged states, or your own, module:Class or file.py:Class.
        seed: Of goals and pairs.
        out: Directory for the table, as tables/*.json and .md in it.
        report: HTML file for a report, with the table and what each head says about the world.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.audits.comparison import compare_heads
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.costs.latent import HeadCost, LatentMSE
    from reachcost.data.latents import encode_logs
    from reachcost.heads.storage import load_head
    from reachcost.report.material import Material
    from reachcost.report.report import Report
    from reachcost.report.training import Training

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
    loaded_heads = dict(zip(names, map(load_head, heads), strict=True))
    world = None if task is None else task_option(task)
    opened = logs_option(logs, world)
    loaded = model_option(model, task=world, logs=opened, trust_pickle=trust_pickle)
    table = compare_heads(loaded_heads, loaded, opened, seed=seed, progress=ConsoleProgress(console))
    console.print(table.terminal(f"{len(opened)} episodes, {table.rows[0].n} goals"))
    console.print(table.note, highlight=False)
    if out is not None:
        table.write(out)
        console.print(f"{out / 'tables' / table.name}.md", highlight=False, soft_wrap=True)
    if report is not None:
        learned = Material(
            heads={name: Training.of(head.record, name) for name, head in loaded_heads.items()},
            commands=(command_line(),),
        )
        page = Report(
            table,
            learned,
            task=world,
            model=loaded,
            costs={"raw": LatentMSE(), **{head_name(name): HeadCost(head) for name, head in loaded_heads.items()}},
            evaluation=shown_set(world),
            logs=encode_logs(loaded, opened),
            title="reachcost compare",
        )
        name_page(page.save(report))
