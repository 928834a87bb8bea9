"""A result is a record: one directory per run, with a manifest and rows, complete or not there at all.

DIR/runs/<name>/manifest.json   configuration, seeds, sha256 of inputs, versions, machine, seconds, sha256 of files
DIR/runs/<name>/rows.parquet    one row per episode or epoch
DIR/tables/<table>.json, .md    made from the rows alone

Manifest and rows are small and meant to be kept. Larger files of a run (weights) are artefacts: they may be missing
where rows suffice, and are made again, to the same bytes, where they do not.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from reachcost.base.atomic import ASIDE, make_directory, new_directory, sweep, write_file
from reachcost.base.hashing import sha256_of
from reachcost.base.jsons import read_json
from reachcost.base.machine import machine, versions
from reachcost.base.memory import try_memory
from reachcost.errors import ReachcostError

FORMAT = "reachcost-run/2"
ROOM = 2**24
"""Bytes that Arrow needs to write a small file: without them it ends the whole process."""
Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Result:
    """What the computation of a run made, before anything is recorded; it can be sent from process to process."""

    rows: Columns
    """The rows."""
    files: Mapping[str, bytes]
    """Further files, by name."""
    seconds: float
    """What it took."""
    machine: str = field(default_factory=machine)
    """Where it was made."""

    def place(self, directory: Path) -> Columns:
        """Write the files into a directory, as the computation did, and return the rows."""
        for name, content in self.files.items():
            (directory / name).write_bytes(content)
        return self.rows


@dataclass(frozen=True)
class Run:
    """A finished run on disk."""

    path: Path
    manifest: dict[str, Any]

    @property
    def sha256(self) -> dict[str, str]:
        """sha256 of every file of the run, artefacts too, by name."""
        return {**self.manifest["files"], **self.manifest["artefacts"]}

    def table(self) -> pa.Table:
        """Read the rows, after checking that they are the ones the manifest describes."""
        self.require_intact()
        table = read_table(self.path / "rows.parquet")
        if len(table) != self.manifest["rows"]:
            raise ReachcostError(_damaged(self.path, f"it has {len(table)} rows, its manifest says otherwise"))
        return table

    def require_intact(self) -> None:
        """Stop if a file of the run is missing or changed; artefacts may be missing."""
        present = {name: sha for name, sha in self.manifest["artefacts"].items() if (self.path / name).exists()}
        for name, expected in {**self.manifest["files"], **present}.items():
            try:
                found = sha256_of(self.path / name)
            except OSError as error:
                raise ReachcostError(_damaged(self.path, f"{name} cannot be read ({error.strerror})")) from error
            if found != expected:
                raise ReachcostError(_damaged(self.path, f"{name} is not the file its manifest describes"))

    def complete(self, compute: Callable[[Path], Columns]) -> Run:
        """Make missing artefacts again, by the computation that made the run; they must come out the same."""
        missing = [name for name in self.manifest["artefacts"] if not (self.path / name).exists()]
        if missing:
            with tempfile.TemporaryDirectory() as directory:
                compute(Path(directory))
                for name in missing:
                    if sha256_of(Path(directory) / name) != self.manifest["artefacts"][name]:
                        raise ReachcostError(
                            f"{name} of the run in {self.path} is not kept, and {machine()} makes another one than "
                            f"{self.manifest['machine']} did: choose another --out, to make all runs here"
                        )
                    write_file(self.path / name, (Path(directory) / name).read_bytes())
        return self


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keep other processes from writing into the same directory, and clear what killed ones left."""
    if out.exists() and not out.is_dir():
        raise ReachcostError(f"{out} is a file: choose another --out, a directory")
    make_directory(out, out)
    try:
        with FileLock(out / ".lock", timeout=0):
            sweep(out)
            yield
    except Timeout as error:
        raise ReachcostError(
            f"another reachcost process is working in {out}: wait for it, or choose another --out"
        ) from error


