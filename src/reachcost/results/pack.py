"""Many runs in few files: a manifest of a study's runs, and one Parquet file for each kind of run.

DIR/runs/<study>/pack.json        the manifest of every run, the columns of its rows, and a fingerprint of these rows
DIR/runs/<study>/<kind>.parquet   the rows: a row group for each run, whose name is in the column `run`

The rows of a run are compared with their fingerprint whenever they are read. So damage is reported for the run that has
it, and all other runs can still be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reachcost.core.files import new_file, require_regular, sha256_of, write_file
from reachcost.core.json_files import read_json
from reachcost.errors import ReachcostError

FORMAT = "reachcost-pack/1"
NAME = "pack.json"
RUN, RUNS = "run", "runs"
"""The column that names the run, and where a Parquet file lists its runs in the order of its row groups."""
DROP = "drop the run from its pack (docs/reproduce.md)"
REMEDY = f"restore the pack from its source, or {DROP} and run the command again"
OPTIONS: dict[str, Any] = {"compression": "zstd", "write_statistics": False, "store_schema": False}
"""What makes files small whose row groups are."""
ENTRY = {"manifest": dict, "columns": dict, "texts": dict, "fingerprint": str}
"""What a pack records of each run."""


class Packed(NamedTuple):
    """A run as it is packed."""

    manifest: dict[str, Any]
    """Its manifest, unchanged: the sha256 in it are those of the files that the run had as a directory."""
    rows: pa.Table
    texts: dict[str, str]
    """Its other files, by name."""


class Pack:
    """The packed runs of a study; a run is called `<kind>/<run>`.

    Args:
        path: The manifest of the pack.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            found = read_json(path)
        except OSError as error:
            self._refuse(f"{NAME} cannot be read ({error.strerror})", error=error)
        except ValueError as error:
            self._refuse(f"{NAME} is not valid JSON ({error})", error=error)
        parts = [found.get(part) for part in ("files", "runs")] if isinstance(found, dict) else [None]
        if not all(isinstance(part, dict) for part in parts) or found.get("format") != FORMAT:
            self._refuse(f"{NAME} is not of format {FORMAT!r}")
        self.files: dict[str, str] = found["files"]
        """sha256 of the Parquet files, by name."""
        self._runs: dict[str, Any] = found["runs"]

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the runs."""
        return frozenset(self._runs)

    def manifest(self, name: str) -> dict[str, Any]:
        """The manifest of a run, as it was recorded."""
        return self._entry(name)["manifest"]

    def columns(self, name: str) -> dict[str, str]:
        """Types of the columns of a run, by name."""
        return self._entry(name)["columns"]

    def texts(self, name: str) -> dict[str, str]:
        """Files of a run other than its rows, after comparing them with their sha256."""
        texts, known = self._entry(name)["texts"], self.manifest(name)["files"]
        for file, sha256 in known.items():
            text = texts.get(file)
            if file != "rows.parquet" and (not isinstance(text, str) or _sha256_of_text(text) != sha256):
                self._refuse(f"{file} is missing or changed", name)
        return {file: text for file, text in texts.items() if file in known}

    def rows(self, name: str) -> pa.Table:
        """The rows of a run, after comparing them with their fingerprint."""
        file = self.rows_file(name)
        try:
            found = _row_group(file, name, [RUN, *self.columns(name)], self.manifest(name)["rows"])
            rows = as_typed(found, self.columns(name))
            known = {*found[RUN].to_pylist()} <= {_run(name)} and fingerprint(rows) == self._entry(name)["fingerprint"]
        except (OSError, KeyError, IndexError, ValueError, TypeError, pa.ArrowException) as error:
            why = str(getattr(error, "strerror", None) or error).partition("\n")[0]
            self._refuse(f"its rows in {file.name} are missing or cannot be read ({why})", name, error)
        if not known:
            self._refuse(f"its rows in {file.name} are not those that were packed", name)
        return rows

    def packed(self, name: str) -> Packed:
        """Everything of a run."""
        return Packed(self.manifest(name), self.rows(name), self.texts(name))

    def rows_file(self, name: str) -> Path:
        """The Parquet file that holds the rows of a run."""
        file = f"{_kind(name)}.parquet"
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

    def _entry(self, name: str) -> dict[str, Any]:
        entry = self._runs[name]
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kind) for key, kind in ENTRY.items()):
            self._refuse(f"{NAME} lacks one of {', '.join(ENTRY)} of it", name)
        return entry

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


def open_pack(path: Path) -> Pack:
    """Open the pack whose manifest is at `path`; the manifest is parsed again only if it has changed."""
    return _opened(path, *_state(path))


def write_pack(path: Path, runs: Mapping[str, Packed]) -> Pack:
    """Write a pack that holds exactly these runs.

    The Parquet files are replaced first, each in one step, and the manifest last. A process that is killed in between
    leaves the former manifest, which still finds every run that was to be kept. A Parquet file whose runs stay the same
    is not written.
    """
    entries = {name: _entry_of(name, run) for name, run in sorted(runs.items())}
    old = open_pack(path) if path.is_file() else None
    files: dict[str, str] = {}
    for kind in dict.fromkeys(map(_kind, entries)):
        file, names = path.with_name(f"{kind}.parquet"), [name for name in entries if _kind(name) == kind]
        if old is None or not _holds(old, file, {name: entries[name] for name in names}):
            _write_rows(file, {name: runs[name].rows for name in names})
        files[file.name] = sha256_of(file)
    listed = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    head = json.dumps({"format": FORMAT, "files": files}, indent=1).removesuffix("\n}")
    write_file(path, f'{head},\n "runs": {{\n{listed}\n }}\n}}\n')
    for file in {*old.files} - {*files} if old is not None else ():
        path.with_name(Path(file).name).unlink(missing_ok=True)
    return open_pack(path)


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


def _entry_of(name: str, run: Packed) -> dict[str, Any]:
    try:
        if RUN in run.rows.column_names:
            raise ValueError(f"its column {RUN} has the name of the column of a pack")
        kinds = {column.name: str(column.type) for column in run.rows.schema}
        return {"manifest": run.manifest, "columns": kinds, "fingerprint": fingerprint(run.rows), "texts": run.texts}
    except ValueError as error:
        raise ReachcostError(f"the run {name} cannot be packed ({error}): keep its directory") from error


def _holds(pack: Pack, file: Path, entries: Mapping[str, dict[str, Any]]) -> bool:
    """Whether a Parquet file of a pack holds these rows and no others."""
    known = {name: pack._entry(name)["fingerprint"] for name in pack.names if pack.rows_file(name) == file}
    return pack.is_intact(file) and known == {name: entry["fingerprint"] for name, entry in entries.items()}


def _write_rows(path: Path, runs: Mapping[str, pa.Table]) -> None:
    """Write a row group for each run, in columns that hold the values of all of them, and read everything back."""
    types = _common_types([table.schema for table in runs.values()])
    texts = [RUN, *(name for name, kind in types.items() if kind == "string")]
    schema = pa.schema([(RUN, pa.string()), *((name, pa.type_for_alias(kind)) for name, kind in types.items())])
    with new_file(path) as partial:
        with pq.ParquetWriter(partial, schema, **{**OPTIONS, "use_dictionary": texts}) as writer:
            writer.add_key_value_metadata({RUNS: json.dumps([_run(name) for name in runs])})
            for name, table in runs.items():
                named = [pa.array([_run(name)] * len(table), pa.string())]
                columns = [
                    table[column].cast(kind) if column in table.column_names else pa.nulls(len(table), kind)
                    for column, kind in ((column, pa.type_for_alias(kind)) for column, kind in types.items())
                ]
                writer.write_table(pa.table([*named, *columns], schema=schema), row_group_size=max(len(table), 1))
        for name, table in runs.items():
            kinds = {column.name: str(column.type) for column in table.schema}
            found = _row_group(partial, name, [RUN, *kinds], len(table))
            if fingerprint(as_typed(found, kinds)) != fingerprint(table):
                raise ReachcostError(f"the rows of {name} do not fit into {path.name}: keep the directory of that run")


def _common_types(schemas: list[pa.Schema]) -> dict[str, str]:
    """A type for each column that holds its values in all runs: where their types differ, that is `double`."""
    found: dict[str, str] = {}
    for field in (field for schema in schemas for field in schema):
        kind = str(field.type)
        found[field.name] = kind if found.get(field.name, kind) == kind else "double"
    return found


class _Layout(NamedTuple):
    """Where the runs of a Parquet file are."""

    metadata: pq.FileMetaData
    groups: dict[str, int]


def _row_group(path: Path, name: str, columns: list[str], rows: int) -> pa.Table:
    """Some columns of the row group of a run, which must have this number of rows."""
    layout = _layout(path, *_state(path))
    if _run(name) not in layout.groups:
        raise ValueError("the file does not list that run")
    group = layout.groups[_run(name)]
    if layout.metadata.row_group(group).num_rows != rows:
        raise ValueError(f"there are {layout.metadata.row_group(group).num_rows} rows, its manifest says {rows}")
    with pq.ParquetFile(path, metadata=layout.metadata, pre_buffer=False) as file:
        return file.read_row_group(group, columns=columns, use_threads=False)


def _state(path: Path) -> tuple[int, int, int]:
    """What changes with the content of a file."""
    require_regular(path)
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


@lru_cache(maxsize=32)
def _opened(path: Path, *_: int) -> Pack:
    return Pack(path)


@lru_cache(maxsize=128)
def _layout(path: Path, *_: int) -> _Layout:
    metadata = pq.read_metadata(path)
    names = json.loads((metadata.metadata or {})[RUNS.encode()])
    return _Layout(metadata, {name: group for group, name in enumerate(names)})


@lru_cache(maxsize=128)
def _sha256_of(path: Path, *_: int) -> str:
    return sha256_of(path)


def _sha256_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _run(name: str) -> str:
    return name.partition("/")[2]
