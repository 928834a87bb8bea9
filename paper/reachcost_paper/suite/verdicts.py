"""Planners of every world, intact and with one fault, which breaks one stage: does the audit name this stage?"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.audit import Audit
from reachcost.audits.planner import audit_planner
from reachcost.audits.stages import CANNOT_TELL
from reachcost.costs.latent import HeadCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.models import fingerprint_of
from reachcost.experiments.cells import Recording, RunSpec
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.records import Evaluated, Run
from reachcost.results.stats import wilson
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task
from reachcost_paper.suite.labels import settings_of
from reachcost_paper.worlds import suite
from reachcost_paper.worlds.models import Wrapped
from reachcost_paper.worlds.suite import World

NOTHING = "nothing"
"""The condition without a fault."""
SIMULATOR, LOGS_ONLY = "simulator", "logs-only"
SCORES = ("right", "wrong", "cannot_tell")
METRICS = (*SCORES, "success")
TUNED = ("obstacle", "one-way", "open", "rooms")
"""Worlds that the thresholds of the audit were set on."""
UNSEEN = 99
"""Seed of logs that no head was trained on, for the audit without a simulator."""
NOISE = 1.0
"""Noise in predictions, in standard deviations of logged latents."""
SHORT = 2
"""Actions per episode of the fault whose goals are out of reach."""


@dataclass(frozen=True)
class AuditInput:
    """An intact or faulty planner, as input of an audit."""

    world: World
    task: Task
    logs: Logs
    model: WorldModel
    cost: TerminalCost
    search: SamplingPlanner
    evaluation: EvaluationSet

    @property
    def latents(self) -> Latents:
        return encode_logs(self.model, self.logs)

    def unseen(self, seed: int) -> Logs:
        """Logs of the same kind that no head was trained on."""
        return self.task.generate_logs(**{**self.world.logs, "seed": seed})


def intact(world: World, part: str) -> AuditInput:
    task = world.task()
    logs = world.generate_logs(task)
    model = world.model(task, logs)
    cost = world.terminal_cost(task, model, logs)
    return AuditInput(world, task, logs, model, cost, world.planner, world.evaluation(task, part))


@dataclass(frozen=True)
class Fault:
    """A fault of one stage."""

    stage: str
    """The stage that the audit should name if the fault reduces success."""
    plant: Callable[[AuditInput], AuditInput]
    """Returns a planner with the fault."""
    fits: Callable[[World], bool] = lambda world: True
    """Whether the fault applies to a world."""
    only_by_harm: bool = False
    """Whether the verdict must be `none` while episodes succeed, even from logs alone."""


def _blind(planner: AuditInput) -> AuditInput:
    model = planner.world.blind(planner.model)
    return replace(planner, model=model, cost=planner.world.terminal_cost(planner.task, model, planner.logs))


def _noisy(planner: AuditInput) -> AuditInput:
    return replace(planner, model=_Noisy(planner.model, NOISE * planner.latents.values.std(0)))


def _few_candidates(planner: AuditInput) -> AuditInput:
    search: Any = replace(planner.search, candidates=3, elites=2, iterations=1)  # pyright: ignore[reportArgumentType]
    return replace(planner, search=search)


def _gap(planner: AuditInput) -> AuditInput:
    states = np.asarray(planner.logs.columns["state"])
    return _fitted_on(planner, planner.logs.keep(np.flatnonzero(~planner.world.region(states))))


def _wandering(planner: AuditInput) -> AuditInput:
    world = replace(planner.world, logs={**planner.world.logs, **planner.world.wandering})
    return _fitted_on(replace(planner, world=world), world.generate_logs(planner.task))


def _fitted_on(planner: AuditInput, logs: Logs, shuffled: bool = False) -> AuditInput:
    """The same planner with another head; the world model stays."""
    head = planner.world.repair(planner.task, planner.model, logs, shuffled=shuffled)
    return replace(planner, logs=logs, cost=HeadCost(head))


FAULTS = {
    "shuffled-head": Fault("ranking", lambda planner: _fitted_on(planner, planner.logs, shuffled=True)),
    "blind-encoder": Fault("representation", _blind),
    "noisy-predictions": Fault("dynamics", _noisy),
    "few-candidates": Fault("sampling", _few_candidates),
    "gap-in-logs": Fault("coverage", _gap),
    "far-goals": Fault("goals", lambda planner: replace(planner, evaluation=replace(planner.evaluation, budget=SHORT))),
    "wandering-logs": Fault("ranking", _wandering, lambda world: bool(world.wandering), only_by_harm=True),
}
"""Faults by name."""


class _Noisy(Wrapped):
    """A world model with deterministic noise in its predictions."""

    def __init__(self, model: WorldModel, size: Tensor) -> None:
        super().__init__(model)
        self.size, self.fingerprint = size, fingerprint_of(model)  # the encoder is the same

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        flat = torch.cat([context[:, -1:].expand(-1, actions.shape[1], -1), actions.flatten(2).float()], dim=2)
        mixed = torch.randn(flat.shape[2], self.latent_dim, generator=torch.Generator().manual_seed(0))
        # The sine of large numbers looks random; its deviation is the square root of a half.
        noise = 2**0.5 * torch.sin(1e3 * flat @ mixed)
        return self.model.rollout(context, actions) + self.size * noise


@dataclass(frozen=True)
class AuditOutcome:
    """An intact or faulty planner, and the verdicts of its audits."""

    world: str
    condition: str
    """The fault: `nothing`, or one of `FAULTS`."""
    episodes: int
    success: float
    """In percent of the episodes."""
    succeeds: bool
    """Whether the stage `execution` passes."""
    verdicts: Mapping[str, str]
    """By setting."""

    @property
    def harmless(self) -> bool:
        """Whether there is a fault but episodes succeed."""
        return self.condition != NOTHING and self.succeeds

    def expected(self, setting: str) -> str:
        """The right verdict: the stage of the fault, or `none` without a fault or with a harmless fault."""
        if self.condition == NOTHING:
            return "none"
        fault = FAULTS[self.condition]
        harm_counts = setting == SIMULATOR or fault.only_by_harm
        return "none" if self.succeeds and harm_counts else fault.stage

    def score(self, setting: str) -> str:
        verdict = self.verdicts[setting]
        if verdict == self.expected(setting):
            return "right"
        return "cannot_tell" if verdict == CANNOT_TELL else "wrong"


def summary_rows(found: Sequence[AuditOutcome], tuned: Iterable[str]) -> list[TableRow]:
    """Shares over the held-back worlds, in total and by fault, over the tuned worlds, then every outcome."""
    tuned = {*tuned}
    held_back, others = ([one for one in found if (one.world in tuned) == chosen] for chosen in (False, True))
    conditions = dict.fromkeys(one.condition for one in found)
    return [
        *_totals("", "held-back worlds", held_back),
        *(
            _share(condition, "held-back worlds", setting, [one for one in held_back if one.condition == condition])
            for condition in conditions
            for setting in (SIMULATOR, LOGS_ONLY)
        ),
        *_totals("tuned: ", "tuned worlds", others),
        *(_line(one, one.world in tuned) for one in found),
    ]


def _totals(prefix: str, worlds: str, found: Sequence[AuditOutcome]) -> Iterator[TableRow]:
    """Shares of all planners, of those that fail, and of those that succeed with a fault."""
    failing, harmless = [one for one in found if not one.succeeds], [one for one in found if one.harmless]
    for kind, those in {"all": found, "failing": failing, "harmless": harmless}.items():
        for setting in (SIMULATOR, LOGS_ONLY):
            yield _share(prefix + kind, worlds, setting, those)


def _share(cost: str, worlds: str, setting: str, found: Sequence[AuditOutcome]) -> TableRow:
    scores, n = [one.score(setting) for one in found], len(found)
    counts = {score: scores.count(score) for score in SCORES} if found else {}
    ours = {score: 100 * count / n for score, count in counts.items()}
    interval = {score: [100 * bound for bound in wilson(count, n)] for score, count in counts.items()}
    return TableRow(cost, worlds, n, ours, interval, None, setting=setting)


def _line(one: AuditOutcome, tuned: bool) -> TableRow:
    verdicts = [
        f"{setting}: {verdict} ({one.score(setting).replace('_', ' ')})" for setting, verdict in one.verdicts.items()
    ]
    expected = {setting: one.expected(setting) for setting in one.verdicts}
    extra, model = {"verdicts": dict(one.verdicts), "expected": expected}, f"{one.world}{'*' if tuned else ''}"
    ours = {"success": one.success}
    return TableRow(one.condition, model, one.episodes, ours, {}, None, setting="; ".join(verdicts), extra=extra)


@dataclass(frozen=True)
class VerdictRun(RunSpec):
    """Both audits of an intact or faulty planner; rows are those of the audits."""

    kind: ClassVar[str] = "verdicts"
    world: str
    condition: str
    """The fault: `nothing`, or one of `FAULTS`."""

    def name(self, recording: Recording) -> str:
        return f"{self.world}-{self.condition}"

    def config(self, recording: Recording) -> dict[str, Any]:
        settings = settings_of(recording, suite()[self.world])
        return {**settings, "condition": self.condition, "part": "report", "unseen": UNSEEN}

    def compute(self, recording: Recording, directory: Path) -> Evaluated:
        planner = recording.once(_intact, self.world)
        if self.condition != NOTHING:
            planner = FAULTS[self.condition].plant(planner)
        audits = {SIMULATOR: _with_simulator(planner), LOGS_ONLY: _from_logs(planner)}
        documents = json.dumps({name: audit.document() for name, audit in audits.items()}, indent=1, allow_nan=False)
        (directory / "audits.json").write_text(documents + "\n", encoding="utf-8")
        parts = [{**audit.rows, "audit": np.repeat(name, len(audit.rows["value"]))} for name, audit in audits.items()]
        rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        return Evaluated(rows, planner.evaluation.record)


RUNS = [
    VerdictRun(world.name, condition)
    for world in suite().values()
    for condition in (NOTHING, *(name for name, fault in FAULTS.items() if fault.fits(world)))
]


def verdict_rows(recording: Recording) -> list[TableRow]:
    return summary_rows([_read(run, recording.read(run)) for run in RUNS], TUNED)


def _intact(recording: Recording, world: str) -> AuditInput:
    return intact(suite()[world], "report")


def _with_simulator(planner: AuditInput) -> Audit:
    return audit_planner(planner.model, planner.latents, planner.cost, planner.task, planner.evaluation, planner.search)


def _from_logs(planner: AuditInput) -> Audit:
    held_out = encode_logs(planner.model, planner.unseen(UNSEEN))
    shown = {"held_out": held_out, "state_columns": planner.world.shown}
    return audit_planner(planner.model, planner.latents, planner.cost, planner=planner.search, **shown)


def _read(declared: VerdictRun, run: Run) -> AuditOutcome:
    documents = json.loads(run.text("audits.json"))
    execution = next(stage for stage in documents[SIMULATOR]["stages"] if stage["name"] == "execution")
    return AuditOutcome(
        world=declared.world,
        condition=declared.condition,
        episodes=documents[SIMULATOR]["episodes"],
        success=execution["value"],
        succeeds=execution["outcome"] == "pass",
        verdicts={setting: documents[setting]["verdict"] for setting in (SIMULATOR, LOGS_ONLY)},
    )
