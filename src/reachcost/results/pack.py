"""Reads packs: many runs of a study in few files.

DIR/runs/<study>/pack.json        the manifest of every run, the columns of its rows, and a fingerprint of these rows
DIR/runs/<study>/<kind>.parquet   the rows: a row group for each run, whose name is in the column `run`

The rows of a run are compared with their fingerprint whenever they are read. So damage is reported for the run that has
it, and all other runs can still be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reachcost.core.files import require_regular, sha256_of
from reachcost.core.json_files import read_json
from reachcost.errors import ReachcostError

FORMAT = "reachcost-pack/1"
NAME = "pack.json"
RUN, RUNS = "run", "runs"  # column with the name of the run, and metadata that lists the run of each row group
DROP = "drop the run from its pack (docs/reproduce.md)"
REMEDY = f"restore the pack from its source, or {DROP} and run the command again"
# What a pack records of each run: its manifest, types of its columns, its text files, and a digest of its rows.
ENTRY = {"manifest": dict, "columns": dict, "texts": dict, "fingerprint": str}


class Pack:
    """The packed runs of a study; a run is called `<kind>/<run>`.

    Args:
        path: The manifest of the pack.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            found = read_json(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"it is not valid JSON: {error}"
            self._refuse(f"{NAME} cannot be read ({reason})", error=error)
        parts = [found.get(part) for part in ("files", "runs")] if isinstance(found, dict) else [None]
        if not all(isinstance(part, dict) for part in parts) or found.get("format") != FORMAT:
            self._refuse(f"{NAME} is not of format {FORMAT!r}")
        self.files: dict[str, str] = found["files"]  # sha256 of the Parquet files, by name
        self._runs: dict[str, Any] = found["runs"]
        self.names = frozenset(self._runs)  # names of the runs

    def entry(self, name: str) -> dict[str, Any]:
        """What the pack records of a run: see `ENTRY`."""
        entry = self._runs[name]
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kind) for key, kind in ENTRY.items()):
            self._refuse(f"{NAME} lacks one of {', '.join(ENTRY)} of it", name)
        return entry

    def texts(self, name: str) -> dict[str, str]:
        """Files of a run other than its rows, after comparing them with their sha256."""
        texts, known = self.entry(name)["texts"], self.entry(name)["manifest"]["files"]
        for file, sha256 in known.items():
            text = texts.get(file)
            same = isinstance(text, str) and hashlib.sha256(text.encode()).hexdigest() == sha256
            if file != "rows.parquet" and not same:
                self._refuse(f"{file} is missing or changed", name)
        return {file: text for file, text in texts.items() if file in known}

    def rows(self, name: str) -> pa.Table:
        """The rows of a run, after comparing them with their fingerprint."""
        file, entry = self.rows_file(name), self.entry(name)
        try:
            found = read_row_group(file, name, [RUN, *entry["columns"]], entry["manifest"]["rows"])
            rows = as_typed(found, entry["columns"])
            known = {*found[RUN].to_pylist()} <= {run_of(name)} and fingerprint(rows) == entry["fingerprint"]
        except (OSError, KeyError, IndexError, ValueError, TypeError, pa.ArrowException) as error:
            why = str(getattr(error, "strerror", None) or error).partition("\n")[0]
            self._refuse(f"its rows in {file.name} are missing or cannot be read ({why})", name, error)
        if not known:
            self._refuse(f"its rows in {file.name} are not those that were packed", name)
        return rows

    def rows_file(self, name: str) -> Path:
        """The Parquet file that holds the rows of a run."""
        file = f"{kind_of(name)}.parquet"
        if file not in self.files:
            self._refuse(f"{NAME} names no {file}", name)
        return self.path.with_name(file)

    def require_intact(self, name: str) -> None:
        """Stop if a run is damaged. Rows in a file that has its recorded sha256 are not read."""
        self.texts(name)
        if not self.is_intact(self.rows_file(name)):
            self.rows(name)

    def is_intact(self, file: Path) -> bool:
        """Whether a Parquet file is the one that was written with the manifest."""
        try:
            return _sha256_of(file, *_state(file)) == self.files.get(file.name)
        except OSError:
            return False

    def _refuse(self, what: str, name: str = "", error: Exception | None = None) -> NoReturn:
        where = self.path.parent / name if name else self.path
        raise ReachcostError(f"the record in {where} is damaged: {what}: {REMEDY}") from error


def find_pack(run: Path) -> Pack | None:
    """The pack that holds the run of this path, or None."""
    path = run.parent.parent / NAME
    pack = open_pack(path) if path.is_file() else None
    return pack if pack is not None and name_of(run) in pack.names else None


def name_of(run: Path) -> str:
    """The name in a pack of the run of this path."""
    return f"{run.parent.name}/{run.name}"


def kind_of(name: str) -> str:
    """The kind in the name of a run."""
    return name.partition("/")[0]


def run_of(name: str) -> str:
    """The name of a run without its kind."""
    return name.partition("/")[2]


def open_pack(path: Path) -> Pack:
    """Open the pack whose manifest is at `path`; the manifest is parsed again only if it has changed."""
    return _opened(path, *_state(path))


def fingerprint(rows: pa.Table) -> str:
    """sha256 over name, type, length and values of every column: the same whichever file holds them."""
    digest = hashlib.sha256()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count or pa.types.is_nested(column.type):
            raise ValueError(f"its column {name} has missing or nested values")
        digest.update(f"{name} {column.type} {len(column)}\n".encode())
        if pa.types.is_string(column.type):
            values = [text.encode() for text in column.to_pylist()]
            digest.update(np.array([len(value) for value in values], "<i8").tobytes())
            digest.update(b"".join(values))
        else:
            values = column.to_numpy()
            digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def as_typed(rows: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """These columns of a table, with the types that are named."""
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    return rows.select([*columns]).combine_chunks().cast(schema)


def read_row_group(path: Path, name: str, columns: Sequence[str], rows: int) -> pa.Table:
    """Some columns of the row group of a run, which must have this number of rows."""
    metadata, groups = _layout(path, *_state(path))
    if run_of(name) not in groups:
        raise ValueError("the file does not list that run")
    found = metadata.row_group(groups[run_of(name)]).num_rows
    if found != rows:
        raise ValueError(f"it has {found} rows and not {rows}, as in its manifest")
    with pq.ParquetFile(path, metadata=metadata, pre_buffer=False) as file:
        return file.read_row_group(groups[run_of(name)], columns=columns, use_threads=False)


def _state(path: Path) -> tuple[int, int, int]:
    """What changes with the content of a file."""
    require_regular(path)
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


@lru_cache(maxsize=32)
def _opened(path: Path, *_: int) -> Pack:
    return Pack(path)


@lru_cache(maxsize=128)
def _layout(path: Path, *_: int) -> tuple[pq.FileMetaData, dict[str, int]]:
    """Metadata of a Parquet file, and the row group of each run."""
    metadata = pq.read_metadata(path)
    names = json.loads((metadata.metadata or {})[RUNS.encode()])
    return metadata, {name: group for group, name in enumerate(names)}


@lru_cache(maxsize=128)
def _sha256_of(path: Path, *_: int) -> str:
    return sha256_of(path)
