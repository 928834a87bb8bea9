"""Packs the recorded runs of an output directory into few files, or drops runs from its packs.

    python -m reachcost_tools.pack results                                  # pack every run that is a directory
    python -m reachcost_tools.pack results --drop 'tworoom/control/*-qrl'   # they will be computed again

A command of this repository and not of `reachcost`: only records that are published need to be few files.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from reachcost.errors import ReachcostError
from reachcost.results.pack import NAME, Packed, name_of, open_pack, write_pack
from reachcost.results.records import MANIFEST, ROWS, Run, exclusive, read_run, require_intact_runs, run_paths


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
            runs = {name_of(run.path): _packed(run) for run in new if run.path.parent.parent == study}
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


def _packed_runs(path: Path) -> dict[str, Packed]:
    """The runs of a pack, if it exists."""
    return {name: open_pack(path).packed(name) for name in open_pack(path).names} if path.is_file() else {}


def _packed(run: Run) -> Packed:
    try:
        texts = {name: run.text(name) for name in run.manifest["files"] if name != ROWS}
    except UnicodeDecodeError as error:
        raise ReachcostError(f"a file of {run.path} is not text: a pack holds rows and text files only") from error
    return Packed(run.manifest, run.table(), texts)


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
