"""What a directory holds: lines of tables, and the runs that they were made of."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from reachcost.errors import ReachcostError
from reachcost.results.records import Run, read_run
from reachcost.results.tables import ResultTable, TableRow, read_table


class Records:
    """Reads tables and their runs below one output directory, and remembers which.

    Args:
        out: The output directory.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.used: list[str] = []
        """Files that were read, without their endings, as they lie below the directory."""
        self._read = cache(self._read_table)

    def rows(self, table: str, **wanted: object) -> list[TableRow]:
        """The lines of a table, or those with certain values, such as `cost="raw", seed=None`."""
        rows = self._read(table).rows
        return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]

    def row(self, table: str, **wanted: object) -> TableRow:
        """The one line of a table with certain values; without a `setting`, one that has none."""
        rows = self.rows(table, **{"setting": "", **wanted})
        if len(rows) != 1:
            raise ReachcostError(f"{self._path(table)} has {len(rows)} lines with {wanted}, not one: make it again")
        return rows[0]

    def run(self, table: str, name: str) -> Run:
        """The run of that name that a table was made of, with the very rows it had; `*` stands for any letters."""
        made_of: dict[str, str] = self._read(table).provenance["rows_sha256"]
        found = [key for key in made_of if fnmatchcase(key, name)]
        if len(found) != 1:
            raise ReachcostError(f"{self._path(table)} was made of {len(found)} runs {name}, not of one: make it again")
        run = read_run(self.out / "runs" / found[0])
        if run.sha256["rows.parquet"] != made_of[found[0]]:
            raise ReachcostError(f"{self._path(table)} was made of other rows than {run.path} has: make it again")
        self._remember(f"runs/{found[0]}")
        return run

    def _path(self, table: str) -> Path:
        return self.out / "tables" / f"{table}.json"

    def _read_table(self, table: str) -> ResultTable:
        found = read_table(self._path(table))
        self._remember(f"tables/{table}")
        return found

    def _remember(self, name: str) -> None:
        if name not in self.used:
            self.used.append(name)
