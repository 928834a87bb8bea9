"""Label sources, heads, peers and planners in many worlds, each on the same logs and frozen latents."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from reachcost.audits.sasc import sasc
from reachcost.core.parallel import one_thread
from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.experiments.cells import Cell, Recording, RunSpec
from reachcost.experiments.rows import mean_intervals
from reachcost.experiments.study import Study
from reachcost.fitting.repair import LabelledRecipe, repair
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.pairs import require_latents
from reachcost.labels.stitched import default_recipe
from reachcost.peers.budget_and_inverse import BudgetRecipe, InverseRecipe, fit_budget, fit_inverse
from reachcost.peers.qrl_and_hilp import HILP_RECIPE, QRL_RECIPE, fit_hilp, fit_qrl
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.control import Proposal, control, require_actions, require_planner
from reachcost.planning.planner import InversePolicy, PlanContext, Planner, RandomPolicy
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.records import Evaluated, require_rows
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task
from reachcost_paper.pusht.settings import PLANNER as PUSHT_PLANNER
from reachcost_paper.worlds import World, suite
from reachcost_paper.worlds.suite import require_packages
from reachcost_paper.worlds.tasks import EPISODES

DECLARED = ("logs", "wandering", "planner", "cost", "recipe", "pairs")
"""Settings of a world that its records depend on."""
QUICK_PLANNERS = {"pusht": replace(PUSHT_PLANNER, blocks=None)}
"""Faster planners than those of the studies, as there are very many costs."""


def settings_of(recording: Recording, world: World) -> dict[str, Any]:
    study = {"study": recording.study.name, "protocol": recording.study.protocol, "world": world.name}
    return {**study, **{name: getattr(world, name) for name in DECLARED}}


@dataclass(frozen=True)
class Place:
    """A world with its logs, model and goals, each made on first use."""

    make_task: Callable[[], Task]
    make_logs: Callable[[Task], Logs]
    make_model: Callable[[Task, Logs], WorldModel]
    sets: Callable[[Task], Sequence[EvaluationSet]]
    """The reported set first, then further sets (or the full set) that are also excluded from training."""
    planner: Planner
    declared: Mapping[str, Any]
    """Configuration of the runs in it."""
    seed: int = 0
    """Seed of planner and heads."""
    make_proposal: Callable[[Task], Proposal] | None = None
    """Candidates that its protocol adds to every pool, if any."""

    @classmethod
    def of_world(cls, recording: Recording, world: World) -> Self:
        return cls(
            make_task=world.task,
            make_logs=world.generate_logs,
            make_model=world.model,
            sets=lambda task: [world.evaluation(task, part) for part in ("report", "tune")],
            planner=world.planner,
            declared={**settings_of(recording, world), "part": "report"},
        )

    @classmethod
    def of_study(cls, study: Study) -> Self:
        """The world of a study, with its first world model and its evaluation set."""
        member = next(iter(study.members.values()))[0]
        planner = QUICK_PLANNERS.get(study.name, study.planner)
        declared = {"study": study.name, "protocol": study.protocol, "logs": study.logs, "model": member.model}
        return cls(
            make_task=study.task,
            make_logs=lambda task: task.generate_logs(**study.logs),
            make_model=lambda task, logs: study.models[member.model](task, True),
            sets=lambda task: [(full := task.evaluation_set(study.evaluation)).spread(EPISODES), full],
            planner=planner,
            declared={**declared, "evaluation": study.evaluation, "episodes": EPISODES, "planner": planner},
            seed=member.seed,
            make_proposal=study.proposal,
        )

    @cached_property
    def task(self) -> Task:
        return self.make_task()

    @cached_property
    def logs(self) -> Logs:
        return self.make_logs(self.task)

    @cached_property
    def model(self) -> WorldModel:
        return self.make_model(self.task, self.logs)

    @cached_property
    def latents(self) -> Latents:
        return encode_logs(self.model, self.logs)

    @cached_property
    def excluded(self) -> list[EvaluationSet]:
        return [*self.sets(self.task)]

    @property
    def goals(self) -> EvaluationSet:
        return self.excluded[0]


def mean_row(cost: str, model: str, values: Mapping[str, np.ndarray], setting: str = "") -> TableRow:
    """The row of a cost in a world, from metrics [runs, episodes]; success is in percent."""
    ours = {metric: float(value.mean()) for metric, value in values.items()}
    return TableRow(cost, model, values["success"].size, ours, mean_intervals(values, {"success"}), None, None, setting)


def paper_studies() -> list[Study]:
    from reachcost_paper import studies

    return [study for study in studies() if isinstance(study, Study)]


def place_of(recording: Recording, world: str) -> Place:
    """A world of the suite, or that of a study."""
    if world in suite():
        return Place.of_world(recording, suite()[world])
    return Place.of_study(next(study for study in paper_studies() if study.name == world))


def require_ready() -> None:
    """Refuse to begin if a package of any world is missing."""
    require_packages(suite().values())
    for study in paper_studies():
        study.require()


METRICS = ("success", "rho_geo", "seconds", "operations")
MILLION = 1e6
TIMED = 4
"""Episodes whose first plans measure the operations per action."""


Control = tuple[WorldModel, TerminalCost, Planner]
"""World model, terminal cost and planner of a closed loop."""


def _repaired(place: Place, name: str) -> LearnedHead:
    recipe, shuffled = SETTINGS[name], name == "shuffled"
    assert isinstance(recipe, LabelledRecipe)
    settings: Any = {"exclude": place.excluded, "seed": place.seed, "references": False}
    return repair(place.model, place.latents, recipe=recipe, shuffled=shuffled, **settings)


def _with_head(place: Place, name: str) -> Control:
    return place.model, HeadCost(HEADS[name](place)), place.planner


def _oracle(place: Place) -> Control:
    exact = exact_model(place.task, place.model, place.goals.starts)
    return exact, OracleGeodesic(exact), place.planner


def _random(place: Place) -> Control:
    count = place.task.discrete_actions
    return place.model, LatentMSE(), RandomPolicy() if count is None else RandomPolicy(count)


def _inverse(place: Place) -> Control:
    network = fit_inverse(place.model, place.logs, exclude=place.excluded, seed=place.seed)
    return place.model, LatentMSE(), InversePolicy(network, sampled=network.discrete)


SETTINGS: dict[str, LabelledRecipe | Recipe | BudgetRecipe | InverseRecipe] = {
    "trm": LabelledRecipe(),
    "trm-paper": LabelledRecipe(Recipe.paper()),
    "trm-auto": LabelledRecipe(labels="auto"),
    "temporal-iqe": LabelledRecipe(Recipe(head="iqe"), directed=True),
    "stitched-embedding": LabelledRecipe(default_recipe(False), labels="stitched"),
    "stitched-iqe": LabelledRecipe(default_recipe(True), labels="stitched", directed=True),
    "stitched-mrn": LabelledRecipe(Recipe(head="mrn", epochs=16, expectile=0.5), labels="stitched", directed=True),
    "imagined-embedding": LabelledRecipe(default_recipe(False), labels="imagined"),
    "imagined-iqe": LabelledRecipe(default_recipe(True), labels="imagined", directed=True),
    "shuffled": LabelledRecipe(),
    "qrl": QRL_RECIPE,
    "hilp": HILP_RECIPE,
    "budget": BudgetRecipe(),
    "gc-idm": InverseRecipe(),
}
"""Training settings of the methods, for records."""
HEADS: dict[str, Callable[[Place], LearnedHead]] = {
    **{name: partial(_repaired, name=name) for name, one in SETTINGS.items() if isinstance(one, LabelledRecipe)},
    "qrl": lambda place: fit_qrl(place.latents, exclude=place.excluded, seed=place.seed),
    "hilp": lambda place: fit_hilp(place.latents, exclude=place.excluded, seed=place.seed),
    "budget": lambda place: fit_budget(place.model, place.logs, exclude=place.excluded, seed=place.seed),
}
"""Methods that train a head in place of latent distance."""
OTHERS: dict[str, Callable[[Place], Control]] = {
    "raw": lambda place: (place.model, LatentMSE(), place.planner),
    "gc-idm": _inverse,
    "oracle": _oracle,
    "random": _random,
}
UNRANKED = ("gc-idm", "random", "oracle")
"""Methods without a terminal cost that ranks latents."""
METHODS = (*OTHERS, *HEADS)
DIRECTED = "one-way"
BOUNDS = ("oracle", "random")
"""Methods without a world model."""


@dataclass(frozen=True)
class MethodRun(RunSpec):
    """Closed loops with a label source, head or peer in a world; rows are episodes."""

    kind: ClassVar[str] = "labels"
    world: str
    """A world of the suite, or the study of another."""
    method: str
    """One of `HEADS` or `OTHERS`."""

    def name(self, recording: Recording) -> str:
        return f"{self.world}-{self.method}"

    def config(self, recording: Recording) -> dict[str, Any]:
        place = recording.once(place_of, self.world)
        return {**place.declared, "way": self.method, "settings": SETTINGS.get(self.method)}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        """Train, run every episode, and count operations."""
        name, place = self.method, recording.once(place_of, self.world)
        require_latents(place.latents)  # the time of encoding does not count
        began = time.perf_counter()
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachcostWarning)  # doubtful labels are rows of the table
            model, cost, planner = OTHERS[name](place) if name in OTHERS else _with_head(place, name)
        seconds = time.perf_counter() - began
        proposal = None if place.make_proposal is None or name in UNRANKED[:2] else place.make_proposal(place.task)
        runs = control(place.task, model, {name: cost}, place.goals, planner, seed=place.seed, proposal=proposal)
        rows = {**runs.rows(), "seconds": np.full(len(place.goals), seconds)}
        if name not in BOUNDS:
            count = multiply_adds(place.task, model, cost, place.goals.spread(TIMED), planner)
            rows["operations"] = np.full(len(place.goals), count / MILLION)
        if name not in UNRANKED:
            rows["rho"] = sasc(place.task, model, {name: cost}, place.goals).rankings[name].spearman
        return Evaluated(rows, place.goals.record)


@torch.no_grad()
def multiply_adds(
    task: Task, model: WorldModel, cost: TerminalCost, evaluation: EvaluationSet, planner: Planner
) -> int:
    """Multiply-adds of matrix products and convolutions in torch per executed action, without encoding.

    The first plan of every episode is counted, and divided by the number of actions that are executed of it.
    """
    blocks = require_actions(task, model)
    require_planner(task, planner)
    if planner.from_logs or planner.shrink:
        raise ReachcostError("the first plan with `shrink` or `from_logs` costs more or less: measure without them")
    start, goal = (encode_rows(model, task.observe(ends), len(ends)) for ends in (evaluation.starts, evaluation.goals))
    streams = EpisodeStreams(0, "plan", evaluation.episodes, 0)
    with one_thread(), FlopCounterMode(display=False) as counter:
        planner.plan(PlanContext(model, cost, start[:, None], goal, streams))
    actions = len(evaluation) * planner.executed * (blocks.length if blocks else 1)
    return round(counter.get_total_flops() / 2 / actions)


DIRECTED_RUNS = [MethodRun(DIRECTED, method) for method in METHODS]


def all_worlds() -> list[str]:
    return [*(study.name for study in paper_studies()), *suite()]


def label_runs(recording: Recording) -> list[Cell]:
    return recording.cells(MethodRun(world, method) for world in all_worlds() for method in METHODS)


def label_rows(recording: Recording) -> list[TableRow]:
    return [method_row(recording, world, method) for world in all_worlds() for method in METHODS]


def directed_rows(recording: Recording) -> list[TableRow]:
    return [method_row(recording, DIRECTED, method, shown={"trm-auto": "trm-directed"}) for method in METHODS]


def method_row(recording: Recording, world: str, name: str, shown: Mapping[str, str] | None = None) -> TableRow:
    """A method in a world; `shown` renames methods."""
    run = recording.read(MethodRun(world, name))
    episodes = sorted(set(run.table()["episode"].to_pylist()))  # making the world may need packages
    further = {"seconds": name not in BOUNDS, "operations": name not in BOUNDS, "rho": name not in UNRANKED}
    read = require_rows(run, {"cost": [name], "episode": episodes}, ("success", *filter(further.get, further)))
    values = {"success": 100.0 * read["success"], **({"rho_geo": read["rho"]} if "rho" in read else {})}
    row = mean_row((shown or {}).get(name, name), world, values)
    learned = {"seconds": float(read["seconds"].mean())} if name in HEADS or name == "gc-idm" else {}
    effort = {"operations": float(read["operations"].mean())} if "operations" in read else {}
    return replace(row, ours={**row.ours, **learned, **effort})


BUDGET_METRICS = ("success", "steps")
BUDGET_COST = "trm-auto"
PLANNER_SEEDS = (0, 1)

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
        method = {"way": BUDGET_COST, "settings": SETTINGS[BUDGET_COST]}
        return {**place.declared, **method, "planners": _budget_planners(place), "planner_seeds": PLANNER_SEEDS}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        place = recording.once(place_of, self.world)
        cost, parts = HeadCost(HEADS[BUDGET_COST](place)), []
        for seed in PLANNER_SEEDS:
            for name, planner in _budget_planners(place).items():
                logs = place.latents if planner.from_logs else None
                runs = control(place.task, place.model, {name: cost}, place.goals, planner, seed=seed, logs=logs)
                parts.append({**runs.rows(), "seed": np.full(len(place.goals), seed)})
        return Evaluated({key: np.concatenate([part[key] for part in parts]) for key in parts[0]}, place.goals.record)


def _budget_planners(place: Place) -> dict[str, CEM | CategoricalCEM]:
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
    run, names = recording.read(BudgetRun(world)), _budget_planners(recording.once(place_of, world))
    bounds = [method_row(recording, world, name) for name in BOUNDS]
    episodes = sorted(set(run.table()["episode"].to_pylist()))
    read = require_rows(run, {"cost": [*names], "seed": PLANNER_SEEDS, "episode": episodes}, BUDGET_METRICS)
    rows = [
        mean_row(BUDGET_COST, world, {"success": 100 * read["success"][number], "steps": read["steps"][number]}, name)
        for number, name in enumerate(names)
    ]
    return [*rows, *bounds]
