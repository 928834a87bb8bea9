"""Success by number of rollouts in many worlds: the paper's search, a sixteenth of it, and plans from logs."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from reachcost.costs.latent import HeadCost
from reachcost.experiments.cells import Cell, Recording, RunSpec
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.results.records import Evaluated, require_rows
from reachcost.results.tables import TableRow
from reachcost_paper.suite.labels import (
    BOUNDS,
    HEADS,
    SETTINGS,
    MethodRun,
    Place,
    mean_row,
    method_row,
    paper_studies,
    place_of,
)
from reachcost_paper.worlds import suite

METRICS = ("success", "steps")
COST = "trm-auto"
SEEDS = (0, 1)
"""Of planners."""
SIZES = ("candidates", "iterations", "elites", "keep_elites")
"""Fields of a planner that set its size; the others belong to a world."""


def planners(own: CEM | CategoricalCEM) -> dict[str, CEM | CategoricalCEM]:
    """The planner of a world in the paper's size, and planners with fewer rollouts, by their names in the table."""
    paper = type(own)()
    rounds = max(own.iterations, paper.iterations)
    full = replace(own, candidates=paper.candidates, iterations=rounds, elites=paper.elites)
    of_world: dict[str, Any] = {
        part.name: getattr(own, part.name)
        for part in fields(own)
        if part.name not in SIZES and getattr(own, part.name) != part.default
    }
    of_world.pop("actions", None)
    if isinstance(own, CategoricalCEM):
        found = [("CEM", full), ("CEM", replace(full, candidates=16, elites=4))]
        found += [("from logs", CategoricalCEM.experienced(own.actions, **of_world, candidates=n)) for n in (16, 32)]
    else:
        few = {**of_world, "candidates": 37, "iterations": rounds // 2}
        found = [("CEM", full), ("CEM", CEM(**few, elites=4)), ("iCEM", CEM.improved(**few, elites=4))]
        found += [("from logs", CEM.experienced(**{**few, "candidates": n})) for n in (37, 75)]
    return {f"{name} {planner.candidates} x {planner.iterations}": planner for name, planner in found}


@dataclass(frozen=True)
class BudgetRun(RunSpec):
    """Every planner in one world, all with one head; rows are seeds, planners and episodes."""

    kind: ClassVar[str] = "budget"
    world: str
    """A world of the suite, or the study of another."""

    def name(self, recording: Recording) -> str:
        return self.world

    def config(self, recording: Recording) -> dict[str, Any]:
        place = recording.once(place_of, self.world)
        method = {"way": COST, "settings": SETTINGS[COST]}
        return {**place.declared, **method, "planners": _planners(place), "planner_seeds": SEEDS}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        place = recording.once(place_of, self.world)
        cost, parts = HeadCost(HEADS[COST](place)), []
        for seed in SEEDS:
            for name, planner in _planners(place).items():
                logs = place.latents if planner.from_logs else None
                runs = control(place.task, place.model, {name: cost}, place.goals, planner, seed=seed, logs=logs)
                parts.append({**runs.rows(), "seed": np.full(len(place.goals), seed)})
        return Evaluated({key: np.concatenate([part[key] for part in parts]) for key in parts[0]}, place.goals.record)


def _planners(place: Place) -> dict[str, CEM | CategoricalCEM]:
    return planners(cast("CEM | CategoricalCEM", place.planner))


def budget_worlds() -> list[str]:
    """The worlds of the paper without the table `budget`, then the suite."""
    return [*(study.name for study in paper_studies() if "budget" not in study.tables), *suite()]


def budget_runs(recording: Recording) -> list[Cell]:
    bounds = [MethodRun(world, name) for world in budget_worlds() for name in BOUNDS]
    return recording.cells([*map(BudgetRun, budget_worlds()), *bounds])


def budget_rows(recording: Recording) -> list[TableRow]:
    return [row for world in budget_worlds() for row in world_rows(recording, world)]


def world_rows(recording: Recording, world: str) -> list[TableRow]:
    """Every planner in one world, all with one head; references are those of the table `labels`."""
    run, names = recording.read(BudgetRun(world)), _planners(recording.once(place_of, world))
    bounds = [method_row(recording, world, name) for name in BOUNDS]
    episodes = sorted(set(run.table()["episode"].to_pylist()))
    read = require_rows(run, {"cost": [*names], "seed": SEEDS, "episode": episodes}, METRICS)
    rows = [
        mean_row(COST, world, {"success": 100 * read["success"][number], "steps": read["steps"][number]}, name)
        for number, name in enumerate(names)
    ]
    return [*rows, *bounds]
