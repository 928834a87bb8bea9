"""Label sources, heads and what peers offer, in a world of the suite, on the same logs and frozen latents."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np

from reachcost.audits.sasc import sasc
from reachcost.base.parallel import one_thread
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostWarning
from reachcost.fitting import hilp, qrl
from reachcost.fitting.budget import BudgetRecipe, fit_budget
from reachcost.fitting.choose import LabelledRecipe
from reachcost.fitting.default import repair_latents
from reachcost.fitting.inverse import InverseRecipe, fit_inverse
from reachcost.fitting.pairs import require_latents
from reachcost.fitting.recipe import Recipe
from reachcost.heads.base import LearnedHead
from reachcost.planning.control import control
from reachcost.planning.inverse import InversePolicy
from reachcost.planning.random_policy import RandomPolicy
from reachcost.protocols import Planner, TerminalCost, WorldModel
from reachcost.results.records import Columns, require_rows
from reachcost.results.tables import TableRow
from reachcost.studies.experiment import Recording
from reachcost.studies.lines import mean_intervals
from reachcost.studies.suite.settings import settings_of, worlds
from reachcost.tasks.contract import Task
from reachcost.worlds.world import PARTS, World

METRICS = ("success", "rho_geo", "seconds")


@dataclass(frozen=True)
class Place:
    """A world with its logs, model and goals; what every way to plan in it begins with."""

    world: World
    task: Task = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", self.world.task())

    @cached_property
    def logs(self) -> Logs:
        """Its logs."""
        return self.world.generate_logs(self.task)

    @cached_property
    def model(self) -> WorldModel:
        """Its world model."""
        return self.world.model(self.task, self.logs)

    @cached_property
    def latents(self) -> Latents:
        """The logs, encoded."""
        return encode_logs(self.model, self.logs)

    @cached_property
    def kept_out(self) -> list[EvaluationSet]:
        """Both evaluation sets."""
        return [self.world.evaluation(self.task, part) for part in PARTS]

    @cached_property
    def goals(self) -> EvaluationSet:
        """The set that is reported."""
        return self.world.evaluation(self.task, "report")


Way = tuple[WorldModel, TerminalCost, Planner]
"""What is planned with."""


def _repaired(place: Place, name: str) -> LearnedHead:
    labelled = SETTINGS[name]
    assert isinstance(labelled, LabelledRecipe)
    return repair_latents(
        place.latents, exclude=place.kept_out, recipe=labelled, model=place.model, shuffled=name == "shuffled"
    )


def _oracle(place: Place) -> Way:
    exact = exact_model(place.task, place.model, place.goals.starts)
    return exact, OracleGeodesic(exact), place.world.planner


def _random(place: Place) -> Way:
    count = place.task.discrete_actions
    return place.model, LatentMSE(), RandomPolicy() if count is None else RandomPolicy(count)


def _inverse(place: Place) -> Way:
    network = fit_inverse(place.model, place.logs, exclude=place.kept_out)
    return place.model, LatentMSE(), InversePolicy(network, sampled=network.discrete)


SETTINGS: dict[str, LabelledRecipe | Recipe | BudgetRecipe | InverseRecipe] = {
    "trm": LabelledRecipe(),
    "trm-paper": LabelledRecipe(Recipe.paper()),
    "trm-auto": LabelledRecipe(labels="auto"),
    "stitched-embedding": LabelledRecipe(labels="stitched"),
    "stitched-iqe": LabelledRecipe(labels="stitched", directed=True),
    "imagined-embedding": LabelledRecipe(labels="imagined"),
    "shuffled": LabelledRecipe(),
    "qrl": qrl.USUAL,
    "hilp": hilp.USUAL,
    "budget": BudgetRecipe(),
    "gc-idm": InverseRecipe(),
}
"""How everything is trained, for records."""
HEADS: dict[str, Callable[[Place], LearnedHead]] = {
    **{name: partial(_repaired, name=name) for name, one in SETTINGS.items() if isinstance(one, LabelledRecipe)},
    "qrl": lambda place: qrl.fit_qrl(place.latents, exclude=place.kept_out),
    "hilp": lambda place: hilp.fit_hilp(place.latents, exclude=place.kept_out),
    "budget": lambda place: fit_budget(place.model, place.logs, exclude=place.kept_out),
}
"""Heads in place of latent distance, by the name of their line."""
OTHERS: dict[str, Callable[[Place], Way]] = {
    "raw": lambda place: (place.model, LatentMSE(), place.world.planner),
    "gc-idm": _inverse,
    "oracle": _oracle,
    "random": _random,
}
UNRANKED = ("gc-idm", "random", "oracle")
"""What has no terminal cost that ranks latents."""
SHOWN = {"trm-auto": "trm-directed"}
"""What lines are called, if not by their way."""


def directed_rows(recording: Recording) -> list[TableRow]:
    """Where a gate opens one way: labels and heads that know it, and those that do not."""
    (world,) = (world for world in worlds() if world.name == "one-way")
    place = cache(lambda: Place(world))
    return [_row(recording, world, name, place) for name in (*OTHERS, *HEADS)]


def _row(recording: Recording, world: World, name: str, place: Callable[[], Place]) -> TableRow:
    def compute(_: Path) -> Columns:
        here = place()
        require_latents(here.latents)  # before the clock starts: encoding is no part of what is timed
        began = time.perf_counter()
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachcostWarning)  # what is doubtful is a line of the table
            model, cost, planner = OTHERS[name](here) if name in OTHERS else _headed(here, name)
        seconds = time.perf_counter() - began
        runs = control(here.task, model, {name: cost}, here.goals, planner)
        rows = {**runs.rows(), "seconds": np.full(len(here.goals), seconds)}
        if name not in UNRANKED:
            rows["rho"] = sasc(here.task, model, {name: cost}, here.goals).rankings[name].spearman
        return rows

    config = {**settings_of(recording, world), "part": "report", "way": name, "settings": SETTINGS.get(name)}
    run = recording.run("labels", f"{world.name}-{name}", config, compute)
    episodes = place().goals.episodes.tolist()
    columns = ("success", "seconds") if name in UNRANKED else ("success", "seconds", "rho")
    read = require_rows(run, {"cost": [name], "episode": episodes}, columns)
    values = {"success": 100.0 * read["success"], **({"rho_geo": read["rho"]} if "rho" in read else {})}
    learned = {"seconds": float(read["seconds"].mean())} if name in HEADS or name == "gc-idm" else {}
    return TableRow(
        cost=SHOWN.get(name, name),
        model=world.name,
        n=len(episodes),
        ours={**{metric: float(value.mean()) for metric, value in values.items()}, **learned},
        interval=mean_intervals(values, {"success"}),
        paper=None,
    )


def _headed(place: Place, name: str) -> Way:
    return place.model, HeadCost(HEADS[name](place)), place.world.planner
