"""An audit on disk: a JSON object, and a Parquet file with its rows next to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reachcost.audits.planner import Audit
from reachcost.core.files import replaced_file, require_regular, write_file
from reachcost.core.json_files import read_as, read_record
from reachcost.errors import ReachcostError
from reachcost.results.records import read_table, write_rows

PARTS = ("stages", "criteria", "caveats", "categories")
RANKS = "rank of the best candidate: "
"""Prefix of the measurement of ranking rows; the name of the cost follows."""


def rows_path(path: Path) -> Path:
    """Path of the rows of the audit at `path`."""
    return path.with_suffix(".parquet")


def write_audit(audit: Audit, path: Path, **further: Any) -> None:
    """Write an audit with further settings, and next to it its rows and the ranks of the best candidate."""
    rows = audit.rows
    for cost, ranking in audit.rankings.items():
        ranks = np.asarray(ranking.oracle_best_rank, np.float64)
        episodes = np.arange(len(ranks)) if audit.runs is None else audit.runs.episodes
        more = {"measurement": np.repeat(f"{RANKS}{cost}", len(ranks)), "episode": episodes, "value": ranks}
        rows = {name: np.concatenate([column, more[name]]) for name, column in rows.items()}
    with replaced_file(rows_path(path)) as partial:
        write_rows(rows, partial)
    write_file(path, json.dumps({**audit.document(), **further}, indent=2, allow_nan=False) + "\n")


def read_audit(path: Path) -> Audit:
    """Read an audit and its rows; its verdict must follow from its stages and these rows."""
    return audit_of(read_record(path), path, lambda: read_rows(rows_path(path)))


def audit_of(document: Any, path: Path, read: Callable[[], dict[str, dict[str, Any]]]) -> Audit:
    """The audit of a JSON document from `path`; `read` reads its rows, as `read_rows` does."""
    if not is_audit(document):
        raise ReachcostError(f"{path} is not an audit: give the file that reachcost audit --out wrote")
    audit = read_as(Audit, {name: document[name] for name in PARTS if name in document}, str(path))
    measured = read()
    stages = tuple(replace(stage, **measured.get(stage.name, {})) for stage in audit.stages)
    settings = {name: value for name, value in document.items() if name not in (*PARTS, "verdict")}
    found = replace(audit, stages=stages, settings=settings)
    if found.verdict != document["verdict"]:
        raise ReachcostError(f"{path}: its verdict is not {found.verdict!r}, which its stages give: audit again")
    return found


def read_ranks(path: Path) -> dict[str, np.ndarray]:
    """% of candidates that each cost ranks before the truly best one [E], if the audit at `path` ranked candidates."""
    measured = read_rows(rows_path(path))
    return {name.removeprefix(RANKS): found["rows"] for name, found in measured.items() if name.startswith(RANKS)}


def is_audit(document: object) -> bool:
    """Whether a JSON value was written by an audit."""
    return isinstance(document, dict) and {"verdict", "stages"} <= document.keys()


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows and episodes by measurement."""

    def read() -> pa.Table:
        require_regular(path)
        return read_table(path, columns=["measurement", "episode", "value"])

    return rows_of(read, path)


def rows_of(read: Callable[[], pa.Table], path: Path) -> dict[str, dict[str, Any]]:
    """Rows and episodes by measurement, of a table that `read` reads from `path`."""
    try:
        table = read()
        names, episodes, values = (table[name].to_numpy() for name in ("measurement", "episode", "value"))
        if {type(name) for name in names} - {str} or values.dtype.kind not in "fiu" or episodes.dtype.kind not in "iu":
            raise ValueError("its columns hold no names and numbers")
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ReachcostError(
            f"the rows {path} cannot be read ({why}): keep both files of the audit together"
        ) from error
    return {
        name: {"rows": values[names == name], "episodes": episodes[names == name]}
        for name in dict.fromkeys(names.tolist())
    }
