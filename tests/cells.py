"""A study of numbers whose cells behave as their names state, in a module that other processes import quickly."""

import os
import signal
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.experiments.cells import Cell, Recording, RunSpec, StudyRef, missing_of, with_needs
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.study import Study, Tables
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.protocols import WorldModel
from reachcost.results.records import Columns, Compute, Evaluated, Run, computed, keep_run, require_rows
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task

from . import small, toy

BASE = 3
"""Every number is a multiple of it."""


def record(*cells: Cell) -> list[Run]:
    """Record these runs, and what they need, unless they are recorded."""
    for cell in missing_of(with_needs(cells)).values():
        cell.record(computed(cell.compute))
    return [cell.read() for cell in cells]


def made_run(path: Path, config: dict[str, Any], compute: Compute, artefacts: tuple[str, ...] = ()) -> Run:
    return keep_run(path, config, computed(compute), artefacts)


def base(directory: Path) -> Columns:
    (directory / "weights").write_text(str(BASE))
    return {"number": np.array([BASE])}


def behave(name: str, seen: Path, out: Path) -> None:
    """Behave as the name of a cell states; `seen` is a file that exists if the cell was tried before."""
    tried = seen.exists()
    seen.touch()
    if name == "raises":
        raise ReachcostError("there is no such number: take another")
    if name == "errs":
        raise ZeroDivisionError("by nothing")
    if name == "dies" or (name == "dies-once" and not tried):
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "warns":
        warnings.warn("numbers are old", ReachcostWarning, stacklevel=1)
    if name == "notes":
        seen.write_text(str(out))
    if name == "sleeps" or (name == "sleeps-once" and not tried):
        seen.write_text(str(os.getpid()))
        time.sleep(600)


@dataclass(frozen=True)
class WeightsRun(RunSpec):
    kind = "base"
    artefacts = ("weights",)

    def name(self, recording: Recording) -> str:
        return "weights"

    def config(self, recording: Recording) -> dict[str, Any]:
        return {}

    def compute(self, recording: Recording, directory: Path) -> Columns:
        return base(directory)


@dataclass(frozen=True)
class NumberRun(RunSpec):
    """A cell that needs that of weights."""

    kind = "numbers"
    called: str
    seen: str

    def name(self, recording: Recording) -> str:
        return self.called

    def needs(self, recording: Recording) -> list[RunSpec]:
        return [WeightsRun()]

    def config(self, recording: Recording) -> dict[str, Any]:
        weights = recording.sha256(WeightsRun(), "weights")
        lots = {"drawn": os.getpid()} if self.called == "draws" else {}
        return {"name": self.called, "world": self.called, "weights_sha256": weights, **lots}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        behave(self.called, Path(self.seen) / self.called, recording.out)
        if self.called == "undeclared":
            recording.read(NumberRun("other", self.seen))
        factor = int((recording.read(WeightsRun()).path / "weights").read_text())
        rows = {"episode": np.arange(4), "number": factor * np.arange(4)}
        return Evaluated(rows, {"evaluation_set_sha256": self.called})


def number_row(recording: Recording, run: NumberRun) -> TableRow:
    number = require_rows(recording.read(run), {"episode": [0, 1, 2, 3]}, ["number"])["number"]
    return TableRow(run.called, "none", 4, {"number": float(number.mean())}, {}, None)


def numbers(seen: str, *names: str) -> Tables:
    """A study with a table of these cells."""
    runs = [NumberRun(name, seen) for name in names]
    rows = TableRows(runs, lambda recording: [number_row(recording, run) for run in runs])
    return Tables(name="numbers", protocol=1, tables={"numbers": TablePlan("", ("number",), rows, intervals="")})


def number_request(seen: Path, *names: str) -> TableRequest:
    return TableRequest("numbers", StudyRef(numbers, (str(seen), *names)))


class Brief(toy.Corridor):
    """The corridor with episodes of a few actions."""

    action_budget = 6


def quick_toy() -> Study:
    """The corridor on fewer logs, with less search."""
    heads = {name: small.quicker(plan) for name, plan in toy.STUDY.heads.items()}
    planner = replace(toy.PLANNER, candidates=8, iterations=1, elites=2)
    logs = {**toy.STUDY.logs, "episodes": 100}
    return replace(toy.STUDY, task=Brief, planner=planner, models={"sketch": sketch}, logs=logs, heads=heads)


def sketch(task: Task, clamp: bool) -> WorldModel:
    return toy.Sketch(task)


def small_study(name: str) -> Study:
    return small.STUDIES[name]
