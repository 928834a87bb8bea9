"""`reachcost report`: a page about records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

import reachcost as rc
from reachcost.commands import command_line, name_page, require_page
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.heads.base import LearnedHead
    from reachcost.results.tables import ResultTable


def report(
    records: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
) -> None:
    """Write one page of HTML about audits, runs, tables and heads: verdict, success, rankings, maps, replays.

    Args:
        records: JSON files of `reachcost audit --out`, tables (JSON), and directories of runs, of heads, or of a
            complete demo, reproduction or comparison.
        out: HTML file for the report.
    """
    if not records:
        raise ReachcostError(
            "there is nothing to report: name an audit, a run, a table, a head or a directory of these"
        )
    require_page(out, "--out")
    name_page(rc.Report(*records).save(out))


def report_heads(
    out: Path,
    title: str,
    heads: Mapping[str, LearnedHead],
    task: rc.Task | None,
    model: rc.WorldModel,
    latents: rc.Latents,
    *tables: ResultTable,
) -> None:
    """Write a report about heads: how they learned, and their costs next to latent distance."""
    from reachcost.report.material import Material, Training

    named = {f"head {name}" if name in ("raw", "oracle") else name: head for name, head in heads.items()}
    records = {name: Training.of(head.record, name) for name, head in heads.items()}
    page = rc.Report(
        *tables,
        Material(heads=records, commands=(command_line(),)),
        task=task,
        model=model,
        costs={"raw": rc.LatentMSE(), **{name: rc.HeadCost(head) for name, head in named.items()}},
        evaluation=None if task is None or not task.sets else task.evaluation_set(task.sets[0]),
        logs=latents,
        title=title,
    )
    name_page(page.save(out))
