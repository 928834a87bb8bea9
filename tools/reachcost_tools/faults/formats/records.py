"""Records of runs, audits, scenes and tables, files of sweeps, and evaluation sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from reachcost.audits.planner import Audit
from reachcost.audits.record import write_audit
from reachcost.audits.stage import judge, unknown
from reachcost.audits.stages import RULES, STAGES
from reachcost.commands.sweep import read_file, study_of_sweep
from reachcost.core.atomic import write_file
from reachcost.data.evaluation import read_evaluation_set
from reachcost.experiments.sweep import read_sweep
from reachcost.report.frames import frame_strip
from reachcost.report.report import Report
from reachcost.report.scene import Episode, Field, Map, Replay, Scene, scene_file
from reachcost.results.records import read_run, record_run
from reachcost.results.tables import ResultTable, TableRow
from reachcost.tasks.tworoom.evaluation_sets import FROZEN
from reachcost_tools.faults.browser import PAGE
from reachcost_tools.faults.formats import Format, digest
from reachcost_tools.pack import pack

SWEEP = """
task = "tworoom"
models = ["lewm-tworoom-3072"]
costs = ["raw", "trm"]
seeds = [0, 1]
budgets = [50]
logs = {episodes = 200}
episodes = 2
[heads.trm]
labels = ["temporal", "stitched"]
pairs = 500
recipe = {like = "paper", epochs = 1, hidden = 8}
[planners.quick]
horizon = 4
candidates = [8, 16]
iterations = 1
elites = 4
"""


def run(directory: Path) -> None:
    """A closed loop."""
    config = {"cost": "raw", "planner": {"candidates": 8}, "seed": 0, "model_sha256": "0" * 64}
    rows = {
        "episode": np.arange(6),
        "success": np.array([True, False] * 3),
        "steps": np.arange(6) + 3,
        "category": np.array(["success", "stuck"] * 3),
        "distance": np.linspace(0, 1, 6),
    }
    record_run(directory / "run", config, lambda _: rows)


def read_run_rows(directory: Path) -> str:
    """Its rows, as a report reads them."""
    page(directory / "run")
    table = read_run(directory / "run").table()
    return digest({name: table[name].to_numpy() for name in table.column_names})


def packed(directory: Path) -> None:
    """A closed loop in a pack."""
    run(directory / "runs" / "study" / "control")
    pack(directory)


def read_packed_rows(directory: Path) -> str:
    """Its rows, as a report reads them."""
    return read_run_rows(directory / "runs" / "study" / "control")


def audit(directory: Path) -> None:
    """An audit with its rows and its scene."""
    values = {"goals": 100.0, "sampling": 100.0, "ranking": 0.2, "dynamics": 0.9, "execution": 25.0}
    stages = tuple(
        judge(RULES[name], np.full(4, values[name]), np.arange(4))
        if name in values
        else unknown(RULES[name], "not asked")
        for name in STAGES
    )
    told = {"evaluation_set": "far", "episodes": 4, "cost": "LatentMSE", "planner": {"candidates": 8}}
    path = directory / "audit.json"
    write_audit(Audit(stages, caveats=("few episodes",), categories={"stuck": 3}, settings=told), path)
    scene(scene_file(path).parent, scene_file(path).name)


def scene(directory: Path, name: str = "scene.json") -> None:
    """Two episodes on a plane under two costs, with maps and frames."""
    frames = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)
    places, costs = ((0.0, 0.0), (0.5, 0.5), (1.0, 1.0)), ("raw", "trm")
    field = Field.of(np.linspace(0, 1, 12).reshape(3, 4))
    episodes = [
        Episode(
            number,
            "far",
            (1.0, 1.0),
            frame_strip(frames[:1]),
            tuple(Replay(cost, "stuck", False, 2, 0.5, places, frame_strip(frames)) for cost in costs),
            dict.fromkeys(costs, field),
        )
        for number in range(2)
    ]
    units = dict.fromkeys(costs, "steps")
    Scene("a plane", costs, units, Map((0.0, 0.0), (1.0, 1.0)), tuple(episodes), 4).write(directory / name)


def table(directory: Path) -> None:
    """Lines with intervals."""
    rows = [
        TableRow(cost, "lewm", 4, {"success": 25.0}, {"success": [20.0, 30.0]}, {"success": 7.0})
        for cost in ("raw", "trm")
    ]
    made = ResultTable("made", "Only `cost` differs.", ("success",), rows, {"command": "reachcost reproduce made"})
    made.write(directory)


def page(path: Path) -> str:
    """What a report makes of a record, kept beside it to be opened: all of it is shown, none of it runs."""
    text = Report(path).html()
    if "<script>alert" in text:
        raise AssertionError("what a record says became part of the page")
    there = next(parent for parent in path.parents if parent.is_dir())  # a packed run has no directory
    (there / PAGE).write_text(text)
    return text


def of_page(name: str) -> Callable[[Path], str]:
    """What makes a page of a file, and returns its digest."""
    return lambda directory: digest({"page": page(directory / name)})


def sweep(directory: Path) -> None:
    """Lists of everything."""
    write_file(directory / "sweep.toml", SWEEP)


def read_sweep_file(directory: Path) -> str:
    """All heads, planners, costs and members that it declares, for whom nobody trusts its author."""
    text = read_file(directory / "sweep.toml")
    found, study = read_sweep("sweep.toml", text), study_of_sweep("sweep.toml", text)
    heads = {name: asdict(plan) for name, plan in study.heads.items()}
    names = {"costs": [*study.costs], "members": study.members}
    return digest({"sweep": asdict(found), "heads": heads, "planners": found.all_planners(None), **names})


def frozen(directory: Path) -> None:
    """A set that is shipped."""
    write_file(directory / "balanced.json", (FROZEN / "balanced.json").read_bytes())


def read_set(directory: Path) -> str:
    """Its states and where they came from."""
    found = read_evaluation_set(directory / "balanced.json", np.float32)
    return digest({name: part for name, part in vars(found).items() if isinstance(part, np.ndarray | str | int)})


RECORDS = (
    Format("run record", run, read_run_rows, sealed=True),
    Format("pack", packed, read_packed_rows, sealed=True),
    Format("audit", audit, of_page("audit.json")),
    Format("scene", scene, of_page("scene.json")),
    Format("table", table, of_page("tables/made.json")),
    Format("sweep", sweep, read_sweep_file),
    Format("evaluation set", frozen, read_set, sealed=True),
)
