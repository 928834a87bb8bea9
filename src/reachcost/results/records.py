"""A result is a record: one directory per run, with a manifest and rows, complete or not there at all.

DIR/runs/<name>/manifest.json   configuration, seeds, sha256 of inputs, versions, machine, seconds, sha256 of files
DIR/runs/<name>/rows.parquet    one row per episode or epoch
DIR/runs/<study>/pack.json      finished runs that were packed into few files (`pack.py`)
DIR/tables/<table>.json, .md    made from the rows alone

A run that is computed is recorded as a directory. Whoever reads a run finds it in its directory or else in the pack.
Manifest and rows are small and meant to be kept. Larger files of a run (weights) are artefacts: they may be missing
where rows suffice, and are made again, to the same bytes, where they do not.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from reachcost.core.atomic import PARTIAL_NAME, make_directory, new_directory, remove_leftovers, write_file
from reachcost.core.files import is_file_name, sha256_of
from reachcost.core.json_files import read_json
from reachcost.core.machine import machine, try_memory, versions
from reachcost.errors import ReachcostError
from reachcost.results.pack import DROP, REMEDY, Pack, find_pack, name_of, open_pack
from reachcost.results.pack import NAME as PACK

MANIFEST, ROWS = "manifest.json", "rows.parquet"
FORMAT = "reachcost-run/2"
ROOM = 2**24
"""Bytes that Arrow needs to write a small file: without them it ends the whole process."""
Columns = Mapping[str, np.ndarray]
EVALUATED_ON = ("evaluation_set_sha256", "full_set_sha256")
"""Settings that name an evaluation set. Older records lack them, and some runs know their set only once they run, so
they are compared only where both sides have them."""


@dataclass(frozen=True)
class Evaluated:
    """What a run returns that knows its evaluation set only once it runs."""

    rows: Columns
    """The rows."""
    evaluation: Mapping[str, str]
    """`EvaluationSet.record`, which the manifest adds to the configuration."""


Compute = Callable[[Path], Columns | Evaluated]
"""Computes a run: called with a directory for further files, returns the rows."""


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
    evaluation: Mapping[str, str] = field(default_factory=dict)
    """Names the evaluation set, if the configuration does not."""

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
    pack: Pack | None = None
    """The pack that holds its rows and files. Without one they are in the directory `path`."""

    @property
    def sha256(self) -> dict[str, str]:
        """sha256 of every file of the run, artefacts too, by name."""
        return {**self.manifest["files"], **self.manifest["artefacts"]}

    def table(self) -> pa.Table:
        """Read the rows, after checking that they are the ones the manifest describes."""
        self.require_intact()
        table = self.pack.rows(name_of(self.path)) if self.pack else read_table(self.path / ROWS)
        if len(table) != self.manifest["rows"]:
            raise ReachcostError(_damaged(self, f"it has {len(table)} rows, its manifest says otherwise"))
        return table

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the rows."""
        return [*self.pack.columns(name_of(self.path))] if self.pack else pq.read_schema(self.path / ROWS).names

    def text(self, name: str) -> str:
        """Read a text file of the run, after checking that it is the one the manifest describes."""
        self.require_intact()
        return self.pack.texts(name_of(self.path))[name] if self.pack else (self.path / name).read_text("utf-8")

    def require_intact(self) -> None:
        """Stop if a file of the run is missing or changed; artefacts may be missing."""
        kept, optional = self.manifest["files"], self.manifest["artefacts"]
        if self.pack:
            self.pack.require_intact(name_of(self.path))
            kept, optional = {}, {**optional, **kept}
        present = {name: sha for name, sha in optional.items() if (self.path / name).exists()}
        for name, expected in {**kept, **present}.items():
            try:
                found = sha256_of(self.path / name)
            except OSError as error:
                raise ReachcostError(_damaged(self, f"{name} cannot be read ({error.strerror})")) from error
            if found != expected:
                raise ReachcostError(_damaged(self, f"{name} is not the file its manifest describes"))

    def complete(self, compute: Compute) -> Run:
        """Make missing artefacts again, by the computation that made the run; they must come out the same.

        Artefacts of a packed run are kept in the directory `path`, next to copies of its other files.
        """
        missing = [name for name in self.manifest["artefacts"] if not (self.path / name).exists()]
        for name, text in self.pack.texts(name_of(self.path)).items() if self.pack else ():
            if not (self.path / name).exists():
                write_file(self.path / name, text)
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

    @property
    def kept_files(self) -> list[Path]:
        """Every file that another machine needs to read the run; artefacts are left out."""
        names = [name for name in self.manifest["files"] if not self.pack or (self.path / name).exists()]
        record = [self.pack.path, self.pack.rows_file(name_of(self.path))] if self.pack else [self.path / MANIFEST]
        return [*record, *(self.path / name for name in names)]


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keep other processes from writing into the same directory, and clear what killed ones left."""
    if out.exists() and not out.is_dir():
        raise ReachcostError(f"{out} is a file: choose another --out, a directory")
    make_directory(out, out)
    try:
        with FileLock(out / ".lock", timeout=0):
            remove_leftovers(out)
            yield
    except Timeout as error:
        raise ReachcostError(
            f"another reachcost process is working in {out}: wait for it, or choose another --out"
        ) from error


def record_run(path: Path, config: Mapping[str, Any], compute: Compute, artefacts: Sequence[str] = ()) -> Run:
    """Return the finished run at `path`, computing it only if it is not there yet.

    Args:
        path: Directory of the run.
        config: Everything that determines the result: settings, all seeds, sha256 of inputs. JSON values, and frozen
            dataclasses of them: a field that such a class gained after the run matches if it has its default.
        compute: Called with a directory for further files; returns the rows.
        artefacts: Names of those files that need not be kept.
    """
    if is_recorded(path):
        run = read_run(path)
        require_config(run, config)
        return run
    with new_directory(path) as partial:
        manifest = _seal(partial, config, _timed(compute, partial), artefacts)
    return Run(path, manifest)


def computed(compute: Compute, scratch: Path) -> Result:
    """Do the computation of a run in a directory below `scratch`, which is gone afterwards; record nothing."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        result = _timed(compute, Path(directory))
        files = {file.name: file.read_bytes() for file in sorted(Path(directory).iterdir())}
        return replace(result, files=files)


