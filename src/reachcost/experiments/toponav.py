"""The runs behind the TopoNav tables: heads, closed-loop control, SASC; each is recorded once and then read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from reachcost.audits.sasc import sasc
from reachcost.base.hashing import fingerprint_arrays
from reachcost.base.progress import Progress
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.experiments.recorder import Recorder, read_head
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.control import ControlRuns, control
from reachcost.planning.random_policy import RandomPolicy
from reachcost.planning.tabular import tabulate
from reachcost.protocols import Planner, TerminalCost
from reachcost.repair.fitting import Recipe
from reachcost.repair.temporal import TemporalPairs
from reachcost.results.records import Columns, Run
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import (
    BASE_SEED,
    SASC_CANDIDATES,
    SASC_HORIZON,
    RouteProposal,
    TopoNav,
    sasc_pool,
    sasc_seed,
)

MODEL_NAME = "toponav-exact"
PROTOCOL = 1  # raise it when a change of code changes results, so that old records are refused


@dataclass(frozen=True)
class HeadPlan:
    """How the head behind a terminal cost comes about."""

    recipe: Recipe
    """How it is trained."""
    sampling: str
    """How its pairs are drawn from the logs."""
    holdout: float = 0.0
    """Share of episodes kept for validation."""
    shuffled: Literal["none", "train", "all"] = "none"
    """Whose labels are permuted: a shuffled control permutes all, so that no true label picks its epoch."""


PAPER_HEAD = HeadPlan(Recipe.paper(hidden=128, scale=29.0, epochs=24), "mostly-endpoints")
SHUFFLED_HEAD = replace(PAPER_HEAD, shuffled="all")
OUR_HEAD = HeadPlan(
    Recipe.paper(
        hidden=128,
        scale=29.0,
        symmetric=True,
        epochs=4,
        batch_size=256,
        learning_rate=4e-2,
        schedule="one-cycle",
    ),
    "balanced",
    holdout=0.1,
)


@dataclass(frozen=True)
class Settings:
    """What is run. The defaults are the published reproduction."""

    table: str = "toponav"
    """Name of the table the runs are for."""
    head_seeds: tuple[int, ...] = (3072, 3073, 3074)
    """One head of every kind, one planner stream and one SASC pool per seed."""
    episodes: int = 120
    """Evaluation pairs."""
    log_episodes: int = 2500
    """Logged shortest-path trajectories."""
    train_pairs: int = 60_000
    """Training pairs of each head."""
    validation_pairs: int = 12_000
    """Validation pairs of each head."""
    resamples: int = 100_000
    """Bootstrap resamples."""
    heads: dict[str, HeadPlan] = field(
        default_factory=lambda: {"trm-paper": PAPER_HEAD, "shuffled": SHUFFLED_HEAD, "trm": OUR_HEAD}
    )
    """Learned costs by name."""
    tie_broken: tuple[str, ...] = ("oracle", "trm")
    """Costs that also run with the planner's tie-break."""
    tie_break: float = 1e-3
    """Its weight."""
    command: str = "reachcost reproduce toponav"
    """What makes the table."""


