"""`reachcost report`: a page about records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

import reachcost as rc
from reachcost.commands import name_page, options
from reachcost.errors import ReachcostError


def report(
    records: Annotated[tuple[Path, ...], tyro.conf.Positional, options.shown_as("RECORDS")],
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
    options.require_page(out, "--out")
    name_page(rc.Report(*records).save(out))
