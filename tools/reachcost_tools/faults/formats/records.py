"""Formats of runs, audits, scenes, tables, sweeps, and evaluation sets."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.audits.audit import Audit, write_audit
from reachcost.audits.stage import apply_rule, unknown
from reachcost.audits.stages import RULES, STAGES
from reachcost.commands.sweep import read_file, study_of_sweep
from reachcost.core.files import write_file
from reachcost.data.evaluation import read_evaluation_set
from reachcost.experiments.sweep import read_sweep
from reachcost.report.report import Report
from reachcost.report.scene import Episode, Field, Map, Replay, Scene, Strip, scene_file
from reachcost.results.records import computed, keep_run, read_run
from reachcost.results.tables import ResultTable, TableRow
from reachcost.tasks.tworoom.logs import FROZEN
from reachcost_tools.faults import DATA
from reachcost_tools.faults.browser import PAGE
from reachcost_tools.faults.formats import Format, digest
from reachcost_tools.pack import pack

SWEEP = (DATA / "small_sweep.toml").read_text()


def run(directory: Path) -> None:
    """Write a closed-loop run."""
    config = {"cost": "raw", "planner": {"candidates": 8}, "seed": 0, "model_sha256": "0" * 64}
    rows = {
        "episode": np.arange(6),
        "success": np.array([True, False] * 3),
        "steps": np.arange(6) + 3,
        "category": np.array(["success", "stuck"] * 3),
        "distance": np.linspace(0, 1, 6),
    }
    keep_run(directory / "run", config, computed(lambda _: rows))


def _read_run(directory: Path) -> str:
    """Digest of its rows, of which a report is made."""
    page(directory / "run")
    table = read_run(directory / "run").table()
    return digest({name: table[name].to_numpy() for name in table.column_names})


def packed(directory: Path) -> None:
    """Write a closed-loop run in a pack."""
    run(directory / "runs" / "study" / "control")
    pack(directory)


def _read_packed(directory: Path) -> str:
    return _read_run(directory / "runs" / "study" / "control")


def made_audit(evaluation_set: str | None = "far", **settings: Any) -> Audit:
    """An audit that blames the cost."""
    values = {"goals": 100.0, "sampling": 100.0, "ranking": 0.2, "dynamics": 0.9, "execution": 25.0}
    stages = tuple(
        apply_rule(RULES[name], np.full(4, values[name]), np.arange(4))
        if name in values
        else unknown(RULES[name], "not asked")
        for name in STAGES
    )
    known = {"evaluation_set": evaluation_set, "episodes": 4, "cost": "LatentMSE", "planner": {"candidates": 8}}
    return Audit(stages, caveats=("few episodes",), categories={"stuck": 3}, settings={**known, **settings})


def audit(directory: Path) -> None:
    """Write an audit with its rows and its scene."""
    path = directory / "audit.json"
    write_audit(made_audit(), path)
    scene(scene_file(path).parent, scene_file(path).name)


def scene(directory: Path, name: str = "scene.json") -> None:
    """Write two episodes on a plane under two costs, with maps and frames."""
    frames = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)
    places, costs = ((0.0, 0.0), (0.5, 0.5), (1.0, 1.0)), ("raw", "trm")
    field = Field.of(np.linspace(0, 1, 12).reshape(3, 4))
    episodes = [
        Episode(
            number,
            "far",
            (1.0, 1.0),
            Strip.of(frames[:1]),
            tuple(Replay(cost, "stuck", False, 2, 0.5, places, Strip.of(frames)) for cost in costs),
            dict.fromkeys(costs, field),
        )
        for number in range(2)
    ]
    units = dict.fromkeys(costs, "steps")
    Scene("a plane", costs, units, Map((0.0, 0.0), (1.0, 1.0)), tuple(episodes), 4).write(directory / name)


def table(directory: Path) -> None:
    """Write a table with intervals."""
    rows = [
        TableRow(cost, "lewm", 4, {"success": 25.0}, {"success": [20.0, 30.0]}, {"success": 7.0})
        for cost in ("raw", "trm")
    ]
    made = ResultTable("made", "Only `cost` differs.", ("success",), rows, {"command": "reachcost reproduce made"})
    made.write(directory)


def page(path: Path) -> str:
    """A report of a record, written next to it to be opened; raises if text of the record became code."""
    text = Report(path).html()
    if "<script>alert" in text:
        raise AssertionError("text of a record became code of the page")
    there = next(parent for parent in path.parents if parent.is_dir())  # a packed run has no directory
    (there / PAGE).write_text(text)
    return text


def _of_page(name: str) -> Callable[[Path], str]:
    return lambda directory: digest({"page": page(directory / name)})


def sweep(directory: Path) -> None:
    """Write a sweep."""
    write_file(directory / "sweep.toml", SWEEP)


def _read_sweep(directory: Path) -> str:
    """Digest of all that it declares, read without trust in its author."""
    text = read_file(directory / "sweep.toml")
    found, study = read_sweep("sweep.toml", text), study_of_sweep("sweep.toml", text)
    heads = {name: asdict(plan) for name, plan in study.heads.items()}
    names = {"costs": [*study.costs], "members": study.members}
    return digest({"sweep": asdict(found), "heads": heads, "planners": found.all_planners(None), **names})


def _evaluation_set(directory: Path) -> None:
    write_file(directory / "balanced.json", (FROZEN / "balanced.json").read_bytes())


def _read_evaluation_set(directory: Path) -> str:
    found = read_evaluation_set(directory / "balanced.json", np.float32)
    return digest({name: part for name, part in vars(found).items() if isinstance(part, np.ndarray | str | int)})


RECORDS = (
    Format("run record", run, _read_run, sealed=True),
    Format("pack", packed, _read_packed, sealed=True),
    Format("audit", audit, _of_page("audit.json")),
    Format("scene", scene, _of_page("scene.json")),
    Format("table", table, _of_page("tables/made.json")),
    Format("sweep", sweep, _read_sweep),
    Format("evaluation set", _evaluation_set, _read_evaluation_set, sealed=True),
)