class Experiment:
    """The runs of one output directory; each is computed once and then read back."""

    def __init__(self, out: Path, settings: Settings, progress: Progress) -> None:
        self.out, self.settings, self.progress = out, settings, progress
        self._pairs: dict[tuple[str, float], TemporalPairs] = {}
        self._recorder = Recorder(out, progress)

    @cached_property
    def task(self) -> TopoNav:
        """The simulated world."""
        return TopoNav()

    @cached_property
    def model(self) -> ExactTopoNav:
        """The frozen world model."""
        return ExactTopoNav(self.task)

    @cached_property
    def evaluation(self) -> EvaluationSet:
        """Start and goal pairs."""
        return self.task.evaluation_set(episodes=self.settings.episodes)

    @cached_property
    def latents(self) -> Latents:
        """Encoded logs."""
        return encode_logs(self.model, self.task.generate_logs(self.settings.log_episodes))

    @cached_property
    def proposal(self) -> RouteProposal:
        """The candidates every pool of the planner contains."""
        return RouteProposal(self.task)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """What every run depends on, for its manifest."""
        return {
            "experiment": "toponav",
            "protocol": PROTOCOL,
            "model": MODEL_NAME,
            "base_seed": BASE_SEED,
            "evaluation_set": self.evaluation.name,
            "evaluation_set_sha256": self.evaluation.fingerprint,
            "logs_sha256": self.latents.logs.fingerprint,
            "latents_sha256": fingerprint_arrays(self.latents.values.numpy()),
        }

    def pairs(self, plan: HeadPlan) -> TemporalPairs:
        """Sample pairs without the evaluation pairs, once for all heads that share the rule."""
        key = (plan.sampling, plan.holdout)
        if key not in self._pairs:
            self._pairs[key] = TemporalPairs(
                self.latents,
                count=self.settings.train_pairs,
                validation=self.settings.validation_pairs,
                sampling=plan.sampling,
                exclude=self.evaluation,
                holdout=plan.holdout,
                seed=BASE_SEED,
            )
        pairs = self._pairs[key]
        return pairs if plan.shuffled == "none" else pairs.shuffled(validation=plan.shuffled == "all")

    def run(self, name: str, config: dict[str, Any], compute: Callable[[Path], Columns]) -> Run:
        """Record one run, once."""
        return self._recorder.run(name, {**self.inputs, **config}, compute)

    def head_run(self, name: str, seed: int) -> Run:
        """Train one head; its rows are the training curve."""
        plan = self.settings.heads[name]
        counts = {
            "train_pairs": self.settings.train_pairs,
            "validation_pairs": self.settings.validation_pairs,
        }
        config = {"cost": name, "head": asdict(plan), **counts, "pair_seed": BASE_SEED, "head_seed": seed}
        return self._recorder.head(
            f"toponav-heads/{name}-{seed}", {**self.inputs, **config}, lambda: self.pairs(plan), plan.recipe, seed
        )

    def costs(self, seed: int) -> tuple[dict[str, TerminalCost], dict[str, str]]:
        """Every terminal cost of one head seed, and the sha256 of the heads behind them."""
        runs = {name: self.head_run(name, seed) for name in self.settings.heads}
        learned = {name: HeadCost(read_head(run)) for name, run in runs.items()}
        heads_sha256 = {name: run.sha256["weights.safetensors"] for name, run in runs.items()}
        return {"raw": LatentMSE(), **learned, "oracle": OracleGeodesic(self.model)}, heads_sha256

    def control_run(self, seed: int) -> Run:
        """Closed loop under every cost; rows are (cost, episode)."""
        costs, heads_sha256 = self.costs(seed)
        planner, tie_breaking = CategoricalCEM(), CategoricalCEM(tie_break=self.settings.tie_break)
        tied = {f"{name}+tie-break": costs[name] for name in self.settings.tie_broken}

        def compute(_: Path) -> Columns:
            groups = (
                ("", costs, planner),
                (" tie-break", tied, tie_breaking),
                (" random", {"random": costs["raw"]}, RandomPolicy()),
            )
            rows = []
            for label, group, chooser in groups:
                if group:
                    self.progress.step(f"control-{seed}{label}")
                    rows.append(self.control(group, chooser, seed).rows())
            return {column: np.concatenate([group[column] for group in rows]) for column in rows[0]}

        config = {
            "costs": [*costs, *tied, "random"],
            "heads_sha256": heads_sha256,
            "planner": asdict(planner),
            "proposal": {"routes": self.proposal.routes, "replacement": self.proposal.replacement},
            "tie_break": self.settings.tie_break,
            "action_budget": self.task.action_budget,
            "planner_seed": seed,
        }
        return self.run(f"{self.settings.table}/control-{seed}", config, compute)

    def control(
        self,
        costs: dict[str, TerminalCost],
        planner: Planner,
        seed: int,
        evaluation: EvaluationSet | None = None,
    ) -> ControlRuns:
        """Run the episodes with tabulated costs and the paper's injected candidates."""
        evaluation = evaluation or self.evaluation
        model, tables = tabulate(self.model, costs)
        proposal = self.proposal if isinstance(planner, CategoricalCEM) else None
        return control(
            self.task,
            model,
            tables,
            evaluation,
            planner,
            seed=seed,
            proposal=proposal,
            progress=self.progress,
        )

    def sasc_run(self, seed: int) -> Run:
        """Score shared pools with every cost; rows are (cost, episode, candidate)."""
        costs, heads_sha256 = self.costs(seed)

        def compute(_: Path) -> Columns:
            pools = sasc_pool(self.task, self.evaluation, seed)
            return sasc(self.task, self.model, costs, self.evaluation, pools).rows()

        config = {
            "costs": list(costs),
            "heads_sha256": heads_sha256,
            "candidates": SASC_CANDIDATES,
            "candidate_horizon": SASC_HORIZON,
            "candidate_seed": sasc_seed(seed),
        }
        return self.run(f"{self.settings.table}/sasc-{seed}", config, compute)
