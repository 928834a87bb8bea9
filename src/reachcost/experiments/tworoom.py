"""The runs behind the TwoRoom tables: heads, closed-loop control, SASC; each is recorded once and then read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from reachcost.audits.probe import LinearProbe, fit_probe
from reachcost.audits.sasc import Ranking, compare_rankings, gaussian_pools, sasc, to_goals
from reachcost.costs import HeadCost, HybridCost, LatentMSE
from reachcost.errors import ReachcostError
from reachcost.evaluation import EvaluationSet
from reachcost.experiments.recorder import Recorder, read_head
from reachcost.fitting import Recipe
from reachcost.heads.pair import PairHead
from reachcost.latents import Latents, encode_logs
from reachcost.logs import Logs
from reachcost.oracle import OracleGeodesic
from reachcost.oracle_pairs import OraclePairs
from reachcost.pairs import Pairs, TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.planning.random_policy import RandomPolicy
from reachcost.probe_costs import DecodedDistance, StandardisedL2
from reachcost.progress import Progress
from reachcost.protocols import Planner, TerminalCost, WorldModel
from reachcost.records import Columns, Run, require_rows
from reachcost.seeding import generator
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model
from reachcost.worldmodels.tworoom import ExactTwoRoom

PROTOCOL = 1  # raise it when a change of code changes results, so that old records are refused
LOGS_SEED = 0
FRESH_LOGS = {"fresh-1": 101, "fresh-2": 102}
"""High-distance sets that nothing was chosen on: each from logs of its own, which no model and no head ever saw."""
SASC_CANDIDATES, SASC_SEED = 300, 123
VALIDATION_PAIRS = 10_000


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
    """How temporal pairs are drawn."""
    max_gap: int | None = None
    """Largest gap of temporal pairs."""
    rows: int | None = None
    """Log rows that temporal pairs may use."""
    holdout: float = 0.0
    """Share of episodes kept for validation."""
    exclude: bool = True
    """Keep the source episodes of the evaluation set out."""
    shuffled: bool = False
    """Permute the labels, those for validation too."""


PAPER_HEAD = HeadPlan(Recipe.paper())
OUR_HEAD = HeadPlan(Recipe(), holdout=0.1)
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
}
"""Learned costs by name."""


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
        """The frozen set whose source episodes the head must not see: its own, as fresh sets have logs of their own."""
        return "high-distance" if self.evaluation in FRESH_LOGS else self.evaluation


class Experiment:
    """The runs of one output directory; each is computed once and then read back.

    Args:
        out: The output directory.
        progress: Where to show progress.
        heads: Learned costs by name.
        log_episodes: Logged episodes that heads are trained on.
        episodes: Keep at most so many episodes of every evaluation set, spread over it.
        pair_seed: Seed of the pairs of all heads; by default each head has its own.
    """

    def __init__(
        self,
        out: Path,
        progress: Progress,
        heads: Mapping[str, HeadPlan] = HEADS,
        log_episodes: int = 10_000,
        episodes: int | None = None,
        pair_seed: int | None = None,
    ) -> None:
        self.out, self.progress, self.heads, self._pair_seed = out, progress, heads, pair_seed
        self._log_episodes, self._episodes = log_episodes, episodes
        self._recorder = Recorder(out, progress)
        self.model, self.latents, self.evaluation = cache(self._model), cache(self._latents), cache(self._evaluation)
        self.probe, self.rankings = cache(self._probe), cache(self._rankings)

    @cached_property
    def task(self) -> TwoRoom:
        """The simulated world."""
        return TwoRoom()

    @cached_property
    def logs(self) -> Logs:
        """What heads and probes learn from."""
        return self.task.generate_logs(self._log_episodes, LOGS_SEED)

    def _model(self, name: str, clamp: bool = True) -> JepaWorldModel:
        return load_world_model(name, clamp=clamp)

    def _latents(self, model: str) -> Latents:
        return encode_logs(self.model(model), self.logs, progress=self.progress)

    def _evaluation(self, name: str) -> EvaluationSet:
        if name in FRESH_LOGS:
            seed = FRESH_LOGS[name]
            whole = self.task.draw_evaluation_set("high-distance", self.task.generate_logs(seed=seed), seed)
            whole = replace(whole, name=name)
        else:
            whole = self.task.evaluation_set(name)
        if self._episodes is None or self._episodes >= len(whole):
            return whole
        if self._episodes < 1:
            raise ReachcostError(f"cannot evaluate {self._episodes} episodes: keep at least one")
        return whole.subset(np.linspace(0, len(whole) - 1, self._episodes).astype(int))

    def _probe(self, model: str) -> LinearProbe:
        """The paper's probe: ridge regression on 16,000 random rows."""
        rows = generator(0, "probe").permutation(self.logs.rows)[:16_000]
        return fit_probe(self.latents(model).values[rows], self.logs.columns["state"][rows])

    def pairs(self, model: str, plan: HeadPlan, seed: int, excluded: str = "high-distance") -> Pairs:
        """Draw the pairs of a head, without the source episodes of an evaluation set if the plan says so."""
        exclude = self.evaluation(excluded) if plan.exclude else None
        counts = {"count": plan.pairs, "validation": VALIDATION_PAIRS, "seed": seed, "exclude": exclude}
        if plan.labels == "oracle":
            drawn: Pairs = OraclePairs(self.latents(model), self.task, **counts)
        else:
            rules = {"sampling": plan.sampling, "max_gap": plan.max_gap, "rows": plan.rows, "holdout": plan.holdout}
            drawn = TemporalPairs(self.latents(model), **counts, **rules)
        return drawn.shuffled() if plan.shuffled else drawn

    def head_run(self, model: str, name: str, seed: int, excluded: str = "high-distance") -> Run:
        """Train one head, without the episodes of an evaluation set; its rows are the training curve."""
        plan, pair_seed = self.heads[name], seed if self._pair_seed is None else self._pair_seed
        config = {
            **self._inputs(model),
            "cost": name,
            "head": asdict(plan),
            "pair_seed": pair_seed,
            "head_seed": seed,
            "excluded_set_sha256": self.evaluation(excluded).fingerprint if plan.exclude else None,
        }
        run = f"tworoom-heads/{model.replace('-tworoom', '')}-{name}-{seed}"
        run += f"-without-{excluded}" if plan.exclude and excluded != "high-distance" else ""
        return self._recorder.head(run, config, lambda: self.pairs(model, plan, pair_seed, excluded), plan.recipe, seed)

    def head_record(self, model: str, name: str, seed: int, excluded: str = "high-distance") -> dict[str, Any]:
        """How a head was trained."""
        return read_head(self.head_run(model, name, seed, excluded)).record

    def used_runs(self) -> list[Run]:
        """Every run that was asked for, in that order."""
        return self._recorder.used()

    def cost(
        self, model: str, name: str, seed: int, excluded: str = "high-distance"
    ) -> tuple[TerminalCost, dict[str, str]]:
        """A terminal cost on a world model, and the sha256 of the head behind it."""
        if name == "hybrid":
            learned, origin = self.cost(model, "trm-paper", seed, excluded)
            return HybridCost(LatentMSE(), learned), origin
        if name == "trm-symmetric":
            run = self.head_run(model, "trm-paper", seed, excluded)
            head = cast(PairHead, read_head(run)).symmetrised()
            return HeadCost(head), {"head_sha256": run.sha256["weights.safetensors"]}
        if name in self.heads:
            run = self.head_run(model, name, seed, excluded)
            return HeadCost(read_head(run)), {"head_sha256": run.sha256["weights.safetensors"]}
        plain: dict[str, Callable[[], TerminalCost]] = {
            "raw": LatentMSE,
            "standardized-l2": lambda: StandardisedL2.of(self.latents(model).values),
            "decoded-xy": lambda: DecodedDistance(self.probe(model)),
            "decoded-geodesic": lambda: DecodedDistance(self.probe(model), self.task.layout),
        }
        if name not in plain:
            raise ReachcostError(f"there is no cost {name!r}: choose one of {', '.join((*self.heads, *plain))}")
        return plain[name](), {}

    def control_run(self, setting: Setting) -> Run:
        """Closed loop under one cost; rows are episodes."""
        evaluation = self.evaluation(setting.evaluation)
        world: WorldModel = self.model(setting.model, setting.clamp)
        planner: Planner = setting.planner
        cost: TerminalCost = LatentMSE()
        origin: dict[str, Any] = {}
        if setting.cost == "random":
            planner, origin = RandomPolicy(), {"planner": "uniform actions", "head_seed": None}
        elif setting.cost == "oracle":
            world = exact = ExactTwoRoom(self.task, self.model(setting.model).actions)
            cost, origin = OracleGeodesic(exact), {"dynamics": "simulator", "head_seed": None}
        else:
            cost, origin = self.cost(setting.model, setting.cost, setting.seed_of_head, setting.excluded)

        def compute(_: Path) -> Columns:
            runs = control(
                self.task,
                world,
                {setting.cost: cost},
                evaluation,
                planner,
                seed=setting.world_model_seed,
                budget=setting.budget,
                progress=self.progress,
            )
            return runs.rows()

        config = {
            **self._inputs(setting.model),
            **asdict(setting),
            "head_seed": setting.seed_of_head,
            **origin,
            "planner_seed": setting.world_model_seed,
            "evaluation_set_sha256": evaluation.fingerprint,
        }
        return self._recorder.run(f"tworoom-control/{setting.name}", config, compute)

    def sasc_run(self, model: str, costs: tuple[str, ...], seed: int) -> Run:
        """Score the shared pools of the high-distance set with several costs; rows are (cost, episode, candidate)."""
        evaluation = self.evaluation("high-distance")
        built = {name: self.cost(model, name, seed) for name in costs}

        def compute(_: Path) -> Columns:
            world = self.model(model)
            pools = gaussian_pools(evaluation, world.action_dim, candidates=SASC_CANDIDATES, seed=SASC_SEED)
            audit = sasc(self.task, world, {name: cost for name, (cost, _) in built.items()}, evaluation, pools)
            euclidean = to_goals(self.task.euclidean, np.asarray(audit.ends), evaluation)
            return {**audit.rows(), "euclidean": np.tile(euclidean.ravel(), len(costs))}

        config = {
            **self._inputs(model),
            "costs": {name: origin for name, (_, origin) in built.items()},
            "head_seed": seed,
            "candidates": SASC_CANDIDATES,
            "candidate_seed": SASC_SEED,
            "evaluation_set_sha256": evaluation.fingerprint,
        }
        return self._recorder.run(f"tworoom-sasc/{model.replace('-tworoom', '')}-head{seed}", config, compute)

    def _rankings(self, model: str, costs: tuple[str, ...], seed: int) -> dict[str, Ranking]:
        """How every cost, and the oracle, ranks the shared pools of a world model, from their recorded rows."""
        run = self.sasc_run(model, costs, seed)
        episodes = self.evaluation("high-distance").episodes.tolist()
        keys = {"cost": list(costs), "episode": episodes, "candidate": list(range(SASC_CANDIDATES))}
        rows = require_rows(run, keys, ("score", "diagnostic"))
        diagnostic = rows["diagnostic"][0]
        if (rows["diagnostic"] != diagnostic).any():
            raise ReachcostError(f"{run.path} has several diagnostic costs for one candidate: remove it and run again")
        return compare_rankings({**dict(zip(costs, rows["score"], strict=True)), "oracle": diagnostic}, diagnostic)

    def _inputs(self, model: str) -> dict[str, Any]:
        """What every run depends on, for its manifest."""
        return {
            "experiment": "tworoom",
            "protocol": PROTOCOL,
            "model": model,
            "model_sha256": self.model(model).fingerprint,
            "logs_sha256": self.logs.fingerprint,
        }
