"""What an audit measures: a world model, its logs, a terminal cost and a planner, checked against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from reachcost.audits.stage import Rule
from reachcost.core.progress import Progress
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import LatentMSE
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.evaluation import EvaluationSet, require_set
from reachcost.data.latents import Latents, require_latents_of
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.pairs import require_latents
from reachcost.planning.cem import CEM
from reachcost.planning.control import Proposal, require_actions, require_planner
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.compatibility import require_logs_of
from reachcost.tasks.contract import Task

Measured = TypeVar("Measured")
OVERLAP = 0.05  # maximum share of held-out episodes that are also in the logs, beyond the share expected by chance


@dataclass(frozen=True, repr=False)
class Subject:
    """The planner to audit; the fields are the arguments of `audit_planner`."""

    model: WorldModel
    latents: Latents
    cost: TerminalCost = field(default_factory=LatentMSE)
    task: Task | None = None
    evaluation: EvaluationSet | None = None
    planner: SamplingPlanner = field(default_factory=CEM)
    held_out: Latents | None = None
    seed: int = 0
    proposal: Proposal | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    state_columns: Sequence[int] | None = None
    progress: Progress = field(default_factory=Progress)
    shared: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False)  # results of `once` functions

    def __post_init__(self) -> None:
        require_latents(self.latents)
        if self.evaluation is not None:
            require_set(self.evaluation)
        if (self.task is None) != (self.evaluation is None):
            raise ReachcostError("a task and an evaluation set go together: give both, or neither to audit from logs")
        if self.task is not None:
            require_actions(self.task, self.model)
            require_planner(self.task, self.planner)
            require_logs_of(self.task, self.latents.logs)
        if not isinstance(self.planner, SamplingPlanner) or not is_dataclass(self.planner):
            raise ReachcostError(f"planner is {self.planner!r}: give a sampling planner, such as CEM()")
        if self.planner.from_logs:
            raise ReachcostError("the planner begins with logged actions: give one without from_logs")
        if self.state_columns is not None and (states := self.latents.logs.columns.get("state")) is not None:
            width = int(np.prod(states.shape[1:]))
            if not len(self.state_columns) or not all(0 <= number < width for number in self.state_columns):
                raise ReachcostError(f"state_columns are {list(self.state_columns)}: choose from 0 to {width - 1}")
        require_one_model({"audited": self.cost}, self.model)
        for latents in filter(None, (self.latents, self.held_out)):
            require_latents_of(self.model, latents)
        if self.held_out is not None:
            _require_unseen(self.latents.logs, self.held_out.logs)
        if any(pairs["logs_sha256"] != self.latents.logs.fingerprint for pairs in self.records):
            raise ReachcostError("the head was fitted on other logs: give the logs it was fitted on")

    def rule(self, rule: Rule) -> Rule:
        """The rule, with its custom threshold if there is one."""
        return replace(rule, threshold=self.thresholds.get(rule.name or rule.stage, rule.threshold))

    @property
    def heads(self) -> list[Any]:
        """The heads behind the cost; empty for a cost that was not fitted on logs."""
        return list(getattr(self.cost, "heads", ()))

    @property
    def records(self) -> list[dict[str, Any]]:
        """How the training pairs of the heads were made, for heads that record it."""
        records = [getattr(head, "record", {}).get("pairs") for head in self.heads]
        return [record for record in records if record]

    @property
    def blocks(self) -> ActionBlocks | None:
        """How the model's action blocks map to actions of the task."""
        return blocks_of(self.model)

    @property
    def block_length(self) -> int:
        """Actions of the task in a block."""
        return 1 if self.blocks is None else self.blocks.length

    @property
    def simulator(self) -> tuple[Task, EvaluationSet] | None:
        """Task and evaluation set, if there is a simulator."""
        return None if self.task is None or self.evaluation is None else (self.task, self.evaluation)

    @property
    def has_distance(self) -> bool:
        """Whether there is a simulator with an oracle distance."""
        return self.simulator is not None and self.simulator[0].offers("distance")

    def require_simulator(self) -> tuple[Task, EvaluationSet]:
        """Task and evaluation set; raises an error without a simulator."""
        if self.simulator is None:
            raise ReachcostError("this part of the audit needs a task: give one, and an evaluation set")
        return self.simulator


def once(measure: Callable[[Subject], Measured]) -> Callable[[Subject], Measured]:
    """Call the function once for each subject; all stages that call it share the result."""

    @wraps(measure)
    def shared(subject: Subject) -> Measured:
        if shared not in subject.shared:
            subject.shared[shared] = measure(subject)
        return subject.shared[shared]

    return shared


@once
def evaluated_episodes(subject: Subject) -> np.ndarray:
    """Logged episodes that hold a start or goal of the evaluation set [N]."""
    logs = subject.latents.logs
    if subject.evaluation is None or "state" not in logs.columns:
        return np.empty(0, np.int64)
    return Exclusion(logs, [subject.evaluation]).episodes


def kept_out(subject: Subject) -> bool | None:
    """Whether the heads' records prove that they were not fitted on the evaluation set; None if they name other sets.

    A record names sets by fingerprint. A head that excluded a set excluded all its subsets, too.
    """
    if subject.evaluation is None or not evaluated_episodes(subject).size:
        return True
    proofs = [record.get("exclusion", {}).get("evaluation_sets_sha256", []) for record in subject.records]
    if not all(proofs):
        return False
    known = {subject.evaluation.fingerprint, subject.evaluation.full_sha256}
    return all(known.intersection(proof) for proof in proofs) or None


def _require_unseen(logs: Logs, others: Logs) -> None:
    """Raise an error if more episodes of `others` are in `logs` than chance explains: in small worlds some repeat."""
    shared, chance = np.full(len(others), logs.fingerprint == others.fingerprint), 0.0
    if "state" in logs.columns and "state" in others.columns:
        states = [np.split(np.asarray(one.columns["state"]), one.offsets[1:]) for one in (logs, others)]
        known, found = (Counter(episode.tobytes() for episode in episodes) for episodes in states)
        shared = np.array([episode.tobytes() in known for episode in states[1]])
        chance = max(1 - sum(times == 1 for times in one.values()) / one.total() for one in (known, found))
    if shared.mean() > chance + OVERLAP:
        raise ReachcostError(f"{shared.sum()} of the {len(shared)} held-out episodes are in the logs: give others")
