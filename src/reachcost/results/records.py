"""Records of runs: each is a directory with a manifest and rows, which is complete or absent.

DIR/runs/<name>/manifest.json   configuration, seeds, sha256 of inputs, versions, machine, seconds, sha256 of files
DIR/runs/<name>/rows.parquet    one row per episode or epoch
DIR/runs/<study>/pack.json      recorded runs that were packed into few files (`pack.py`)
DIR/tables/<table>.json, .md    made from the rows alone

A run is read from its directory or else from the pack. Larger files of a run (weights) are artefacts: they may be
missing, and are made again, to the same bytes, when they are needed.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from pydantic import AfterValidator

from reachcost.core.files import (
    PARTIAL_NAME,
    is_file_name,
    make_directory,
    new_directory,
    remove_leftovers,
    sha256_of,
    write_file,
)
from reachcost.core.json_files import read_as, read_json
from reachcost.core.machine import machine, require_memory, versions
from reachcost.errors import ReachcostError
from reachcost.results.pack import DROP, REMEDY, Pack, find_pack, name_of, open_pack
from reachcost.results.pack import NAME as PACK

MANIFEST, ROWS = "manifest.json", "rows.parquet"
FORMAT = "reachcost-run/2"
ROOM = 2**24  # bytes that Arrow needs to write a small file: without them it ends the process
EVALUATED_ON = ("evaluation_set_sha256", "full_set_sha256")  # settings that are compared only if both runs have them

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Evaluated:
    """Rows of a run whose evaluation set is known only after the run."""

    rows: Columns
    evaluation: Mapping[str, str]  # `EvaluationSet.record`, which the manifest adds to the configuration


Compute = Callable[[Path], Columns | Evaluated]  # writes further files into a directory, and returns the rows


@dataclass(frozen=True)
class Result:
    """The result of a computation, which can be recorded by another process."""

    rows: Columns
    files: Mapping[str, bytes]  # further files, by name
    seconds: float
    machine: str = field(default_factory=machine)
    evaluation: Mapping[str, str] = field(default_factory=dict)

    def place(self, directory: Path) -> Columns:
        """Write the files into a directory, and return the rows."""
        for name, content in self.files.items():
            (directory / name).write_bytes(content)
        return self.rows


def _file_name(name: str) -> str:
    if not is_file_name(name):
        raise ValueError("should be the name of a file")
    return name


_Files = dict[Annotated[str, AfterValidator(_file_name)], str]


@dataclass(frozen=True)
class _Manifest:
    """The parts of a manifest that are read."""

    format: Literal["reachcost-run/2"]
    config: dict[str, Any]
    versions: dict[str, Any]
    machine: str
    rows: int
    files: _Files
    artefacts: _Files
    elapsed_seconds: float


@dataclass(frozen=True)
class Run:
    """A recorded run."""

    path: Path
    manifest: dict[str, Any]
    pack: Pack | None = None  # the pack that holds its rows and files. Without one they are in the directory `path`.

    @property
    def remedy(self) -> str:
        """What to do about damage."""
        return REMEDY if self.pack else "remove that directory and run the command again"

    def damaged(self, what: str) -> ReachcostError:
        """An error that reports damage."""
        return ReachcostError(f"the record in {self.path} is damaged: {what}: {self.remedy}")

    @property
    def sha256(self) -> dict[str, str]:
        """sha256 of every file of the run, including artefacts, by name."""
        return {**self.manifest["files"], **self.manifest["artefacts"]}

    def table(self) -> pa.Table:
        """The rows, which must be those that the manifest describes."""
        self.require_intact()
        if self.pack:
            return self.pack.rows(name_of(self.path))
        with self._readable():
            if (found := pq.read_metadata(self.path / ROWS).num_rows) != self.manifest["rows"]:
                raise self.damaged(f"it has {found} rows and not {self.manifest['rows']}, as in its manifest")
            return read_parquet(self.path / ROWS)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the rows."""
        self.require_intact()
        if self.pack:
            return [*self.pack.entry(name_of(self.path))["columns"]]
        with self._readable():
            return pq.read_schema(self.path / ROWS).names

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowException as error:
            reason = str(error).partition("\n")[0]
            raise self.damaged(f"its rows cannot be read ({reason})") from error

    def text(self, name: str) -> str:
        """A text file of the run, which must be the one that the manifest describes."""
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
                raise self.damaged(f"{name} cannot be read ({error.strerror})") from error
            if found != expected:
                raise self.damaged(f"{name} is not the file its manifest describes")

    def complete(self, compute: Compute) -> Run:
        """Compute missing artefacts again, by the computation that made the run; they must have the same bytes.

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
                            f"{name} of the run in {self.path} is missing, and {machine()} makes another one than "
                            f"{self.manifest['machine']} did: choose another --out, to make all runs here"
                        )
                    write_file(self.path / name, (Path(directory) / name).read_bytes())
        return self

    @property
    def kept_files(self) -> list[Path]:
        """Every file that another machine needs to read the run, without artefacts."""
        names = [name for name in self.manifest["files"] if not self.pack or (self.path / name).exists()]
        record = [self.pack.path, self.pack.rows_file(name_of(self.path))] if self.pack else [self.path / MANIFEST]
        return [*record, *(self.path / name for name in names)]


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Lock a directory against other processes, and remove what killed ones left."""
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


