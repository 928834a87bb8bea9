"""A study, declared as data: its runs in one world, their seeds, and the tables made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from reachcost.audits.sasc import draw_pools
from reachcost.core.files import LONGEST_NAME, is_file_name
from reachcost.costs.latent import DecodedDistance, HeadCost, HybridCost, LatentMSE, StandardisedL2, SubspaceCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, did_you_mean, refuse, require_type
from reachcost.fitting.repair import HOLDOUT, LabelledRecipe, Labels
from reachcost.heads.base import LearnedHead
from reachcost.planning.control import Proposal
from reachcost.planning.planner import Planner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task

if TYPE_CHECKING:
    from pathlib import Path

    from reachcost.experiments.experiment import Experiment
    from reachcost.experiments.tables import TablePlan


@dataclass(frozen=True)
class Member:
    """A world model of a study, with the seed of its planner, its pools and, by default, its heads.

    Its runs are named by `label`.
    """

    model: str
    seed: int
    label: str


@dataclass(frozen=True)
class HeadPlan(LabelledRecipe):
    """A recipe, its labels, and the pairs of a head; by default as `reachcost.repair(recipe=Recipe())` trains it."""

    labels: Literal[Labels, "oracle"] = "temporal"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Source of labels, or `oracle`, the true distance, for diagnostic heads."""
    known: ClassVar[tuple[str, ...]] = (*LabelledRecipe.known, "oracle")
    pairs: int = 100_000
    """Number of training pairs (of an epoch)."""
    validation: int = 10_000
    coverage: str = ""
    """Restricts pairs to some states of the logs (see `labels.oracle`); all, if empty."""
    rows: int | None = None
    episodes: int | None = None
    """Number of logged episodes that pairs use, the first ones; by default all."""
    holdout: float = HOLDOUT
    """Share of episodes kept for validation."""
    exclude: bool = True
    """Whether the source episodes of the evaluation set are left out."""
    shuffled: Literal["none", "train", "all"] = "none"
    """Pairs whose labels are permuted; a shuffled control permutes all, so that no true label picks its epoch."""

    def __post_init__(self) -> None:
        """Refuse settings that would be recorded and ignored."""
        super().__post_init__()
        if self.labels == "oracle" and self.rows is not None and not self.coverage:
            raise ReachcostError("oracle pairs are of all rows: add coverage='random' to rows, or leave rows out")
        if self.labels == "oracle" and self.directed:
            raise ReachcostError("oracle labels have the direction of the true distance: leave directed out")
        if not self.of_episodes and (self.holdout != HOLDOUT or self.shuffled == "train"):
            raise ReachcostError(
                f"{self.labels} labels have the holdout and shuffling of `repair`: leave `holdout` and `shuffled` out"
            )

    @property
    def of_episodes(self) -> bool:
        """Whether these settings sample the pairs; otherwise `repair` samples them."""
        return self.labels in ("temporal", "oracle")


@dataclass(frozen=True)
class CostPlan:
    """How a terminal cost is built."""

    build: Callable[[Experiment, str, Mapping[str, LearnedHead]], TerminalCost]
    """Builds it from the experiment, the name of the world model and the heads."""
    heads: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolPlan:
    """The candidates that all costs of a member rank in SASC."""

    candidates: int = 300
    horizon: int = 5
    """Number of steps of a candidate."""
    seed: Callable[[int], int] = lambda seed: seed
    """Returns their seed, from the seed of a member."""
    draw: Callable[[Task, EvaluationSet, int], np.ndarray] | None = None
    """Returns custom pools [E, S, H, A] of an evaluation set, from the seed of a member; by default random ones."""

    def pools(self, task: Task, model: WorldModel, goals: EvaluationSet, seed: int) -> np.ndarray:
        """Return pools [E, S, H, A] of an evaluation set, from the seed of a member."""
        if self.draw is not None:
            return self.draw(task, goals, seed)
        return draw_pools(task, model, goals, self.horizon, self.candidates, self.seed(seed))


@dataclass(frozen=True)
class Setting:
    """One closed-loop run: a member, a terminal cost, and differences from the defaults of the study."""

    member: Member
    cost: str
    head_seed: int | None = None
    """Seed of its head and pairs; by default that of the member."""
    evaluation: str | None = None
    budget: int | None = None
    """Maximum number of actions of an episode; by default that of the evaluation set."""
    clamp: bool = True
    """Whether the world model sees actions clamped to the logged range."""
    planner: Planner | None = None

    @property
    def seed_of_head(self) -> int:
        """Seed of its head."""
        return self.member.seed if self.head_seed is None else self.head_seed