def keep_run(path: Path, config: Mapping[str, Any], result: Result, artefacts: Sequence[str] = ()) -> Run:
    """Record what was computed elsewhere; otherwise as `record_run`."""
    with new_directory(path) as partial:
        result.place(partial)
        manifest = _seal(partial, config, result, artefacts)
    return Run(path, manifest)


def _timed(compute: Compute, directory: Path) -> Result:
    """Rows and seconds; the files stay in the directory."""
    start = time.perf_counter()
    made = compute(directory)
    seconds = round(time.perf_counter() - start, 3)
    if isinstance(made, Evaluated):
        return Result(made.rows, {}, seconds, evaluation=made.evaluation)
    return Result(made, {}, seconds)


def _seal(directory: Path, config: Mapping[str, Any], result: Result, artefacts: Sequence[str]) -> dict[str, Any]:
    """Write rows and manifest beside the other files of a run."""
    write_rows(result.rows, directory / ROWS)
    made = {file.name: sha256_of(file) for file in sorted(directory.iterdir())}
    manifest = {
        "format": FORMAT,
        "config": {**as_json(config), **result.evaluation},
        "versions": versions(),
        "machine": result.machine,
        "rows": len(next(iter(result.rows.values()))),
        "files": {name: sha for name, sha in made.items() if name not in artefacts},
        "artefacts": {name: sha for name, sha in made.items() if name in artefacts},
        "elapsed_seconds": result.seconds,
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def write_rows(rows: Columns, path: Path) -> None:
    """Write columns as one small file."""
    try_memory(ROOM + 4 * sum(column.nbytes for column in rows.values()))
    pq.write_table(pa.table({name: pa.array(column) for name, column in rows.items()}), path, compression="zstd")


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows in this thread: where memory lacks for another one, Arrow waits for it for ever."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return file.read(columns, use_threads=False)


def is_recorded(path: Path) -> bool:
    """Whether there is a run at `path`: a directory, or a run of that name in the pack of its study."""
    return path.exists() or find_pack(path) is not None


def run_paths(directory: Path) -> list[Path]:
    """Paths of the finished runs below a directory, packed or not, sorted."""
    found = {file.parent for file in directory.rglob(MANIFEST)}
    packs = [*directory.rglob(PACK), *(above / PACK for above in directory.parents[:2])]
    for pack in (path for path in packs if path.is_file()):
        packed = (pack.parent / name for name in open_pack(pack).names)
        found |= {path for path in packed if path.is_relative_to(directory)}
    return sorted(path for path in found if not PARTIAL_NAME.fullmatch(path.name))  # such directories are being written


def read_run(path: Path) -> Run:
    """Open a finished run and check its manifest."""
    if not (path / MANIFEST).exists() and (pack := find_pack(path)):
        return _checked(Run(path, pack.manifest(name_of(path)), pack))
    run = Run(path, {})
    try:
        return _checked(Run(path, read_json(path / MANIFEST)))
    except OSError as error:
        raise ReachcostError(_damaged(run, f"manifest.json cannot be read ({error.strerror})")) from error
    except ValueError as error:
        raise ReachcostError(_damaged(run, f"manifest.json is not valid JSON ({error})")) from error


def _checked(run: Run) -> Run:
    """Refuse a run whose manifest is not one."""
    manifest = run.manifest
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
        or ROWS not in manifest["files"]
        or not all(_is_file_of_run(*file) for part in ("files", "artefacts") for file in manifest[part].items())
    ):
        raise ReachcostError(_damaged(run, f"manifest.json is not of format {FORMAT!r}"))
    return run