def computed(compute: Compute, scratch: Path | None = None) -> Result:
    """Compute a run in a temporary directory (below `scratch`), and record nothing."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        start = time.perf_counter()
        made = compute(Path(directory))
        seconds = round(time.perf_counter() - start, 3)
        files = {file.name: file.read_bytes() for file in sorted(Path(directory).iterdir())}
    if isinstance(made, Evaluated):
        return Result(made.rows, files, seconds, evaluation=made.evaluation)
    return Result(made, files, seconds)


def keep_run(path: Path, config: Mapping[str, Any], result: Result, artefacts: Sequence[str] = ()) -> Run:
    """Record a result.

    Args:
        path: Directory of the run.
        config: Everything that determines the result: settings, all seeds, sha256 of inputs. JSON values, and frozen
            dataclasses of them: a field that was added to such a class after the run matches if it has its default.
        result: Rows, and further files.
        artefacts: Names of those files that need not be kept.
    """
    with new_directory(path) as partial:
        write_rows(result.place(partial), partial / ROWS)
        made = {file.name: sha256_of(file) for file in sorted(partial.iterdir())}
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
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return Run(path, manifest)


def write_rows(rows: Columns, path: Path) -> None:
    """Write columns as one small file."""
    require_memory(ROOM + 4 * sum(column.nbytes for column in rows.values()), str(path), "close other programs")
    pq.write_table(pa.table({name: pa.array(column) for name, column in rows.items()}), path, compression="zstd")


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows in this thread: Arrow waits forever for another one if there is no memory for it."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return file.read(columns, use_threads=False)


def is_recorded(path: Path) -> bool:
    """Whether there is a run at `path`: a directory, or a run of that name in the pack of its study."""
    return path.exists() or find_pack(path) is not None


def run_paths(directory: Path) -> list[Path]:
    """Sorted paths of recorded runs below a directory, packed or not."""
    found = {file.parent for file in directory.rglob(MANIFEST)}
    packs = [*directory.rglob(PACK), *(above / PACK for above in directory.parents[:2])]
    for pack in (path for path in packs if path.is_file()):
        packed = (pack.parent / name for name in open_pack(pack).names)
        found |= {path for path in packed if path.is_relative_to(directory)}
    return sorted(path for path in found if not PARTIAL_NAME.fullmatch(path.name))  # such directories are being written


def read_run(path: Path) -> Run:
    """Open a recorded run and check its manifest."""
    pack = None if (path / MANIFEST).exists() else find_pack(path)
    try:
        manifest = pack.entry(name_of(path))["manifest"] if pack else read_json(path / MANIFEST)
    except (OSError, ValueError) as error:
        if isinstance(error, ReachcostError):
            raise
        reason = error.strerror if isinstance(error, OSError) else f"it is not valid JSON: {error}"
        raise Run(path, {}).damaged(f"manifest.json cannot be read ({reason})") from error
    run = Run(path, manifest, pack)
    known = read_as(_Manifest, manifest, f"the record in {path} is damaged: manifest.json", run.remedy)
    if ROWS not in known.files:
        raise run.damaged(f"manifest.json names no {ROWS}")
    return run


def require_intact_runs(out: Path) -> None:
    """Check every recorded run below `out`, before anything is computed or written."""
    with_rows = {file.parent for file in (out / "runs").rglob(ROWS)}  # those without a manifest, too
    for path in sorted({*run_paths(out / "runs"), *with_rows}):
        if not PARTIAL_NAME.fullmatch(path.name):
            read_run(path).require_intact()


def require_rows(run: Run, keys: Mapping[str, Sequence[Any]], values: Sequence[str]) -> dict[str, np.ndarray]:
    """Read rows that must hold every combination of `keys` exactly once and finite `values`.

    Returns the value columns as arrays shaped like the keys, for example [cost, episode, candidate].
    """
    table = run.table()
    flat = {field.name for field in table.schema if not pa.types.is_nested(field.type)}
    if missing := [name for name in (*keys, *values) if name not in flat]:
        raise run.damaged(f"its rows have no column {', '.join(missing)}")
    places = {key: place for place, key in enumerate(product(*keys.values()))}
    found = [*zip(*(table[name].to_pylist() for name in keys), strict=True)]
    counts = Counter(found)
    for problem, wrong in (
        ("unexpected", [key for key in counts if key not in places]),
        ("missing", [key for key in places if key not in counts]),
        ("duplicate", [key for key in places if counts[key] > 1]),
    ):
        if wrong:
            named = ", ".join(f"{name} {value}" for name, value in zip(keys, wrong[0], strict=True))
            raise run.damaged(f"{len(wrong)} rows are {problem}, the first is {named}")
    position = np.array([places[key] for key in found])
    ordered = {name: np.empty(len(table)) for name in values}
    for name, column in ordered.items():
        column[position] = _finite(run, table, name)
    return {name: column.reshape([*map(len, keys.values())]) for name, column in ordered.items()}


def _finite(run: Run, table: pa.Table, name: str) -> np.ndarray:
    try:
        column = table[name].to_numpy().astype(np.float64)
    except (ValueError, TypeError) as error:
        raise run.damaged(f"its column {name} holds no numbers ({error})") from error
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise run.damaged(f"row {row} has a malformed {name} ({column[row]})")
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
    for where, *both in differences(run.manifest["config"], config):
        recorded, now = (json.dumps(value)[:120] for value in both)
        raise ReachcostError(
            f"{run.path} holds a run of another configuration ({where} is {recorded} there and {now} here): choose "
            f"another --out, or {DROP if run.pack else 'remove that directory'}"
        )


def differences(recorded: Any, now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where settings differ from those on record: name, then both values."""
    values = {one.name: getattr(now, one.name) for one in fields(now)} if is_dataclass(now) else now
    if isinstance(values, Mapping) and isinstance(recorded, dict):
        known = {**_defaults(now), **recorded} if is_dataclass(now) else recorded
        for name in sorted({*known, *values}, key=str):
            if name not in EVALUATED_ON or (name in known and name in values):
                inside = f"{where}.{name}" if where else str(name)
                yield from differences(known.get(name), values.get(name), inside)
    elif recorded != (plain := as_json(now)):
        yield where, recorded, plain


def _defaults(settings: Any) -> dict[str, Any]:
    """Defaults of a dataclass, by field: the values of runs that were recorded before the field was added."""
    made = {one.name: one.default_factory() for one in fields(settings) if one.default_factory is not MISSING}
    return as_json({**{one.name: one.default for one in fields(settings) if one.default is not MISSING}, **made})