@dataclass(frozen=True)
class FigurePlan:
    """A figure that is drawn from tables and their runs."""

    tables: tuple[str, ...]
    write: Callable[[Path], Sequence[Path]]
    """Draws the figure from the records below a directory, and returns the files that it wrote."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables and the name of their records; all that a study of several worlds declares."""

    name: str
    protocol: int
    """Version number, increased when a change of code changes results, so that old records are refused."""
    tables: Mapping[str, TablePlan]
    headings: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Heading and digits of custom metrics."""
    table_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    figures: Mapping[str, FigurePlan] = field(default_factory=dict)
    legend: str = ""
    """Meaning of the names of costs, at the end of every note."""
    require: Callable[[], object] = lambda: None
    """Raises if something that the tables need is not installed."""


@dataclass(frozen=True, kw_only=True)
class Study(Tables):
    """The runs and tables of one world."""

    task: Callable[[], Task]
    """Returns the world of logs, models and heads."""
    logs: Mapping[str, Any]
    """Arguments of `task.generate_logs`."""
    models: Mapping[str, Callable[[Task, bool], WorldModel]]
    """Functions that build world models, by name; the second argument is whether actions are clamped."""
    members: Mapping[str, Sequence[Member]]
    """Members by the kind of their world model."""
    planner: Planner
    evaluation: str
    pools: PoolPlan = PoolPlan()
    open_logs: Callable[[Task], Logs] | None = None
    """Returns custom logs, in place of those that the task generates."""
    heads: Mapping[str, HeadPlan] = field(default_factory=dict)
    costs: Mapping[str, CostPlan] = field(default_factory=dict)
    """Custom costs, in addition to the heads and `COSTS`."""
    foreign_sets: Mapping[str, Callable[[], tuple[Task, EvaluationSet]]] = field(default_factory=dict)
    """Evaluation sets of other logs or worlds, which use the heads of the default set."""
    pair_seed: int | None = None
    """Seed of the pairs of all heads; by default the seed of each head."""
    proposal: Callable[[Task], Proposal] | None = None
    """Returns candidates that are added to every pool of the planner."""
    prepare: Callable[[Any, Mapping[str, TerminalCost]], tuple[WorldModel, Mapping[str, TerminalCost]]] | None = None
    """Returns an equivalent model and equivalent costs that plan faster."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are the success in a group of episodes of the task."""
    categories: Sequence[str] = ()
    """Metrics that are the share of the failure category of that name."""
    shares: Sequence[str] = ()
    """Custom metrics that are shares of episodes."""
    last_states: Mapping[str, Callable[[Task, np.ndarray, np.ndarray], np.ndarray]] = field(default_factory=dict)
    """Metrics that are the share of episodes whose last state passes a test of task, states and goals: bool [N]."""
    bins: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Metrics that are the success in a range of oracle distances from start to goal; the last bin is closed."""

    def __post_init__(self) -> None:
        """Refuse parts of a wrong type, and ambiguous names, which would fail after hours or mix up runs."""
        for name, build in {"task": self.task, **self.models}.items():
            if not callable(build):
                refuse(build, name, "give a function that returns it")
        require_type(self.planner, Planner, "planner", "give a planner, such as rc.CEM()")
        for kind, parts in ((HeadPlan, self.heads), (CostPlan, self.costs)):
            for name, part in parts.items():
                require_type(part, kind, name, f"give a {kind.__name__}")
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
        """Return the members of a kind, or those of some seeds."""
        if kind not in self.members:
            raise ReachcostError(f"the study {self.name} has no members {kind!r}: it has {', '.join(self.members)}")
        found = [member for member in self.members[kind] if seeds is None or member.seed in seeds]
        if not found:
            raise ReachcostError(f"the study {self.name} has no {kind} of seeds {seeds}")
        return found

    def run_name(self, setting: Setting) -> str:
        """Return the name of a run, which lists its differences from the defaults of the study."""
        parts = [setting.member.label, setting.evaluation or self.evaluation, setting.cost]
        parts += [f"head{setting.seed_of_head}"] if setting.seed_of_head != setting.member.seed else []
        parts += [f"budget{setting.budget}"] if setting.budget is not None else []
        parts += ["unclamped"] if not setting.clamp else []
        if setting.planner is not None:
            parts += [type(setting.planner).__name__] if type(setting.planner) is not type(self.planner) else []
            default, chosen = _settings(self.planner), _settings(setting.planner)
            parts += [f"{name}{value}" for name, value in chosen.items() if value != default.get(name)]
        return "-".join(parts)


def _settings(planner: Any) -> dict[str, Any]:
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
    """Return the cost that is the head of that name."""
    return CostPlan(lambda experiment, model, heads: HeadCost(heads[name]), (name,))


def hybrid(name: str, weight: float = 1.0) -> CostPlan:
    """Return the cost that is latent distance plus a weighted head."""
    return CostPlan(lambda experiment, model, heads: HybridCost(LatentMSE(), HeadCost(heads[name]), weight), (name,))


def cost_plan(study: Study, name: str) -> CostPlan:
    """Return the plan of the cost of that name."""
    if name in study.heads:
        return replacement(name)
    plans = {**COSTS, **study.costs}
    if name not in plans:
        raise ReachcostError(f"there is no cost {name!r}: {did_you_mean(name, (*study.heads, *plans))}")
    return plans[name]
