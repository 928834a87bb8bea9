"""Label sources, heads and what peers offer, in many worlds, each on the same logs and frozen latents."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.audits.sasc import sasc
from reachcost.core.parallel import one_thread
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostWarning
from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import Recording
from reachcost.experiments.rows import mean_intervals
from reachcost.experiments.study import Study
from reachcost.fitting.labelled_recipe import LabelledRecipe
from reachcost.fitting.repair import repair_latents
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import require_latents
from reachcost.peers import hilp, qrl
from reachcost.peers.budget import BudgetRecipe, fit_budget
from reachcost.peers.inverse import InverseRecipe, fit_inverse
from reachcost.planning.control import Proposal, control
from reachcost.planning.measurements import cost_per_action
from reachcost.planning.planner import InversePolicy, Planner, RandomPolicy
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.records import Evaluated, require_rows
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task
from reachcost_paper.suite.settings import settings_of, worlds
from reachcost_paper.worlds import suite
from reachcost_paper.worlds.sets import EPISODES
from reachcost_paper.worlds.world import PARTS, World, require_packages

METRICS = ("success", "rho_geo", "seconds", "operations")
MILLION = 1e6
TIMED = 4
"""Episodes whose first plans tell what an action costs."""


@dataclass(frozen=True)
class Place:
    """A world with its logs, model and goals; nothing is made before it is asked for."""

    name: str
    """How lines call it."""
    make_task: Callable[[], Task]
    """Makes the task."""
    make_logs: Callable[[Task], Logs]
    """Makes its logs."""
    make_model: Callable[[Task, Logs], WorldModel]
    """Makes its world model."""
    sets: Callable[[Task], Sequence[EvaluationSet]]
    """The set that is reported, then others, or the whole of it, that are kept out of training just as well."""
    planner: Planner
    """What plans."""
    declared: Mapping[str, Any]
    """What runs in it depend on, for records."""
    seed: int = 0
    """Of planner and heads."""
    make_proposal: Callable[[Task], Proposal] | None = None
    """Candidates that its protocol writes into every pool, if any."""

    @classmethod
    def of_world(cls, recording: Recording, world: World) -> Place:
        """A world of the suite."""
        return cls(
            name=world.name,
            make_task=world.task,
            make_logs=world.generate_logs,
            make_model=world.model,
            sets=lambda task: [world.evaluation(task, part) for part in reversed(PARTS)],
            planner=world.planner,
            declared={**settings_of(recording, world), "part": "report"},
        )

    @classmethod
    def of_study(cls, study: Study) -> Place:
        """The world of a study, with its first world model and its evaluation set."""
        member = next(iter(study.members.values()))[0]
        planner = study.quick_planner or study.planner
        declared = {"study": study.name, "protocol": study.protocol, "logs": study.logs, "model": member.model}
        return cls(
            name=study.name,
            make_task=study.task,
            make_logs=lambda task: task.generate_logs(**study.logs),
            make_model=lambda task, logs: study.models[member.model](task, True),
            sets=lambda task: [(whole := task.evaluation_set(study.evaluation)).spread(EPISODES), whole],
            planner=planner,
            declared={**declared, "evaluation": study.evaluation, "episodes": EPISODES, "planner": planner},
            seed=member.seed,
            make_proposal=study.proposal,
        )

    @cached_property
    def task(self) -> Task:
        """The task."""
        return self.make_task()

    @cached_property
    def logs(self) -> Logs:
        """Its logs."""
        return self.make_logs(self.task)

    @cached_property
    def model(self) -> WorldModel:
        """Its world model."""
        return self.make_model(self.task, self.logs)

    @cached_property
    def latents(self) -> Latents:
        """The logs, encoded."""
        return encode_logs(self.model, self.logs)

    @cached_property
    def kept_out(self) -> list[EvaluationSet]:
        """Sets that nothing learns from."""
        return [*self.sets(self.task)]

    @property
    def goals(self) -> EvaluationSet:
        """The set that is reported."""
        return self.kept_out[0]


Way = tuple[WorldModel, TerminalCost, Planner]
"""What is planned with."""


def _repaired(place: Place, name: str) -> LearnedHead:
    labelled = SETTINGS[name]
    assert isinstance(labelled, LabelledRecipe)
    return repair_latents(
        place.latents,
        exclude=place.kept_out,
        recipe=labelled,
        seed=place.seed,
        model=place.model,
        shuffled=name == "shuffled",
    )


def _oracle(place: Place) -> Way:
    exact = exact_model(place.task, place.model, place.goals.starts)
    return exact, OracleGeodesic(exact), place.planner


def _random(place: Place) -> Way:
    count = place.task.discrete_actions
    return place.model, LatentMSE(), RandomPolicy() if count is None else RandomPolicy(count)


def _inverse(place: Place) -> Way:
    network = fit_inverse(place.model, place.logs, exclude=place.kept_out, seed=place.seed)
    return place.model, LatentMSE(), InversePolicy(network, sampled=network.discrete)


SETTINGS: dict[str, LabelledRecipe | Recipe | BudgetRecipe | InverseRecipe] = {
    "trm": LabelledRecipe(),
    "trm-paper": LabelledRecipe(Recipe.paper()),
    "trm-auto": LabelledRecipe(labels="auto"),
    "temporal-iqe": LabelledRecipe(Recipe(head="iqe"), directed=True),
    "stitched-embedding": LabelledRecipe(labels="stitched"),
    "stitched-iqe": LabelledRecipe(labels="stitched", directed=True),
    "stitched-mrn": LabelledRecipe(Recipe(head="mrn", epochs=16, expectile=0.5), labels="stitched", directed=True),
    "imagined-embedding": LabelledRecipe(labels="imagined"),
    "imagined-iqe": LabelledRecipe(labels="imagined", directed=True),
    "shuffled": LabelledRecipe(),
    "qrl": qrl.DEFAULT_RECIPE,
    "hilp": hilp.DEFAULT_RECIPE,
    "budget": BudgetRecipe(),
    "gc-idm": InverseRecipe(),
}
"""How everything is trained, for records; `trm` is `temporal-embedding`, too."""
HEADS: dict[str, Callable[[Place], LearnedHead]] = {
    **{name: partial(_repaired, name=name) for name, one in SETTINGS.items() if isinstance(one, LabelledRecipe)},
    "qrl": lambda place: qrl.fit_qrl(place.latents, exclude=place.kept_out, seed=place.seed),
    "hilp": lambda place: hilp.fit_hilp(place.latents, exclude=place.kept_out, seed=place.seed),
    "budget": lambda place: fit_budget(place.model, place.logs, exclude=place.kept_out, seed=place.seed),
}
"""Heads in place of latent distance, by the name of their line."""
OTHERS: dict[str, Callable[[Place], Way]] = {
    "raw": lambda place: (place.model, LatentMSE(), place.planner),
    "gc-idm": _inverse,
    "oracle": _oracle,
    "random": _random,
}
UNRANKED = ("gc-idm", "random", "oracle")
"""What has no terminal cost that ranks latents."""
WAYS = (*OTHERS, *HEADS)
DIRECTED = "one-way"
BOUNDS = ("oracle", "random")
"""What plans without a world model, or not at all."""


def paper_studies() -> list[Study]:
    """The studies of single worlds: those of the paper."""
    from reachcost_paper import studies

    return [study for study in studies() if isinstance(study, Study)]


def require_ready() -> None:
    """Refuse to begin where a package of any of the worlds is missing."""
    require_packages(worlds())
    for study in paper_studies():
        study.require()


def place_of(recording: Recording, world: str) -> Place:
    """A world of the suite, or that of a study."""
    if world in suite():
        return Place.of_world(recording, suite()[world])
    return Place.of_study(next(study for study in paper_studies() if study.name == world))


@dataclass(frozen=True)
class WayRun(RunSpec):
    """What a label source, head or peer makes of a world; rows are episodes."""

    kind: ClassVar[str] = "labels"
    world: str
    """A world of the suite, or the study of another."""
    way: str
    """One of `HEADS` or `OTHERS`."""

    def name(self, recording: Recording) -> str:
        """World and way."""
        return f"{self.world}-{self.way}"

    def config(self, recording: Recording) -> dict[str, Any]:
        """The world, and how heads are trained."""
        place = recording.once(place_of, self.world)
        return {**place.declared, "way": self.way, "settings": SETTINGS.get(self.way)}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        """Train, run every episode, and count operations."""
        name, place = self.way, recording.once(place_of, self.world)
        require_latents(place.latents)  # before the clock starts: encoding is no part of what is timed
        began = time.perf_counter()
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachcostWarning)  # what is doubtful is a line of the table
            model, cost, planner = OTHERS[name](place) if name in OTHERS else _headed(place, name)
        seconds = time.perf_counter() - began
        proposal = None if place.make_proposal is None or name in UNRANKED[:2] else place.make_proposal(place.task)
        runs = control(place.task, model, {name: cost}, place.goals, planner, seed=place.seed, proposal=proposal)
        rows = {**runs.rows(), "seconds": np.full(len(place.goals), seconds)}
        if name not in BOUNDS:
            effort = cost_per_action(place.task, model, cost, place.goals.spread(TIMED), planner)
            rows["operations"] = np.full(len(place.goals), effort.multiply_adds / MILLION)
        if name not in UNRANKED:
            rows["rho"] = sasc(place.task, model, {name: cost}, place.goals).rankings[name].spearman
        return Evaluated(rows, place.goals.record)


def all_worlds() -> list[str]:
    """Those of the paper, then the suite."""
    return [*(study.name for study in paper_studies()), *suite()]


def label_runs(recording: Recording) -> list[Cell]:
    """Every way in every world."""
    return recording.cells(WayRun(world, way) for world in all_worlds() for way in WAYS)


def label_rows(recording: Recording) -> list[TableRow]:
    """Every way in every world: those of the paper, then the suite."""
    return [way_row(recording, world, way) for world in all_worlds() for way in WAYS]


def directed_runs(recording: Recording) -> list[Cell]:
    """Every way in the world whose gate opens one way."""
    return recording.cells(WayRun(DIRECTED, way) for way in WAYS)


def directed_rows(recording: Recording) -> list[TableRow]:
    """The world whose gate opens one way: labels and heads that know it, and those that do not."""
    return [way_row(recording, DIRECTED, way, shown={"trm-auto": "trm-directed"}) for way in WAYS]


def way_row(recording: Recording, world: str, name: str, shown: Mapping[str, str] | None = None) -> TableRow:
    """What a way makes of a world; `shown` renames it."""
    run = recording.read(WayRun(world, name))
    episodes = sorted(set(run.table()["episode"].to_pylist()))  # of the run: a world may need packages to be made
    further = {"seconds": name not in BOUNDS, "operations": name not in BOUNDS, "rho": name not in UNRANKED}
    read = require_rows(run, {"cost": [name], "episode": episodes}, ("success", *filter(further.get, further)))
    values = {"success": 100.0 * read["success"], **({"rho_geo": read["rho"]} if "rho" in read else {})}
    learned = {"seconds": float(read["seconds"].mean())} if name in HEADS or name == "gc-idm" else {}
    effort = {"operations": float(read["operations"].mean())} if "operations" in read else {}
    return TableRow(
        cost=(shown or {}).get(name, name),
        model=world,
        n=len(episodes),
        ours={**{metric: float(value.mean()) for metric, value in values.items()}, **learned, **effort},
        interval=mean_intervals(values, {"success"}),
        paper=None,
    )


def _headed(place: Place, name: str) -> Way:
    return place.model, HeadCost(HEADS[name](place)), place.planner
