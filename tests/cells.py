"""A study of numbers, whose cells do what they are called: for processes of their own, which import it quickly."""

from __future__ import annotations

import os
import signal
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.protocols import WorldModel
from reachcost.results.records import Columns, Evaluated, require_rows
from reachcost.results.tables import TableRow
from reachcost.studies.cells.order import Order
from reachcost.studies.cells.waiting import row_of_runs
from reachcost.studies.experiment import Recording
from reachcost.studies.study import Study, Tables
from reachcost.studies.tables import TablePlan
from reachcost.tasks.contract import Task

from . import small, toy

BASE = 3
"""What every number is a multiple of."""


def base(directory: Path) -> Columns:
    (directory / "weights").write_text(str(BASE))
    return {"number": np.array([BASE])}


def behave(name: str, seen: Path, out: Path) -> None:
    """Do what a cell is called; `seen` is a file that tells whether it was tried before."""
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
    if name == "tells":
        seen.write_text(str(out))
    if name == "sleeps" or (name == "sleeps-once" and not tried):
        seen.write_text(str(os.getpid()))
        time.sleep(600)


@row_of_runs
def number_row(recording: Recording, name: str, seen: str) -> TableRow:
    """A line that needs the cell of weights, and one of its own."""
    weights = recording.run("base", "weights", {}, base, artefacts=["weights"])

    def compute(_: Path) -> Evaluated:
        behave(name, Path(seen) / name, recording.recorder.out)
        factor = int((weights_of(recording) / "weights").read_text())
        rows = {"episode": np.arange(4), "number": factor * np.arange(4)}
        return Evaluated(rows, {"evaluation_set_sha256": name})

    config = {"name": name, "world": name, "weights_sha256": weights.sha256["weights"]}
    run = recording.run("numbers", name, config, compute)
    number = require_rows(run, {"episode": [0, 1, 2, 3]}, ["number"])["number"]
    return TableRow(name, "none", 4, {"number": float(number.mean())}, {}, None)


def weights_of(recording: Recording) -> Path:
    return recording.run("base", "weights", {}, base, artefacts=["weights"]).path


def numbers(seen: str, *names: str) -> Tables:
    """A study with a table of these cells."""
    rows = partial(number_rows, names=names, seen=seen)
    return Tables(name="numbers", protocol=1, tables={"numbers": TablePlan("", ("number",), rows, intervals="")})


def number_rows(recording: Recording, names: tuple[str, ...], seen: str) -> list[TableRow]:
    return [number_row(recording, name, seen) for name in names]


def number_order(seen: Path, *names: str) -> Order:
    return Order("numbers", numbers, (str(seen), *names))


class Brief(toy.Corridor):
    """The corridor with episodes of a few actions."""

    action_budget = 6


def quick_toy() -> Study:
    """The corridor on fewer logs, with less search."""
    heads = {name: small.quicker(plan) for name, plan in toy.STUDY.heads.items()}
    planner = replace(toy.PLANNER, candidates=8, iterations=1, elites=2)
    study = replace(toy.STUDY, task=Brief, planner=planner, models={"sketch": sketch})
    return study.smaller(heads, episodes=100)


def sketch(task: Task, clamp: bool) -> WorldModel:
    return toy.Sketch(task)


def small_study(name: str) -> Study:
    return small.STUDIES[name]
