"""What the TwoRoom runs are called and made of: worlds, heads, the protocol of a closed-loop run."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from typing import Literal

from reachcost.planning.cem import CEM
from reachcost.repair.fitting import Recipe
from reachcost.tasks.tworoom import Layout

FRESH_LOGS = {"fresh-1": 101, "fresh-2": 102}
"""High-distance sets that nothing was chosen on: each from logs of its own, which no model and no head ever saw."""
LAYOUTS = {
    "door-88": Layout(doors=((88.0, 14.0),)),
    "door-150": Layout(doors=((150.0, 14.0),)),
    "horizontal-88": Layout(wall="horizontal", doors=((88.0, 14.0),)),
}
"""Worlds that no model and no head ever saw; each has a high-distance set of its own."""


@dataclass(frozen=True)
class HeadPlan:
    """How the head behind a terminal cost comes about."""

    recipe: Recipe
    """How it is trained."""
    labels: Literal["temporal", "oracle"] = "temporal"
    """Logged times, or the true distance for diagnostic heads."""
    pairs: int = 100_000
    """Training pairs (of an epoch)."""
    sampling: str = "balanced"
    """How temporal pairs are drawn, or which states of the logs all pairs are of (`doorway-...`)."""
    max_gap: int | None = None
    """Largest gap of temporal pairs."""
    rows: int | None = None
    """Log rows that pairs may use."""
    holdout: float = 0.0
    """Share of episodes kept for validation."""
    exclude: bool = True
    """Keep the source episodes of the evaluation set out."""
    shuffled: bool = False
    """Permute the labels, those for validation too."""


PAPER_HEAD = HeadPlan(Recipe.paper())
OUR_HEAD = HeadPlan(Recipe(), holdout=0.1)
COVERAGE_HEAD = HeadPlan(Recipe.paper(), labels="oracle", pairs=50_000, rows=25_000)
HEADS = {
    "trm": OUR_HEAD,
    "trm-paper": PAPER_HEAD,
    "trm-complete": replace(PAPER_HEAD, exclude=False),
    "trm-gap50": replace(PAPER_HEAD, max_gap=50),
    "shuffled": replace(PAPER_HEAD, shuffled=True),
    "trm-shuffled": replace(OUR_HEAD, shuffled=True),
    "linear": HeadPlan(Recipe.paper(head="linear"), labels="oracle"),
    "mahalanobis": HeadPlan(Recipe.paper(head="mahalanobis"), labels="oracle"),
    "geodesic-mlp": HeadPlan(Recipe.paper(), labels="oracle"),
    "geodesic-ranking": HeadPlan(Recipe.paper(loss="ranking"), labels="oracle"),
    "geodesic-limited": replace(COVERAGE_HEAD, sampling="doorway-limited"),
    "geodesic-balanced": replace(COVERAGE_HEAD, sampling="doorway-balanced"),
    "geodesic-mixed": replace(COVERAGE_HEAD, sampling="doorway-mixed"),
    "geodesic-random": replace(COVERAGE_HEAD, sampling="doorway-random", rows=30_000, pairs=100_000),
    "trm-paper-limited": replace(PAPER_HEAD, sampling="doorway-limited"),
    "trm-limited": replace(OUR_HEAD, sampling="doorway-limited"),
}
"""Learned costs by name."""
SASC_GROUPS = {
    "baselines": (
        "raw",
        "standardized-l2",
        "linear",
        "mahalanobis",
        "decoded-xy",
        "decoded-geodesic",
        "trm",
        "trm-paper",
        "trm-complete",
        "trm-symmetric",
        "hybrid",
        "geodesic-mlp",
        "geodesic-ranking",
        "shuffled",
        "trm-shuffled",
        "rowspace",
        "residual",
    ),
    "coverage": (
        "geodesic-limited",
        "geodesic-balanced",
        "geodesic-mixed",
        "geodesic-random",
        "trm-paper-limited",
        "trm-limited",
    ),
    "layout": ("raw", "geodesic-mlp", "geodesic-hybrid", "trm-paper", "trm"),
}
"""Costs that score shared pools together."""


@dataclass(frozen=True)
class Setting:
    """One closed-loop run: a world model, a terminal cost and the protocol around them."""

    model: str
    """A bundled world model."""
    cost: str
    """Name of the terminal cost."""
    head_seed: int | None = None
    """Seed of its head and pairs; by default that of the world model."""
    evaluation: str = "high-distance"
    """Name of the evaluation set."""
    budget: int = 50
    """Actions of an episode."""
    clamp: bool = True
    """Whether the world model sees actions clamped to the logged range."""
    planner: CEM = field(default_factory=CEM)
    """The planner."""

    @property
    def world_model_seed(self) -> int:
        """Seed of the world model, which also seeds the planner."""
        return int(self.model.rpartition("-")[2])

    @property
    def seed_of_head(self) -> int:
        """Seed of the head."""
        return self.world_model_seed if self.head_seed is None else self.head_seed

    @property
    def name(self) -> str:
        """Name of the run: what differs from the defaults."""
        parts = [self.model.replace("-tworoom", ""), self.evaluation, self.cost]
        parts += [f"head{self.seed_of_head}"] if self.seed_of_head != self.world_model_seed else []
        parts += [f"budget{self.budget}"] if self.budget != 50 else []
        parts += ["unclamped"] if not self.clamp else []
        parts += ["cem", *map(str, astuple(self.planner))] if self.planner != CEM() else []
        return "-".join(parts)

    @property
    def excluded(self) -> str:
        """The frozen set whose source episodes the head must not see: its own, if it is of the logs of the heads."""
        return "high-distance" if self.evaluation in (*FRESH_LOGS, *LAYOUTS) else self.evaluation
