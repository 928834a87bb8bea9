"""Reads records as material for a report. Other people may have written them, so no code in them runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reachcost.audits.audit import Audit, audit_of, is_audit, read_audit, read_ranks, rows_of
from reachcost.core.json_files import parse_json, read_record
from reachcost.errors import ReachcostError
from reachcost.experiments.registry import all_tables
from reachcost.heads.storage import FORMAT as HEAD
from reachcost.report.material import Loop, Material, Training, numbered
from reachcost.report.scene import FORMAT as SCENE
from reachcost.report.scene import read_scene, scene_file
from reachcost.results.pack import find_pack
from reachcost.results.records import Run, is_recorded, read_run, run_paths
from reachcost.results.tables import ResultTable, is_table, read_table

RUNS_OF_A_KIND, ROWS = 60, 1_000_000  # maximum number of runs of a kind that are shown, and of rows of a run
SCENE_FILE = "scene.json"
OUTCOMES = ("success", "steps", "category")
COLUMNS = {
    "success": pa.types.is_boolean,
    "steps": pa.types.is_integer,
    "category": pa.types.is_string,
    "rank": pa.types.is_floating,
}
# Settings that comparable closed loops share.
PROTOCOL = ("evaluation_set_sha256", "planner_settings", "planner_seed", "budget", "clamp")
POOL = ("candidates", "candidate_horizon", "candidate_seed")  # settings of the candidates of a ranking


def read_source(path: Path) -> Material:
    """Read an audit, a table, a scene, a run, a head, or a directory of runs and tables."""
    if not (is_recorded(path) or run_paths(path)):
        raise ReachcostError(
            f"there is nothing at {path}: give an audit, a run, a table, a head or a directory of these"
        )
    if path.is_dir() or not path.exists():  # packed runs have no directories
        return _read_directory(path)
    document = read_record(path) if path.suffix == ".json" else None
    if is_audit(document):
        scenes = (read_scene(scene_file(path)),) if scene_file(path).exists() else ()
        audit = read_audit(path)
        command = audit.settings.get("command")
        commands = (command,) if isinstance(command, str) else ()
        return Material(audits={path.stem: audit}, ranks=read_ranks(path), scenes=scenes, commands=commands)
    if is_table(document):
        return Material(tables=(_read_table(path),))
    if isinstance(document, dict) and document.get("format") == SCENE:
        return Material(scenes=(read_scene(path),))
    raise ReachcostError(
        f"{path} is not a record of reachcost: give what reachcost audit --out wrote, a table of DIR/tables, a "
        "directory of a run or a head, or a directory with runs and tables"
    )


def read_runs(runs: Sequence[Run]) -> Material:
    """Read runs; if there are many of a kind, only those that a page can show."""
    kinds: dict[str, list[Run]] = {"loop": [], "ranks": [], "head": [], "audit": [], "": []}
    for run in runs:
        kinds[_kind(run)].append(run)
    ranked, left_out = _largest_pool(kinds["ranks"]), []
    if len(kinds["loop"]) > RUNS_OF_A_KIND:
        left_out.append(f"Outcomes of {len(kinds['loop'])} closed loops are only in the tables.")
        kinds["loop"] = []
    for kind in ("audit", "head"):
        if (more := len(kinds[kind]) - RUNS_OF_A_KIND) > 0:
            left_out.append(f"{more} further runs with {kind}s are not shown.")
            del kinds[kind][RUNS_OF_A_KIND:]
    others = f"{len(ranked)} of {len(kinds['ranks'])} rankings are shown: those of one world model on one set of pools."
    return Material(
        audits={run.path.name: _audit(run) for run in kinds["audit"]},
        loops=tuple(map(_loop, kinds["loop"])),
        ranks={_cost(run): _column(run, "rank") for run in ranked},
        unranked=(others,) if len(ranked) < len(kinds["ranks"]) else (),
        heads=numbered((run.path.name, _training(_document(run, "config.json"), run.path)) for run in kinds["head"]),
        records=tuple(runs),
        left_out=tuple(left_out),
    )


def _read_directory(path: Path) -> Material:
    if (path / "manifest.json").is_file() or find_pack(path):
        found = read_runs([read_run(path)])
        if not (found.audits or found.loops or found.ranks or found.heads):
            raise ReachcostError(f"{path} is not a closed loop, ranking, head or audit: give one of these")
        return found
    if (path / "config.json").is_file():
        return Material(heads={path.name: _training(read_record(path / "config.json"), path)})
    runs = run_paths(path if "runs" in path.absolute().parts else path / "runs")
    found = Material(
        tables=tuple(map(_read_table, sorted((path / "tables").glob("*.json")))),
        scenes=(read_scene(path / SCENE_FILE),) if (path / SCENE_FILE).exists() else (),
    )
    found = sum(map(read_source, _audit_files(path)), found) + read_runs([*map(read_run, runs)])
    if found.is_empty:
        raise ReachcostError(
            f"{path} holds no table, audit or finished run, and is neither a run nor a head: give the directory that "
            "reachcost demo, reproduce, compare, audit or fit wrote"
        )
    return found


def _audit_files(path: Path) -> Iterator[Path]:
    for folder in (path, path / "audits"):
        for file in sorted(folder.glob("*.json")):
            if not file.name.endswith(".scene.json") and is_audit(read_record(file)):
                yield file


def _read_table(file: Path) -> ResultTable:
    """A table, with the headings of the study that makes it."""
    study = all_tables().get(file.stem)
    return read_table(file, {} if study is None else study.headings)


def _kind(run: Run) -> str:
    """What a run recorded, or an empty text if a report has no panel for it."""
    files, config = run.manifest["files"], run.manifest["config"]
    if "audit.json" in files:
        return "audit"
    if "config.json" in files:
        return "head"
    if {"cost", "planner"} <= config.keys():  # some record paths instead of outcomes
        return "loop" if {*OUTCOMES} <= {*run.columns} else ""
    return "ranks" if {"cost", *POOL} <= config.keys() else ""


def _cost(run: Run) -> str:
    return str(run.manifest["config"].get("cost", run.path.name))


def _largest_pool(runs: Sequence[Run]) -> list[Run]:
    """The largest group of rankings of the same candidates, one for each cost."""
    groups: dict[tuple[str, ...], dict[str, Run]] = {}
    for run in runs:
        config = run.manifest["config"]
        key = tuple(str(config.get(name)) for name in ("model_sha256", "evaluation_set_sha256", "clamp", *POOL))
        groups.setdefault(key, {}).setdefault(_cost(run), run)
    return list(max(groups.values(), key=len, default={}).values())


def _loop(run: Run) -> Loop:
    config = run.manifest["config"]
    model, goals = (str(config.get(name, "")) for name in ("model", "evaluation_set"))
    protocol = json.dumps([config.get(name) for name in PROTOCOL], sort_keys=True)
    columns = (_column(run, name) for name in OUTCOMES)
    return Loop(_cost(run), *columns, run=run.path.name, model=model, setting=goals, protocol=protocol)


def _column(run: Run, name: str) -> np.ndarray:
    """A column of the rows of a run, checked."""
    if run.manifest["rows"] > ROWS:
        raise ReachcostError(f"{run.path} has more than {ROWS:,} rows: report a smaller run")
    table = run.table()
    known = name in table.column_names and COLUMNS[name](table.schema.field(name).type)
    if not known or not len(table) or table[name].null_count:
        raise ReachcostError(f"the rows of {run.path} have no column {name}: run the command that made them again")
    return table[name].to_numpy()


def _audit(run: Run) -> Audit:
    rows = partial(rows_of, run.table, run.path / "rows.parquet")
    return audit_of(_document(run, "audit.json"), run.path / "audit.json", rows)


def _document(run: Run, name: str) -> Any:
    """A JSON file of a run."""
    if not run.pack:
        return read_record(run.path / name)
    try:
        return parse_json(run.text(name).encode())
    except ValueError as error:
        raise ReachcostError(f"{run.path / name} is not valid JSON ({error}): restore its pack") from error


def _training(config: Any, path: Path) -> Training:
    """The training record of a head; its weights are not read."""
    if not isinstance(config, dict) or config.get("format") != HEAD or not isinstance(config.get("training"), dict):
        raise ReachcostError(f"{path} is not a head: give the directory that reachcost fit --out wrote")
    return Training.of(config["training"], str(path / "config.json"))