def record_run(
    path: Path, config: Mapping[str, Any], compute: Callable[[Path], Columns], artefacts: Sequence[str] = ()
) -> Run:
    """Return the finished run at `path`, computing it only if it is not there yet.

    Args:
        path: Directory of the run.
        config: Everything that determines the result: settings, all seeds, sha256 of inputs. JSON values, and frozen
            dataclasses of them: a field that such a class gained after the run matches if it has its default.
        compute: Called with a directory for further files; returns the rows.
        artefacts: Names of those files that need not be kept.
    """
    if path.exists():
        run = read_run(path)
        require_config(run, config)
        return run
    with new_directory(path) as partial:
        rows, seconds = _timed(compute, partial)
        manifest = _seal(partial, config, Result(rows, {}, seconds), artefacts)
    return Run(path, manifest)


def computed(compute: Callable[[Path], Columns], scratch: Path) -> Result:
    """Do the computation of a run in a directory below `scratch`, which is gone afterwards; record nothing."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        rows, seconds = _timed(compute, Path(directory))
        return Result(rows, {file.name: file.read_bytes() for file in sorted(Path(directory).iterdir())}, seconds)


def keep_run(path: Path, config: Mapping[str, Any], result: Result, artefacts: Sequence[str] = ()) -> Run:
    """Record what was computed elsewhere; otherwise as `record_run`."""
    with new_directory(path) as partial:
        result.place(partial)
        manifest = _seal(partial, config, result, artefacts)
    return Run(path, manifest)


def _timed(compute: Callable[[Path], Columns], directory: Path) -> tuple[Columns, float]:
    start = time.perf_counter()
    return compute(directory), round(time.perf_counter() - start, 3)


def _seal(directory: Path, config: Mapping[str, Any], result: Result, artefacts: Sequence[str]) -> dict[str, Any]:
    """Write rows and manifest beside the other files of a run."""
    write_rows(result.rows, directory / "rows.parquet")
    made = {file.name: sha256_of(file) for file in sorted(directory.iterdir())}
    manifest = {
        "format": FORMAT,
        "config": as_json(config),
        "versions": versions(),
        "machine": result.machine,
        "rows": len(next(iter(result.rows.values()))),
        "files": {name: sha for name, sha in made.items() if name not in artefacts},
        "artefacts": {name: sha for name, sha in made.items() if name in artefacts},
        "elapsed_seconds": result.seconds,
    }
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def write_rows(rows: Columns, path: Path) -> None:
    """Write columns as one small file."""
    try_memory(ROOM + 4 * sum(column.nbytes for column in rows.values()))
    pq.write_table(pa.table({name: pa.array(column) for name, column in rows.items()}), path, compression="zstd")


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows in this thread: where memory lacks for another one, Arrow waits for it for ever."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return file.read(columns, use_threads=False)


def read_run(path: Path) -> Run:
    """Open a finished run and check its manifest."""
    try:
        manifest = read_json(path / "manifest.json")
    except OSError as error:
        raise ReachcostError(_damaged(path, f"manifest.json cannot be read ({error.strerror})")) from error
    except ValueError as error:
        raise ReachcostError(_damaged(path, f"manifest.json is not valid JSON ({error})")) from error
    types = {
        "config": dict,
        "versions": dict,
        "machine": str,
        "rows": int,
        "files": dict,
        "artefacts": dict,
        "elapsed_seconds": (int, float),
    }
    if (
        not isinstance(manifest, dict)
        or manifest.get("format") != FORMAT
        or not all(isinstance(manifest.get(key), kind) for key, kind in types.items())
        or "rows.parquet" not in manifest["files"]
        or not all(_is_file_of_run(*file) for part in ("files", "artefacts") for file in manifest[part].items())
    ):
        raise ReachcostError(_damaged(path, f"manifest.json is not of format {FORMAT!r}"))
    return Run(path, manifest)


def _is_file_of_run(name: str, sha256: object) -> bool:
    """Whether a manifest names a file of its own directory, and its checksum."""
    return Path(name).name == name and "\0" not in name and isinstance(sha256, str)


def require_intact_runs(out: Path) -> None:
    """Check every finished run below `out`, so that damage is found before anything is computed or written."""
    found = {file.parent for name in ("manifest.json", "rows.parquet") for file in (out / "runs").rglob(name)}
    for path in sorted(path for path in found if not ASIDE.fullmatch(path.name)):  # these are being written
        read_run(path).require_intact()


def require_rows(run: Run, keys: Mapping[str, Sequence[Any]], values: Sequence[str]) -> dict[str, np.ndarray]:
    """Read rows that must hold every combination of `keys` exactly once and finite `values`.

    Returns the value columns as arrays shaped like the keys, for example [cost, episode, candidate].
    """
    table = run.table()
    missing = [name for name in (*keys, *values) if name not in table.column_names]
    if missing:
        raise ReachcostError(_damaged(run.path, f"its rows have no column {', '.join(missing)}"))
    shape = tuple(len(allowed) for allowed in keys.values())
    position = np.zeros(len(table), np.int64)
    for name, allowed in keys.items():
        index = _index_in(run, table, name, allowed)
        if (index < 0).any():
            row = int(np.flatnonzero(index < 0)[0])
            raise ReachcostError(_damaged(run.path, f"row {row} has an unexpected {name} {table[name][row].as_py()!r}"))
        position = position * len(allowed) + index
    count = np.bincount(position, minlength=int(np.prod(shape)))
    for problem, wrong in (("missing", count == 0), ("duplicate", count > 1)):
        if wrong.any():
            where = [int(at) for at in np.unravel_index(int(np.flatnonzero(wrong)[0]), shape)]
            named = ", ".join(f"{name} {allowed[at]}" for (name, allowed), at in zip(keys.items(), where, strict=True))
            raise ReachcostError(_damaged(run.path, f"{int(wrong.sum())} rows are {problem}, the first is {named}"))
    result: dict[str, np.ndarray] = {}
    for name in values:
        ordered = np.empty(len(table))
        ordered[position] = _finite(run, table, name)
        result[name] = ordered.reshape(shape)
    return result


def _index_in(run: Run, table: pa.Table, name: str, allowed: Sequence[Any]) -> np.ndarray:
    """Position of each value of a key column among the allowed ones, -1 if it is none of them."""
    try:
        value_set = pa.array(allowed, table.schema.field(name).type)
    except (pa.ArrowException, TypeError) as error:
        raise ReachcostError(_damaged(run.path, f"its column {name} is of another type ({error})")) from error
    found = pc.index_in(table[name], value_set=value_set)  # pyright: ignore[reportAttributeAccessIssue] (made at import)
    return found.fill_null(-1).to_numpy()


def _finite(run: Run, table: pa.Table, name: str) -> np.ndarray:
    try:
        column = table[name].to_numpy().astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ReachcostError(_damaged(run.path, f"its column {name} holds no numbers ({error})")) from error
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise ReachcostError(_damaged(run.path, f"row {row} has a malformed {name} ({column[row]})"))
    return column


def as_json(value: Any) -> Any:
    """Settings as JSON values: dataclasses become objects, tuples arrays."""
    if is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value


def require_config(run: Run, config: Mapping[str, Any]) -> None:
    """Stop if a run was made by another configuration."""
    for where, recorded, now in differences(run.manifest["config"], config):
        raise ReachcostError(
            f"{run.path} holds a run of another configuration ({where} is {_short(recorded)} there and {_short(now)} "
            "here): choose another --out, or remove that directory"
        )


def differences(recorded: Any, now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where settings differ from those on record: name, then both values."""
    if (is_dataclass(now) or isinstance(now, Mapping)) and isinstance(recorded, dict):
        known = {**_defaults(now), **recorded} if is_dataclass(now) else recorded
        values = {f.name: getattr(now, f.name) for f in fields(now)} if is_dataclass(now) else now
        for name in sorted({*known, *values}, key=str):
            inside = f"{where}.{name}" if where else str(name)
            yield from differences(known.get(name), values.get(name), inside)
    elif recorded != (plain := as_json(now)):
        yield where, recorded, plain


def _defaults(settings: Any) -> dict[str, Any]:
    """The defaults of a dataclass, by field: what a run had before the field was there."""
    found = {}
    for one in fields(settings):
        if one.default is not MISSING:
            found[one.name] = as_json(one.default)
        elif one.default_factory is not MISSING:
            found[one.name] = as_json(one.default_factory())
    return found


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _damaged(path: Path, what: str) -> str:
    return f"the record in {path} is damaged: {what}: remove that directory and run the command again"
