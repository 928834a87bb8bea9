"""`audit_planner`: which stage of a planner is at fault?

Each stage is measured with the others out of the way: the representation by a probe, the dynamics against what really
comes, the sampler with true dynamics and true distance, the cost on candidates that are the same for all costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np

from reachcost.audits.criteria import Criterion, check_criteria
from reachcost.audits.stage import Stage
from reachcost.audits.stages import STAGES, foresight
from reachcost.audits.subject import RAW, Subject
from reachcost.base.machine import versions
from reachcost.base.progress import Progress, as_progress
from reachcost.costs.latent import LatentMSE
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, model_identity
from reachcost.planning.control import ControlRuns, Proposal
from reachcost.planning.default import default_planner
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.results.ranking import Ranking
from reachcost.tasks.contract import Task, require_task

CANNOT_TELL = "cannot tell"
CLEAR = 0.5
"""An order of true ends that gains less than this share of what passes needs no second opinion."""


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        stages: Every stage in causal order, judged.
        criteria: The paper's falsification criteria, if they were asked for.
        caveats: What a reader of the stages must know.
        categories: How episodes of the closed loop came out, by name.
        settings: What was audited, as JSON values.
        runs: The closed loops of all episodes: the audited cost, latent distance if criteria asked for it, the oracle.
        rankings: How latent distance and the audited cost rank the same candidates, if criteria asked for it.
    """

    stages: tuple[Stage, ...]
    criteria: tuple[Criterion, ...] = ()
    caveats: tuple[str, ...] = ()
    categories: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    runs: ControlRuns | None = field(default=None, repr=False, compare=False)
    rankings: Mapping[str, Ranking] = field(default_factory=dict, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """The stage at fault; `none` if episodes succeed, `cannot tell` if what was measured does not explain it."""
        return verdict(self.stages)

    @property
    def rows(self) -> dict[str, np.ndarray]:
        """The numbers behind stages and criteria, one row per episode (goal) of each, as columns.

        Episodes are numbered as in the evaluation set, without one as in the logs; -1 is no single episode.
        """
        parts = [(stage.name, stage.episodes, stage.rows) for stage in self.stages]
        parts += [(criterion.claim, criterion.episodes, criterion.rows) for criterion in self.criteria]
        return {
            "measurement": np.repeat([name for name, _, _ in parts], [len(rows) for _, _, rows in parts]),
            "episode": np.concatenate([episodes for _, episodes, _ in parts]),
            "value": np.concatenate([np.asarray(rows, np.float64) for _, _, rows in parts]),
        }

    def document(self) -> dict[str, Any]:
        """Everything but the rows, as JSON values."""
        return {
            "verdict": self.verdict,
            "stages": [stage.document() for stage in self.stages],
            "criteria": [criterion.document() for criterion in self.criteria],
            "caveats": list(self.caveats),
            "categories": dict(self.categories),
            **self.settings,
        }


def audit_planner(
    model: WorldModel,
    latents: Latents,
    cost: TerminalCost | None = None,
    task: Task | None = None,
    evaluation: EvaluationSet | None = None,
    planner: SamplingPlanner | None = None,
    held_out: Latents | None = None,
    *,
    criteria: bool = False,
    seed: int = 0,
    proposal: Proposal | None = None,
    thresholds: Mapping[str, float] | None = None,
    state_columns: Sequence[int] | None = None,
    progress: Progress | bool | None = None,
) -> Audit:
    """Measure every stage of a planner; without a task from logs alone, as far as they tell.

    Args:
        model: The frozen world model.
        latents: Its latents of the logs that heads learn from.
        cost: The terminal cost; by default latent MSE.
        task: The world, if there is a simulator of it.
        evaluation: Starts and goals in that world.
        planner: The sampler; by default `CEM()`, or `CategoricalCEM` where actions are discrete.
        held_out: Latents of logs that no head has seen; only needed without a task.
        criteria: Check the paper's falsification criteria, too; minutes, as heads are fitted and episodes run.
        seed: Of the planner.
        proposal: Candidates that the protocol writes into every pool of the planner, if it has any.
        thresholds: Where stages pass, by name, instead of their rules.
        state_columns: Which numbers of a logged state one frame can show; by default the task's `coordinates`, or all.
        progress: True shows how far it is.

    >>> from reachcost import encode_logs, load_world_model, make_task
    >>> task, model = make_task("tworoom"), load_world_model("lewm-tworoom-3072")
    >>> audit = audit_planner(model, encode_logs(model, task.generate_logs(30)))
    >>> [stage.outcome for stage in audit.stages][:3]
    ['unknown', 'unknown', 'pass']
    """
    if task is not None:
        require_task(task)
    subject = Subject(
        model,
        latents,
        LatentMSE() if cost is None else cost,
        task,
        evaluation,
        _default_planner(model, task) if planner is None else planner,
        held_out,
        seed,
        proposal,
        thresholds or {},
        state_columns,
        as_progress(progress),
    )
    stages = []
    for name, stage in STAGES.items():
        subject.progress.step(name)
        stages.append(foresight.needless(subject) if stage is foresight else stage.measure(subject))
    if _undecided(stages):
        subject.progress.step(foresight.NAME)
        stages[[*STAGES].index(foresight.NAME)] = foresight.measure(subject)
    checked = check_criteria(subject) if criteria else ()
    ended = Counter([] if subject.runs is None else subject.runs.category[0].tolist())
    return Audit(
        tuple(stages),
        tuple(checked),
        _caveats(subject, stages),
        dict(sorted(ended.items())),
        _settings(subject),
        _runs(subject),
        _rankings(subject),
    )


def _default_planner(model: WorldModel, task: Task | None) -> SamplingPlanner:
    actions = None if task is None or blocks_of(model) is not None else task.discrete_actions
    return default_planner(actions)


def verdict(stages: Sequence[Stage]) -> str:
    """The stage to blame.

    Goals out of reach and a search that misses them knowing everything come first. Then the cost, if it clearly orders
    true ends badly, or what it is made of: a latent that lost something, logs with a gap. Else foresight tells how much
    success is lost to the dynamics and how much to the cost, and the larger loss is blamed.

    `none` if episodes succeed; `cannot tell` if nothing that was measured explains why they fail, or none ran.

    >>> from reachcost.audits.stage import judge
    >>> verdict([judge(name, STAGES[name].RULE, value) for name, value in (("ranking", 0.1), ("execution", 14.0))])
    'ranking'
    """
    failing = [name for name in STAGES if any(stage.name == name and stage.outcome == "fail" for stage in stages)]
    if any(stage.name == "execution" and stage.outcome == "pass" for stage in stages):
        return "none"
    first = next((name for name in failing if name in ("goals", "sampling")), None)
    cost = next((name for name in failing if name in ("representation", "coverage", "ranking")), None)
    if first:
        return first
    measured = {stage.name: stage for stage in stages if stage.value is not None}
    if "foresight" in measured and "execution" in measured:
        if "representation" in failing and "foresight" in failing:
            return "representation"  # nothing predicts what the latent does not hold
        same = measured["foresight"].episodes
        foreseen, reached = (_mean_of(measured[name], same) for name in ("foresight", "execution"))
        known = _mean_of(measured["sampling"], same) if "sampling" in measured else 100.0
        if foreseen - reached >= known - foreseen:
            return "dynamics"
        return (cost or "ranking") if "sampling" in measured else CANNOT_TELL  # cost or search: neither is excused
    if cost and ("ranking" in failing or "execution" not in failing):
        return cost
    return "dynamics" if "dynamics" in failing else cost or CANNOT_TELL


def _mean_of(stage: Stage, episodes: np.ndarray) -> float:
    """Its mean over some episodes."""
    return float(stage.rows[np.isin(stage.episodes, episodes)].mean())


def _undecided(stages: Sequence[Stage]) -> bool:
    """Whether episodes fail, goals and search are not to blame, and the order of true ends is not clearly at fault."""
    failing = {stage.name: stage for stage in stages if stage.outcome == "fail"}
    ranking = failing.get("ranking")
    clear = ranking is not None and cast(float, ranking.value) < CLEAR * ranking.threshold
    return "execution" in failing and not failing.keys() & {"goals", "sampling"} and not clear


def _caveats(subject: Subject, stages: Sequence[Stage]) -> tuple[str, ...]:
    found = [
        f"the interval of {stage.name} holds its threshold: more episodes may change the outcome"
        for stage in stages
        if stage.near
    ]
    if subject.kept_out is False:
        found.append("the head was fitted on episodes of the evaluation set, so success flatters it")
    if subject.kept_out is None:
        found.append(
            "the head kept other evaluation sets out, so it may have been fitted on episodes of this one: perhaps "
            "success flatters it"
        )
    if subject.executed is None and subject.held_out is None:
        found.append("dynamics were measured on the logs given, which the world model may have been trained on")
    if subject.executed is not None and subject.executed.distance is not None and subject.held_out is not None:
        found.append("the held-out logs were not used, as there is a simulator")
    return tuple(found)


def _runs(subject: Subject) -> ControlRuns | None:
    """The closed loops that were run anyway, under the names that reports give to costs."""
    if subject.runs is None:
        return None
    runs = replace(subject.runs, costs=(subject.label,))
    beside = subject.asked("latent_runs") if subject.label != RAW else None
    for other in filter(None, (beside, subject.oracle_runs)):
        runs = other.beside(runs) if other is beside else runs.beside(other)
    return runs


def _rankings(subject: Subject) -> dict[str, Ranking]:
    found = subject.asked("sasc")
    return {} if found is None else {RAW: found.rankings["raw"], subject.label: found.rankings["audited"]}


def _settings(subject: Subject) -> dict[str, Any]:
    goals = subject.evaluation
    heads = [dict(getattr(head, "record", {})) for head in subject.heads]
    return {
        "model": model_identity(subject.model),
        "cost": type(subject.cost).__name__,
        "heads": [{key: value for key, value in head.items() if key != "curve"} for head in heads],
        "planner": asdict(subject.planner),  # pyright: ignore[reportArgumentType] (planners are dataclasses)
        "planner_seed": subject.seed,
        "logs_sha256": subject.latents.logs.fingerprint,
        "evaluation_set": goals.name if goals else None,
        **(goals.record if goals else {"evaluation_set_sha256": None}),
        "episodes": len(goals) if goals else 0,
        "versions": versions(),
    }
