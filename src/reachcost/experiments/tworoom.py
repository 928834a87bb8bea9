"""The runs behind the TwoRoom tables: heads, closed-loop control, SASC; each is recorded once and then read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from reachcost.audits.doorway import doorway_groups, doorway_latents
from reachcost.audits.sasc import Ranking, compare_rankings, gaussian_pools, sasc, to_goals
from reachcost.base.progress import Progress
from reachcost.base.seeding import generator
from reachcost.costs.head import HeadCost
from reachcost.costs.hybrid import HybridCost
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.costs.probe import DecodedDistance, StandardisedL2, SubspaceCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.probe import PROBE_ROWS, LinearProbe, fit_probe
from reachcost.errors import ReachcostError
from reachcost.experiments.recorder import Recorder, read_head
from reachcost.experiments.tworoom_settings import FRESH_LOGS, HEADS, LAYOUTS, SASC_GROUPS, HeadPlan, Setting
from reachcost.heads.pair import PairHead
from reachcost.planning.control import control
from reachcost.planning.random_policy import RandomPolicy
from reachcost.protocols import Planner, TerminalCost, WorldModel
from reachcost.repair.oracle import OraclePairs
from reachcost.repair.pairs import Pairs
from reachcost.repair.temporal import TemporalPairs
from reachcost.results.records import Columns, Run, require_rows
from reachcost.tasks.exact import ExactTwoRoom
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model

PROTOCOL = 1  # raise it when a change of code changes results, so that old records are refused
LOGS_SEED = 0
SASC_CANDIDATES, SASC_SEED = 300, 123
HYBRIDS = {"hybrid": "trm-paper", "geodesic-hybrid": "geodesic-mlp"}
"""Latent MSE plus a learned cost."""
VALIDATION_PAIRS = 10_000


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
        self.recorder = Recorder(out, progress)
        self.model, self.latents, self.evaluation = cache(self._model), cache(self._latents), cache(self._evaluation)
        self.probe, self.rankings = cache(self._probe), cache(self._rankings)

    @cached_property
    def task(self) -> TwoRoom:
        """The world that logs, models and heads are of."""
        return TwoRoom()

    def world(self, evaluation: str) -> TwoRoom:
        """The world that an evaluation set is of."""
        return TwoRoom(LAYOUTS[evaluation]) if evaluation in LAYOUTS else self.task

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
        elif name in LAYOUTS:
            world = self.world(name)
            whole = replace(world.draw_evaluation_set("high-distance", world.generate_logs(seed=0), 0), name=name)
        else:
            whole = self.task.evaluation_set(name)
        return whole if self._episodes is None else whole.spread(min(self._episodes, len(whole)))

    def _probe(self, model: str) -> LinearProbe:
        """The paper's probe: ridge regression on 16,000 random rows."""
        rows = generator(0, "probe").permutation(self.logs.rows)[: PROBE_ROWS * 4 // 5]
        return fit_probe(self.latents(model).values[rows], self.logs.columns["state"][rows])

    def pairs(self, model: str, plan: HeadPlan, seed: int, excluded: str = "high-distance") -> Pairs:
        """Draw the pairs of a head, without the source episodes of an evaluation set if the plan says so."""
        exclude = self.evaluation(excluded) if plan.exclude else None
        counts = {"count": plan.pairs, "validation": VALIDATION_PAIRS, "seed": seed, "exclude": exclude}
        latents, sampling, rows = self.latents(model), plan.sampling, plan.rows
        doorway = sampling.removeprefix("doorway-") if sampling.startswith("doorway-") else ""
        if doorway:
            goals = self.evaluation(excluded)
            latents = doorway_latents(latents, doorway, self.task.layout, rows, goals, seed)
            sampling, rows = "balanced", None
        if plan.labels == "oracle":
            groups = doorway_groups(doorway, self.task.layout)
            drawn: Pairs = OraclePairs(latents, self.task, **counts, groups=groups)
        else:
            rules = {"sampling": sampling, "max_gap": plan.max_gap, "rows": rows, "holdout": plan.holdout}
            drawn = TemporalPairs(latents, **counts, **rules)
        return drawn.shuffled() if plan.shuffled else drawn

    def head_run(self, model: str, name: str, seed: int, excluded: str = "high-distance") -> Run:
        """Train one head, without the episodes of an evaluation set; its rows are the training curve."""
        plan, pair_seed = self.heads[name], seed if self._pair_seed is None else self._pair_seed
        config = {
            **self.inputs(model),
            "cost": name,
            "head": asdict(plan),
            "pair_seed": pair_seed,
            "head_seed": seed,
            "excluded_set_sha256": self.evaluation(excluded).fingerprint if plan.exclude else None,
        }
        run = f"tworoom-heads/{model.replace('-tworoom', '')}-{name}-{seed}"
        run += f"-without-{excluded}" if plan.exclude and excluded != "high-distance" else ""
        return self.recorder.head(run, config, lambda: self.pairs(model, plan, pair_seed, excluded), plan.recipe, seed)

    def head_record(self, model: str, name: str, seed: int, excluded: str = "high-distance") -> dict[str, Any]:
        """How a head was trained."""
        return read_head(self.head_run(model, name, seed, excluded)).record

    def used_runs(self) -> list[Run]:
        """Every run that was asked for, in that order."""
        return self.recorder.used()

    def cost(
        self, model: str, name: str, seed: int, excluded: str = "high-distance"
    ) -> tuple[TerminalCost, dict[str, str]]:
        """A terminal cost on a world model, and the sha256 of the head behind it."""
        if name in HYBRIDS:
            learned, origin = self.cost(model, HYBRIDS[name], seed, excluded)
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
            "rowspace": lambda: SubspaceCost(self.probe(model)),
            "residual": lambda: SubspaceCost(self.probe(model), residual=True),
        }
        if name not in plain:
            raise ReachcostError(f"there is no cost {name!r}: choose one of {', '.join((*self.heads, *plain))}")
        return plain[name](), {}

    def control_run(self, setting: Setting) -> Run:
        """Closed loop under one cost; rows are episodes."""
        task, evaluation = self.world(setting.evaluation), self.evaluation(setting.evaluation)
        world: WorldModel = self.model(setting.model, setting.clamp)
        planner: Planner = setting.planner
        cost: TerminalCost = LatentMSE()
        origin: dict[str, Any] = {}
        if setting.cost == "random":
            planner, origin = RandomPolicy(), {"planner": "uniform actions", "head_seed": None}
        elif setting.cost == "oracle":
            world = exact = ExactTwoRoom(task, self.model(setting.model).actions)
            cost, origin = OracleGeodesic(exact), {"dynamics": "simulator", "head_seed": None}
        else:
            cost, origin = self.cost(setting.model, setting.cost, setting.seed_of_head, setting.excluded)

        def compute(_: Path) -> Columns:
            runs = control(
                task,
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
            **self.inputs(setting.model),
            **asdict(setting),
            "head_seed": setting.seed_of_head,
            **origin,
            "planner_seed": setting.world_model_seed,
            "evaluation_set_sha256": evaluation.fingerprint,
        }
        return self.recorder.run(f"tworoom-control/{setting.name}", config, compute)

    def sasc_run(self, model: str, group: str, seed: int, evaluation_name: str = "high-distance") -> Run:
        """Score shared pools with a group of costs, rolled out once; rows are (cost, episode, candidate)."""
        task, evaluation = self.world(evaluation_name), self.evaluation(evaluation_name)
        costs = SASC_GROUPS[group]
        built = {name: self.cost(model, name, seed) for name in costs}

        def compute(_: Path) -> Columns:
            world = self.model(model)
            pools = gaussian_pools(evaluation, world.action_dim, candidates=SASC_CANDIDATES, seed=SASC_SEED)
            audit = sasc(task, world, {name: cost for name, (cost, _) in built.items()}, evaluation, pools)
            euclidean = to_goals(task.euclidean, np.asarray(audit.ends), evaluation)
            return {**audit.rows(), "euclidean": np.tile(euclidean.ravel(), len(costs))}

        config = {
            **self.inputs(model),
            "costs": {name: origin for name, (_, origin) in built.items()},
            "head_seed": seed,
            "candidates": SASC_CANDIDATES,
            "candidate_seed": SASC_SEED,
            "evaluation_set_sha256": evaluation.fingerprint,
        }
        name = f"{model.replace('-tworoom', '')}-{evaluation_name}-{group}-head{seed}"
        return self.recorder.run(f"tworoom-sasc/{name}", config, compute)

    def _rankings(
        self,
        model: str,
        group: str,
        seed: int,
        evaluation: str = "high-distance",
        diagnostic_cost: Literal["diagnostic", "euclidean"] = "diagnostic",
    ) -> dict[str, Ranking]:
        """How a group of costs, and the oracle, rank the shared pools of a world model, from their recorded rows."""
        run, costs = self.sasc_run(model, group, seed, evaluation), SASC_GROUPS[group]
        episodes = self.evaluation(evaluation).episodes.tolist()
        keys = {"cost": list(costs), "episode": episodes, "candidate": list(range(SASC_CANDIDATES))}
        rows = require_rows(run, keys, ("score", "diagnostic", "euclidean"))
        diagnostic = rows[diagnostic_cost][0]
        if (rows[diagnostic_cost] != diagnostic).any():
            raise ReachcostError(f"{run.path} has several diagnostic costs for one candidate: remove it and run again")
        scores = {**dict(zip(costs, rows["score"], strict=True)), "oracle": rows["diagnostic"][0]}
        return compare_rankings(scores, diagnostic)

    def inputs(self, model: str) -> dict[str, Any]:
        """What every run depends on, for its manifest."""
        return {
            "experiment": "tworoom",
            "protocol": PROTOCOL,
            "model": model,
            "model_sha256": self.model(model).fingerprint,
            "logs_sha256": self.logs.fingerprint,
        }