def _is_file_of_run(name: str, sha256: object) -> bool:
    """Whether a manifest names a file of its own directory, and its checksum."""
    return is_file_name(name) and isinstance(sha256, str)


def require_intact_runs(out: Path) -> None:
    """Check every finished run below `out`, so that damage is found before anything is computed or written."""
    without_manifest = {
        file.parent for file in (out / "runs").rglob(ROWS) if not PARTIAL_NAME.fullmatch(file.parent.name)
    }
    for path in sorted({*run_paths(out / "runs"), *without_manifest}):
        read_run(path).require_intact()


def require_rows(run: Run, keys: Mapping[str, Sequence[Any]], values: Sequence[str]) -> dict[str, np.ndarray]:
    """Read rows that must hold every combination of `keys` exactly once and finite `values`.

    Returns the value columns as arrays shaped like the keys, for example [cost, episode, candidate].
    """
    table = run.table()
    missing = [name for name in (*keys, *values) if name not in table.column_names]
    if missing:
        raise ReachcostError(_damaged(run, f"its rows have no column {', '.join(missing)}"))
    shape = tuple(len(allowed) for allowed in keys.values())
    position = np.zeros(len(table), np.int64)
    for name, allowed in keys.items():
        index = _index_in(run, table, name, allowed)
        if (index < 0).any():
            row = int(np.flatnonzero(index < 0)[0])
            raise ReachcostError(_damaged(run, f"row {row} has an unexpected {name} {table[name][row].as_py()!r}"))
        position = position * len(allowed) + index
    count = np.bincount(position, minlength=int(np.prod(shape)))
    for problem, wrong in (("missing", count == 0), ("duplicate", count > 1)):
        if wrong.any():
            where = [int(at) for at in np.unravel_index(int(np.flatnonzero(wrong)[0]), shape)]
            named = ", ".join(f"{name} {allowed[at]}" for (name, allowed), at in zip(keys.items(), where, strict=True))
            raise ReachcostError(_damaged(run, f"{int(wrong.sum())} rows are {problem}, the first is {named}"))
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
        raise ReachcostError(_damaged(run, f"its column {name} is of another type ({error})")) from error
    found = pc.index_in(table[name], value_set=value_set)  # pyright: ignore[reportAttributeAccessIssue] (made at import)
    return found.fill_null(-1).to_numpy()


def _finite(run: Run, table: pa.Table, name: str) -> np.ndarray:
    try:
        column = table[name].to_numpy().astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ReachcostError(_damaged(run, f"its column {name} holds no numbers ({error})")) from error
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise ReachcostError(_damaged(run, f"row {row} has a malformed {name} ({column[row]})"))
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
            f"here): choose another --out, or {DROP if run.pack else 'remove that directory'}"
        )


def differences(recorded: Any, now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where settings differ from those on record: name, then both values."""
    if (is_dataclass(now) or isinstance(now, Mapping)) and isinstance(recorded, dict):
        known = {**_defaults(now), **recorded} if is_dataclass(now) else recorded
        values = {f.name: getattr(now, f.name) for f in fields(now)} if is_dataclass(now) else now
        for name in sorted({*known, *values}, key=str):
            if name in EVALUATED_ON and not (name in known and name in values):
                continue
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


def _damaged(run: Run, what: str) -> str:
    remedy = REMEDY if run.pack else "remove that directory and run the command again"
    return f"the record in {run.path} is damaged: {what}: {remedy}"
