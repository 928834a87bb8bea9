"""`reachcost report`: one page to read and look at, from records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from reachcost.commands import name_page, require_page
from reachcost.errors import ReachcostError


def report(
    records: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
) -> None:
    """Write one page of HTML about audits, runs, tables and heads: verdict, success, rankings, maps, replays.

    Args:
        records: What `reachcost audit --out` wrote, directories of runs, heads, or of a whole demo, reproduction or
            comparison, and tables (JSON).
        out: The file to write.
    """
    from reachcost.report.report import Report

    if not records:
        raise ReachcostError(
            "there is nothing to report: name an audit, a run, a table, a head or a directory of these"
        )
    require_page(out, "--out")
    name_page(Report(*records).save(out))
