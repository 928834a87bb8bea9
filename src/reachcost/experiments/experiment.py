"""The runs of a study of one world: what they share, and its heads."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.sasc import execute, roll_out, to_goals
from reachcost.core.progress import Progress
from reachcost.core.seeding import generator
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.models import fingerprint_of
from reachcost.data.probe import PROBE_ROWS, LinearProbe, fit_probe
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Recording, RunSpec
from reachcost.experiments.study import HeadPlan, Member, Setting, Study, cost_plan
from reachcost.fitting.fit import fit
from reachcost.fitting.repair import repair
from reachcost.heads.base import LearnedHead
from reachcost.heads.storage import load_head, write_head
from reachcost.labels.oracle import OraclePairs, covered_latents, pair_groups
from reachcost.labels.pairs import Pairs
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.records import Columns
from reachcost.tasks.contract import Task

ORACLE, RANDOM = "oracle", "random"
"""Costs of the upper and lower reference, which use no world model."""
WEIGHTS = "weights.safetensors"
Pool = tuple[Tensor, Tensor, dict[str, np.ndarray]]


class Experiment(Recording):
    """The runs of a study of one world; arguments are those of `Recording`."""

    study: Study

    def __init__(
        self, study: Study, out: Path, progress: Progress | bool | None = None, episodes: int | None = None
    ) -> None:
        super().__init__(study, out, progress, episodes)
        self.latents, self.probe = cache(self._latents), cache(self._probe)
        self._built, self._places, self._pools = cache(self._build), cache(self._find), lru_cache(4)(self._roll_out)

    def variant(self, **changes: Any) -> Experiment:
        """Return a variant with changes of the study, and the same records."""
        other = Experiment(replace(self.study, **changes), self.out, self.progress, self._episodes)
        other.runs = self.runs
        return other

    def fewer(self, episodes: int) -> Experiment:
        """Return a variant with at most this number of episodes, and the same records, models and logs."""
        other = self.variant()
        other._episodes = episodes if self._episodes is None else min(episodes, self._episodes)
        other._built, other.latents, other.probe = self._built, self.latents, self.probe
        other.task, other.logs = self.task, self.logs
        return other

    @cached_property
    def task(self) -> Task:
        """The world of logs, models and heads."""
        return self.study.task()

    @cached_property
    def logs(self) -> Logs:
        """The logs that heads and probes learn from."""
        if self.study.open_logs is not None:
            return self.study.open_logs(self.task)
        return self.task.generate_logs(**self.study.logs)

    def model(self, name: str, clamp: bool = True) -> WorldModel:
        """Return the world model of that name."""
        return self._built(name, clamp)

    def _build(self, name: str, clamp: bool) -> WorldModel:
        return self.study.models[name](self.task, clamp)

    def _latents(self, model: str) -> Latents:
        return encode_logs(self.model(model), self.logs, progress=self.progress)

    def _probe(self, model: str) -> LinearProbe:
        """Fit the paper's probe: ridge regression on 16,000 random rows."""
        rows = generator(0, "probe").permutation(self.logs.rows)[: PROBE_ROWS * 4 // 5]
        return fit_probe(self.latents(model).values[rows], self.task.coordinates(self.logs.columns["state"][rows]))

    def place(self, evaluation: str | None = None) -> tuple[Task, EvaluationSet]:
        """Return an evaluation set, by default the study's, and its world."""
        return self._places(evaluation or self.study.evaluation)

    def _find(self, name: str) -> tuple[Task, EvaluationSet]:
        foreign = self.study.foreign_sets.get(name)
        world, goals = foreign() if foreign else (self.task, self.task.evaluation_set(name))
        return world, goals if self._episodes is None else goals.spread(min(self._episodes, len(goals)))

    def evaluation(self, name: str | None = None) -> EvaluationSet:
        """Return the evaluation set of that name."""
        return self.place(name)[1]

    def excluded(self, evaluation: str | None = None) -> str:
        """Return the set whose source episodes a head must not see; for a set of other logs, that of the study."""
        if evaluation is None or evaluation in self.study.foreign_sets:
            return self.study.evaluation
        return evaluation

    def inputs(self, model: str) -> dict[str, Any]:
        """Return what every run depends on, for its manifest."""
        return {
            "study": self.study.name,
            "protocol": self.study.protocol,
            "model": model,
            "model_sha256": fingerprint_of(self.model(model)),
            "logs_sha256": self.logs.fingerprint,
        }

    def pairs(self, member: Member, plan: HeadPlan, seed: int, evaluation: str | None = None) -> Pairs:
        """Sample the pairs of a head, without the source episodes of an evaluation set if the plan excludes them."""
        if not plan.of_episodes:
            raise ReachcostError(f"{plan.labels} pairs are sampled by `repair`, with the head that learns them")
        latents = self.learned_from(member, plan, seed, evaluation)
        counts: Any = {"count": plan.pairs, "validation": plan.validation, "seed": self.pair_seed(seed)}
        if plan.labels == "oracle":
            groups = pair_groups(plan.coverage, self.task)
            drawn: Pairs = OraclePairs(latents, self.task, **counts, groups=groups)
        else:
            rows = None if plan.coverage else plan.rows
            drawn = plan.sample(latents, **counts, rows=rows, holdout=plan.holdout)
        return drawn if plan.shuffled == "none" else drawn.shuffled(validation=plan.shuffled == "all")

    def learned_from(self, member: Member, plan: HeadPlan, seed: int, evaluation: str | None = None) -> Latents:
        """Return the encoded logs of a head, or the part that its coverage keeps, with the set that it must not see."""
        latents = self.latents(member.model).without(self.kept_out(plan, evaluation))
        if plan.episodes is not None:
            latents = latents.keep(np.arange(latents.logs.lengths[: plan.episodes].sum()))
        if not plan.coverage:
            return latents
        return covered_latents(latents, plan.coverage, self.task, plan.rows, self.pair_seed(seed))

    def kept_out(self, plan: HeadPlan, evaluation: str | None) -> EvaluationSet | None:
        """Return the evaluation set whose episodes a head must not see, if there is one."""
        return self.evaluation(self.excluded(evaluation)) if plan.exclude else None

    def pair_seed(self, seed: int) -> int:
        """Return the seed of the pairs of a head."""
        return seed if self.study.pair_seed is None else self.study.pair_seed

    def head(self, member: Member, name: str, seed: int | None = None, evaluation: str | None = None) -> LearnedHead:
        """Return a recorded head; missing weights are trained again."""
        spec = HeadRun(member, name, seed, evaluation)
        run = self.read(spec)
        run.complete(self.cell(spec).compute).require_intact()
        return load_head(run.path)

    def head_record(
        self, member: Member, name: str, seed: int | None = None, evaluation: str | None = None
    ) -> dict[str, Any]:
        """Return how a head was trained."""
        run = self.read(HeadRun(member, name, seed, evaluation))
        return json.loads(run.text("config.json"))["training"]

    def heads_of(self, setting: Setting) -> dict[str, HeadRun]:
        """Return the heads of the cost of a setting, by name."""
        names = () if setting.cost in (ORACLE, RANDOM) else cost_plan(self.study, setting.cost).heads
        return {name: HeadRun(setting.member, name, setting.head_seed, setting.evaluation) for name in names}

    def behind(self, setting: Setting, goals: bool = True) -> dict[str, Any]:
        """Return what a run of a setting depends on, for its manifest: `inputs`, its cost and heads, and its goals."""
        config = {
            **self.inputs(setting.member.model),
            "cost": setting.cost,
            "heads_sha256": {name: self.sha256(head, WEIGHTS) for name, head in self.heads_of(setting).items()},
        }
        return {**config, **self.evaluation(setting.evaluation).record} if goals else config

    def cost(self, setting: Setting) -> TerminalCost:
        """Return the terminal cost of a setting."""
        plan, member = cost_plan(self.study, setting.cost), setting.member
        heads = {name: self.head(member, name, setting.head_seed, setting.evaluation) for name in plan.heads}
        return plan.build(self, member.model, heads)

    def pool(self, member: Member, evaluation: str | None = None, clamp: bool = True) -> Pool:
        """Return predicted ends [E, S, D] of the shared candidates, goals [E, D], and true distances [E, S] by name."""
        return self._pools(member, evaluation, clamp)

    @torch.no_grad()
    def _roll_out(self, member: Member, evaluation: str | None, clamp: bool) -> Pool:
        task, goals = self.place(evaluation)
        model, plan = self.model(member.model, clamp), self.study.pools
        pools = plan.pools(task, model, goals, member.seed)
        _, terminal, goal = roll_out(task, model, goals, pools)
        blocks = blocks_of(model)
        ends = execute(task, goals, pools if blocks is None else blocks.unroll(pools))
        distances = {"oracle": task.distance, **task.further_distances}
        return terminal, goal, {name: to_goals(distance, ends, goals) for name, distance in distances.items()}


@dataclass(frozen=True)
class HeadRun(RunSpec):
    """A head, trained without the episodes of an evaluation set; its rows are the training curve."""

    kind: ClassVar[str] = "heads"
    artefacts: ClassVar[tuple[str, ...]] = (WEIGHTS,)
    member: Member
    plan: str
    """Name of its plan in the study."""
    seed: int | None = None
    """Its seed; by default that of the member."""
    evaluation: str | None = None

    def name(self, recording: Experiment) -> str:
        """Return the member, the plan, and differences from the defaults."""
        excluded, seed = recording.excluded(self.evaluation), self._seed()
        name = f"{self.member.label}-{self.plan}" + (f"-head{seed}" if seed != self.member.seed else "")
        foreign = recording.study.heads[self.plan].exclude and excluded != recording.study.evaluation
        return f"{name}-without-{excluded}" if foreign else name

    def config(self, recording: Experiment) -> dict[str, Any]:
        """Return its plan, seeds, and the episodes that it must not see."""
        plan, seed = recording.study.heads[self.plan], self._seed()
        kept_out = recording.kept_out(plan, self.evaluation)
        return {
            **recording.inputs(self.member.model),
            "head": plan,
            "pair_seed": recording.pair_seed(seed),
            "head_seed": seed,
            "excluded_set_sha256": kept_out.fingerprint if kept_out else None,
        }

    @torch.enable_grad()  # the head may be trained again within a block without gradients
    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Train it."""
        study, member, seed = recording.study, self.member, self._seed()
        plan, progress = study.heads[self.plan], recording.progress
        if plan.of_episodes:
            pairs = recording.pairs(member, plan, seed, self.evaluation)
            progress.step(self.name(recording))  # encoding the logs has announced itself in between
            head = fit(pairs, plan.recipe, seed=seed, progress=progress)
        elif study.pair_seed is not None:
            raise ReachcostError(f"{plan.labels} pairs have the seed of their head: leave pair_seed out of the study")
        else:
            head = repair(
                recording.model(member.model),
                recording.learned_from(member, plan, seed, self.evaluation),
                pairs=plan.pairs,
                recipe=plan,
                seed=seed,
                shuffled=plan.shuffled == "all",
                references=False,
                progress=progress,
            )
        write_head(head, directory)
        curve = head.record["curve"]
        return {key: np.array([epoch[key] for epoch in curve]) for key in curve[0]}

    def _seed(self) -> int:
        return self.member.seed if self.seed is None else self.seed


@dataclass(frozen=True)
class SettingRun(RunSpec):
    """A run of a setting, which needs its heads."""

    setting: Setting

    def name(self, recording: Experiment) -> str:
        """Return the differences from the defaults of the study."""
        return recording.study.run_name(self.setting)

    def needs(self, recording: Experiment) -> list[RunSpec]:
        """Return the heads of its cost."""
        return [*recording.heads_of(self.setting).values()]
