"""Packs the recorded runs of an output directory into few files, or drops runs from its packs.

    python -m reachcost_tools.pack results                                  # pack every run that is a directory
    python -m reachcost_tools.pack results --drop 'tworoom/control/*-qrl'   # they will be computed again

A command of this repository and not of `reachcost`: only records that are published need to be few files.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reachcost.core.files import new_file, sha256_of, write_file
from reachcost.errors import ReachcostError
from reachcost.results.pack import (
    FORMAT,
    NAME,
    RUN,
    RUNS,
    as_typed,
    fingerprint,
    kind_of,
    name_of,
    open_pack,
    read_row_group,
    run_of,
)
from reachcost.results.records import MANIFEST, ROWS, Run, exclusive, read_run, require_intact_runs, run_paths

OPTIONS: dict[str, Any] = {"compression": "zstd", "write_statistics": False, "store_schema": False}
"""Options of Parquet that keep files with small row groups small."""


def main(arguments: list[str] | None = None) -> int:
    """Pack or drop, and print the number of runs."""
    parser = argparse.ArgumentParser(
        prog="python -m reachcost_tools.pack", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("out", type=Path, help="output directory of `reachcost reproduce`, such as results")
    parser.add_argument("--drop", metavar="NAMES", help="drop packed runs: <study>/<kind>/<run>, where * is any text")
    given = parser.parse_args(arguments)
    try:
        count = pack(given.out) if given.drop is None else drop(given.out, given.drop)
    except ReachcostError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{'packed' if given.drop is None else 'dropped'} {count} runs of {given.out}")
    return 0


def pack(out: Path) -> int:
    """Move every run that is a directory into the pack of its study; returns their number.

    Directories are removed after the packs are complete. Artefacts, such as weights, stay where they are.
    """
    with exclusive(out):
        require_intact_runs(out)
        new = [run for run in map(read_run, run_paths(out / "runs")) if run.pack is None]
        if misplaced := [run.path for run in new if run.path.parent.parent.parent != out / "runs"]:
            raise ReachcostError(f"{misplaced[0]} is not {out}/runs/<study>/<kind>/<run>: move it there to pack it")
        for study in sorted({run.path.parent.parent for run in new}):
            runs = {name_of(run.path): run for run in new if run.path.parent.parent == study}
            write_pack(study / NAME, {**_packed_runs(study / NAME), **runs})
        for run in new:
            _remove_directory(run)
        return len(new)


def drop(out: Path, names: str) -> int:
    """Remove packed runs from their packs; returns their number."""
    dropped = 0
    with exclusive(out):
        for path in sorted((out / "runs").glob(f"*/{NAME}")):
            study, runs = path.parent, _packed_runs(path)
            kept = {name: run for name, run in runs.items() if not fnmatchcase(f"{study.name}/{name}", names)}
            if len(kept) == len(runs):
                continue
            write_pack(path, kept)
            dropped += len(runs) - len(kept)
            for name in runs.keys() - kept.keys():
                if not (study / name / MANIFEST).exists():  # artefacts of the packed run
                    shutil.rmtree(study / name, ignore_errors=True)
    if not dropped:
        raise ReachcostError(f"no packed run of {out} is called {names!r}: name <study>/<kind>/<run>")
    return dropped


def _packed_runs(path: Path) -> dict[str, Run]:
    """The runs of a pack, if it exists."""
    pack = open_pack(path) if path.is_file() else None
    return {name: Run(path.parent / name, pack.entry(name)["manifest"], pack) for name in pack.names} if pack else {}


def write_pack(path: Path, runs: Mapping[str, Run]) -> None:
    """Write a pack that holds exactly these runs.

    The Parquet files are replaced first, each in one step, and the manifest last. A process that is killed in between
    leaves the former manifest, which still finds every run that was to be kept. A Parquet file whose runs stay the same
    is not written.
    """
    runs = dict(sorted(runs.items()))
    rows = {name: run.table() for name, run in runs.items()}
    entries = {name: _entry_of(name, run, rows[name]) for name, run in runs.items()}
    old = open_pack(path) if path.is_file() else None
    known = {} if old is None else {name: old.entry(name)["fingerprint"] for name in old.names}
    files: dict[str, str] = {}
    for kind in dict.fromkeys(map(kind_of, entries)):
        file, found = path.with_name(f"{kind}.parquet"), {name: rows[name] for name in rows if kind_of(name) == kind}
        before = {name: digest for name, digest in known.items() if kind_of(name) == kind}
        same = before == {name: entries[name]["fingerprint"] for name in found}
        if old is None or not same or not old.is_intact(file):
            _write_rows(file, found)
        files[file.name] = sha256_of(file)
    listed = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    head = json.dumps({"format": FORMAT, "files": files}, indent=1).removesuffix("\n}")
    write_file(path, f'{head},\n "runs": {{\n{listed}\n }}\n}}\n')
    for name in {*old.files} - {*files} if old is not None else ():
        path.with_name(Path(name).name).unlink(missing_ok=True)


def _entry_of(name: str, run: Run, rows: pa.Table) -> dict[str, Any]:
    try:
        texts = {file: run.text(file) for file in run.manifest["files"] if file != ROWS}
        if RUN in rows.column_names:
            raise ValueError(f"its column {RUN} has the name of the column of a pack")
        columns = {column.name: str(column.type) for column in rows.schema}
        return {"manifest": run.manifest, "columns": columns, "fingerprint": fingerprint(rows), "texts": texts}
    except ValueError as error:  # a file that is not text, too
        raise ReachcostError(f"the run {name} cannot be packed ({error}): keep its directory") from error


def _write_rows(path: Path, runs: Mapping[str, pa.Table]) -> None:
    """Write a row group for each run, in columns that hold the values of all runs, and read everything back."""
    types = _common_types(table.schema for table in runs.values())
    texts = [RUN, *(name for name, kind in types.items() if kind == "string")]
    schema = pa.schema([(RUN, pa.string()), *((name, pa.type_for_alias(kind)) for name, kind in types.items())])
    with new_file(path) as partial:
        with pq.ParquetWriter(partial, schema, **{**OPTIONS, "use_dictionary": texts}) as writer:
            writer.add_key_value_metadata({RUNS: json.dumps([run_of(name) for name in runs])})
            for name, table in runs.items():
                named = [pa.array([run_of(name)] * len(table), pa.string())]
                columns = [
                    table[column].cast(kind) if column in table.column_names else pa.nulls(len(table), kind)
                    for column, kind in ((column, pa.type_for_alias(kind)) for column, kind in types.items())
                ]
                writer.write_table(pa.table([*named, *columns], schema=schema), row_group_size=max(len(table), 1))
        for name, table in runs.items():
            kinds = {column.name: str(column.type) for column in table.schema}
            found = read_row_group(partial, name, [RUN, *kinds], len(table))
            if fingerprint(as_typed(found, kinds)) != fingerprint(table):
                raise ReachcostError(f"the rows of {name} do not fit into {path.name}: keep the directory of that run")


def _common_types(schemas: Iterable[pa.Schema]) -> dict[str, str]:
    """A type for each column that holds its values in all runs: `double` where their types differ."""
    found: dict[str, str] = {}
    for field in (field for schema in schemas for field in schema):
        kind = str(field.type)
        found[field.name] = kind if found.get(field.name, kind) == kind else "double"
    return found


def _remove_directory(run: Run) -> None:
    """Remove the record of a packed run; without a manifest the directory is not a run any more."""
    (run.path / MANIFEST).unlink()
    if any((run.path / name).exists() for name in run.manifest["artefacts"]):
        (run.path / ROWS).unlink()
    else:
        shutil.rmtree(run.path)
    with suppress(OSError):  # other directories are left
        run.path.parent.rmdir()


if __name__ == "__main__":
    sys.exit(main())
