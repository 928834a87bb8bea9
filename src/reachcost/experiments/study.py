"""A study, declared as data: what runs in one world, from which seeds, and which tables are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reachcost.core.files import LONGEST_NAME, is_file_name
from reachcost.costs.latent import DecodedDistance, HeadCost, HybridCost, LatentMSE, StandardisedL2, SubspaceCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.fitting.labelled_recipe import Labels, require_label_settings
from reachcost.fitting.repair import HOLDOUT
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.heads.regression import PairHead
from reachcost.labels.imagined import Imagination
from reachcost.planning.control import Proposal
from reachcost.planning.planner import Planner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task

if TYPE_CHECKING:
    from reachcost.experiments.experiment import Experiment
    from reachcost.experiments.tables import TablePlan
    from reachcost.results.figures import PanelPlan


@dataclass(frozen=True)
class Member:
    """A world model of a study, with the seed of its planner and pools and, by default, of its heads."""

    model: str
    """Name of the world model in the study."""
    seed: int
    """The seed."""
    label: str
    """What its runs are called."""


@dataclass(frozen=True)
class HeadPlan:
    """How the head behind a terminal cost comes about; by default as `reachcost.repair(recipe=Recipe())` does it."""

    recipe: Recipe = field(default_factory=Recipe)
    """How it is trained."""
    labels: Literal[Labels, "oracle"] = "temporal"
    """Where labels come from (see `fitting.labelled_recipe`), or the true distance for diagnostic heads."""
    pairs: int = 100_000
    """Training pairs (of an epoch)."""
    validation: int = 10_000
    """Validation pairs."""
    sampling: str = "balanced"
    """How temporal pairs are drawn."""
    coverage: str = ""
    """Which states of the logs pairs are of (see `fitting.coverage`); all, if empty."""
    max_gap: int | None = None
    """Largest gap of temporal pairs."""
    rows: int | None = None
    """Log rows that pairs may use."""
    imagination: Imagination | None = None
    """How much is imagined, where labels are; by default as usual."""
    episodes: int | None = None
    """Logged episodes that pairs may use, the first ones; by default all."""
    holdout: float = HOLDOUT
    """Share of episodes kept for validation."""
    exclude: bool = True
    """Keep the source episodes of the evaluation set out."""
    shuffled: Literal["none", "train", "all"] = "none"
    """Whose labels are permuted: a shuffled control permutes all, so that no true label picks its epoch."""

    def __post_init__(self) -> None:
        """Refuse what would be recorded and ignored."""
        require_label_settings(self.labels, self.sampling, self.max_gap, self.imagination)
        if self.labels == "oracle" and self.rows is not None and not self.coverage:
            raise ReachcostError("oracle pairs are of all rows: say coverage='random' beside rows, or leave rows out")
        if not self.of_episodes and (self.holdout != HOLDOUT or self.shuffled == "train"):
            raise ReachcostError(
                f"{self.labels} labels are held out, and shuffled, as `repair` does it: leave that alone"
            )

    @property
    def of_episodes(self) -> bool:
        """Whether pairs are drawn by the settings here; otherwise as `repair` draws those with such labels."""
        return self.labels in ("temporal", "oracle")


@dataclass(frozen=True)
class CostPlan:
    """How a terminal cost comes about."""

    build: Callable[[Experiment, str, Mapping[str, LearnedHead]], TerminalCost]
    """From the experiment, the name of the world model and the heads."""
    heads: tuple[str, ...] = ()
    """Names of the heads it needs."""


@dataclass(frozen=True)
class PoolPlan:
    """The candidates that all costs of a member rank in SASC."""

    draw: Callable[[Task, WorldModel, EvaluationSet, int], np.ndarray]
    """Pools [E, S, H, A] of an evaluation set, from the seed of a member."""
    seed: Callable[[int], int]
    """The seed that they then have, for records."""
    candidates: int
    """S."""
    horizon: int
    """H."""


@dataclass(frozen=True)
class Setting:
    """One closed-loop run: a member, a terminal cost, and what differs from the study's protocol."""

    member: Member
    cost: str
    head_seed: int | None = None
    """Seed of its head and pairs; by default that of the member."""
    evaluation: str | None = None
    """Name of the evaluation set; by default the study's."""
    budget: int | None = None
    """Actions of an episode; by default those of the evaluation set."""
    clamp: bool = True
    """Whether the world model sees actions clamped to the logged range."""
    planner: Planner | None = None
    """The planner; by default the study's."""

    @property
    def seed_of_head(self) -> int:
        """Seed of the head."""
        return self.member.seed if self.head_seed is None else self.head_seed


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables and what their records are called: a study of several worlds declares no more than this."""

    name: str
    """What its records are called."""
    protocol: int
    """Raised when a change of code changes results, so that old records are refused."""
    tables: Mapping[str, TablePlan]
    """What is made of the runs, by name."""
    headings: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Heading and digits of metrics of its own."""
    table_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names that stand for several tables."""
    figures: Mapping[str, Sequence[PanelPlan]] = field(default_factory=dict)
    """Panels by the name of their figure, drawn from its tables; those of several studies make one figure."""
    legend: str = ""
    """What the names of costs mean, at the end of every note."""
    require: Callable[[], object] = lambda: None
    """Refuses to reproduce tables where something is missing, before anything runs."""


@dataclass(frozen=True, kw_only=True)
class Study(Tables):
    """What runs in one world. A new world is one of these, in a folder of its own."""

    task: Callable[[], Task]
    """The world that logs, models and heads are of."""
    logs: Mapping[str, Any]
    """What `task.generate_logs` is called with."""
    models: Mapping[str, Callable[[Task, bool], WorldModel]]
    """World models by name; the second argument is whether they see clamped actions."""
    members: Mapping[str, Sequence[Member]]
    """Kinds of world models, and who belongs to each."""
    planner: Planner
    """The planner."""
    pools: PoolPlan
    """Candidates for SASC."""
    evaluation: str
    """The evaluation set that is meant where none is named."""
    open_logs: Callable[[Task], Logs] | None = None
    """Returns logs of one's own, in place of those that the task generates."""
    heads: Mapping[str, HeadPlan] = field(default_factory=dict)
    """Learned costs by name."""
    costs: Mapping[str, CostPlan] = field(default_factory=dict)
    """Custom costs, in addition to the heads and those of `experiments/study.py`."""
    foreign_sets: Mapping[str, Callable[[], tuple[Task, EvaluationSet]]] = field(default_factory=dict)
    """Evaluation sets of other logs or worlds; the heads run on them are those of the study's own set."""
    quick_planner: Planner | None = None
    """A planner that takes less time, for tables of very many costs; by default the planner."""
    pair_seed: int | None = None
    """Seed of the pairs of all heads; by default each head has its own."""
    proposal: Callable[[Task], Proposal] | None = None
    """Candidates that the protocol writes into every pool of the planner."""
    prepare: Callable[[Any, Mapping[str, TerminalCost]], tuple[WorldModel, Mapping[str, TerminalCost]]] | None = None
    """An equivalent form of model and costs that plans faster."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are the success of a group of episodes of the task."""
    categories: Sequence[str] = ()
    """Metrics that are the share of a failure category of that name."""
    last_states: Mapping[str, Callable[[Task, np.ndarray, np.ndarray], np.ndarray]] = field(default_factory=dict)
    """Metrics that are the share of episodes whose last state is so, from task, states and goals: bool [N]."""
    bins: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Metrics that are the success of episodes by the oracle distance from start to goal; the last bin is closed."""

    def __post_init__(self) -> None:
        """Refuse what would mix up runs, or fail after hours."""
        members = [member for kind in self.members.values() for member in kind]
        names = [self.name, *self.tables, *self.heads, *self.costs, *(member.label for member in members)]
        for name in names:
            if not is_file_name(name):
                raise ReachcostError(
                    f"{name[:40]!r} cannot be the name of a file: choose a name of at most {LONGEST_NAME} bytes, all "
                    "of it printable, without slashes, and without a dot or space at either end"
                )
        labels = {member.label: member for member in members}
        if twice := next((member for member in members if labels[member.label] != member), None):
            raise ReachcostError(f"two members of {self.name} are called {twice.label!r}: give each its own label")
        if unknown := next((member for member in members if member.model not in self.models), None):
            raise ReachcostError(f"{self.name} has no world model {unknown.model!r}: it has {', '.join(self.models)}")
        if both := next((name for name in self.heads if name in self.costs), None):
            raise ReachcostError(f"{both!r} is a head and a cost of {self.name}: give one of them another name")

    def members_of(self, kind: str, seeds: Sequence[int] | None = None) -> list[Member]:
        """The members of a kind, or those of some seeds."""
        if kind not in self.members:
            raise ReachcostError(f"the study {self.name} has no members {kind!r}: it has {', '.join(self.members)}")
        found = [member for member in self.members[kind] if seeds is None or member.seed in seeds]
        if not found:
            raise ReachcostError(f"the study {self.name} has no {kind} of seeds {seeds}")
        return found

    def run_name(self, setting: Setting) -> str:
        """Name of a run: what differs from the protocol of the study."""
        parts = [setting.member.label, setting.evaluation or self.evaluation, setting.cost]
        parts += [f"head{setting.seed_of_head}"] if setting.seed_of_head != setting.member.seed else []
        parts += [f"budget{setting.budget}"] if setting.budget is not None else []
        parts += ["unclamped"] if not setting.clamp else []
        if setting.planner is not None:
            parts += [type(setting.planner).__name__] if type(setting.planner) is not type(self.planner) else []
            default, chosen = _settings(self.planner), _settings(setting.planner)
            parts += [f"{name}{value}" for name, value in chosen.items() if value != default.get(name)]
        return "-".join(parts)

    def smaller(self, heads: Mapping[str, HeadPlan] | None = None, **logs: Any) -> Study:
        """The same study on fewer logs, perhaps with quicker heads: to try it out."""
        return replace(self, logs={**self.logs, **logs}, heads=self.heads if heads is None else heads)


def _settings(planner: Any) -> dict[str, Any]:
    """The fields of a planner, which is a dataclass."""
    return {part.name: getattr(planner, part.name) for part in fields(planner)}


COSTS = {
    "raw": CostPlan(lambda experiment, model, heads: LatentMSE()),
    "standardized-l2": CostPlan(lambda experiment, model, heads: StandardisedL2.of(experiment.latents(model).values)),
    "decoded-xy": CostPlan(lambda experiment, model, heads: DecodedDistance(experiment.probe(model))),
    "decoded-geodesic": CostPlan(
        lambda experiment, model, heads: DecodedDistance(experiment.probe(model), experiment.task.distance)
    ),
    "rowspace": CostPlan(lambda experiment, model, heads: SubspaceCost(experiment.probe(model))),
    "residual": CostPlan(lambda experiment, model, heads: SubspaceCost(experiment.probe(model), residual=True)),
}


def replacement(name: str) -> CostPlan:
    """The head of that name in place of latent distance."""
    return CostPlan(lambda experiment, model, heads: HeadCost(heads[name]), (name,))


def hybrid(name: str, weight: float = 1.0) -> CostPlan:
    """Latent distance plus the head of that name, so many times."""
    return CostPlan(lambda experiment, model, heads: HybridCost(LatentMSE(), HeadCost(heads[name]), weight), (name,))


def symmetrised(name: str) -> CostPlan:
    """The pair head of that name with both input orders averaged."""

    def build(experiment: object, model: str, heads: Mapping[str, LearnedHead]) -> HeadCost:
        head = heads[name]
        if not isinstance(head, PairHead):
            raise ReachcostError(f"only a pair head has two input orders to average: {name!r} is a {head.kind} head")
        return HeadCost(head.symmetrised())

    return CostPlan(build, (name,))


def cost_plan(study: Study, name: str) -> CostPlan:
    """How a study builds the cost of that name."""
    if name in study.heads:
        return replacement(name)
    plans = {**COSTS, **study.costs}
    if name not in plans:
        raise ReachcostError(f"there is no cost {name!r}: choose one of {', '.join((*study.heads, *plans))}")
    return plans[name]
