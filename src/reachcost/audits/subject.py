"""A planner under audit: its parts, checked against each other, and what several stages measure together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.sasc import SascAudit, draw_pools, execute, roll_out, sasc, to_goals
from reachcost.audits.stage import Rule
from reachcost.base.progress import Progress
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, require_finite, require_latents_of
from reachcost.data.logs import Logs
from reachcost.data.probe import LinearProbe, deviation, episode_split, fit_probe
from reachcost.data.rollouts import encoded
from reachcost.errors import ReachcostError
from reachcost.fitting.exclusion import Exclusion
from reachcost.fitting.pairs import require_latents
from reachcost.planning.actions import require_actions, require_planner
from reachcost.planning.cem import CEM
from reachcost.planning.control import ControlRuns, Proposal, budget_of, control
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.tasks.contract import Task
from reachcost.tasks.exact import ExactDynamics
from reachcost.tasks.logged import require_logs_of

EXECUTED = 64
"""Candidates of each place whose real ends are encoded."""
RAW = "raw"
"""What reports call latent distance."""
PASSES = 80.0
"""% success that is asked of a planner, unless something else is."""
BEYOND_CHANCE = 0.05
"""Share of held-out episodes that may be in the logs, beyond what repeats in these."""
NAMES = ("goals", "sampling", "representation", "coverage", "ranking", "dynamics", "foresight", "execution")
"""The stages."""
THRESHOLDS = (*NAMES, "ranking-logs", "coverage-places")
"""What passes where: two stages measure something else without a simulator, or without an oracle distance."""


@dataclass(frozen=True)
class Executed:
    """S candidates in each of N places: what the model predicts of them, and what really comes.

    Attributes:
        episodes: Of which episode a place is [N].
        start: Latents of the places [N, D].
        predicted: Latents of where candidates are predicted to end [N, S, D].
        true: Latents of where they end [N, S, D].
        goal: Latents of the goals [N, D].
        distance: True distance from there to the goal [N, S]; None where the task has none.
    """

    episodes: np.ndarray
    start: Tensor
    predicted: Tensor
    true: Tensor
    goal: Tensor
    distance: np.ndarray | None


@dataclass(frozen=True, repr=False)
class Subject:
    """What is under audit. Without a task it is judged from logs alone, as far as they tell."""

    model: WorldModel
    """The frozen world model."""
    latents: Latents
    """Its latents of the logs that heads learn from."""
    cost: TerminalCost = field(default_factory=LatentMSE)
    """The terminal cost."""
    task: Task | None = None
    """The world, if there is a simulator of it."""
    evaluation: EvaluationSet | None = None
    """Starts and goals in that world."""
    planner: SamplingPlanner = field(default_factory=CEM)
    """The sampler."""
    held_out: Latents | None = None
    """Latents of logs that no head has seen; only needed without a task."""
    seed: int = 0
    """Of the planner."""
    proposal: Proposal | None = None
    """Candidates that the protocol writes into every pool of the planner, if it has any."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Where stages pass, instead of their rules."""
    state_columns: Sequence[int] | None = None
    """Which numbers of a logged state a frame shows; by default the task's coordinates, or all."""
    progress: Progress = field(default_factory=Progress)
    """Where to show progress."""

    def __post_init__(self) -> None:
        require_latents(self.latents)
        if self.evaluation is not None and not isinstance(self.evaluation, EvaluationSet):
            raise ReachcostError(f"evaluation is {self.evaluation!r}: give a set, task.evaluation_set(name)")
        if (self.task is None) != (self.evaluation is None):
            raise ReachcostError("a task goes with an evaluation set: give both, or neither for an audit from logs")
        if self.task is not None:
            require_actions(self.task, self.model)
            require_planner(self.task, self.planner)
            require_logs_of(self.task, self.latents.logs)
        if not isinstance(self.planner, SamplingPlanner) or not is_dataclass(self.planner):
            raise ReachcostError(f"planner is {self.planner!r}: give one that samples, a dataclass as CEM() is")
        if self.planner.from_logs:
            raise ReachcostError(
                "an audit plans with the simulator, too, for which no latents were logged: audit the planner without "
                "from_logs"
            )
        if wrong := next((name for name in self.thresholds if name not in THRESHOLDS), None):
            raise ReachcostError(f"there is no threshold {wrong!r}: choose {', '.join(THRESHOLDS)}")
        if wrong := next((name for name, value in self.thresholds.items() if not np.isfinite(value)), None):
            raise ReachcostError(f"the threshold of {wrong} is {self.thresholds[wrong]}: give a number")
        self._require_columns()
        require_one_model({"audited": self.cost}, self.model)
        for latents in filter(None, (self.latents, self.held_out)):
            require_latents_of(self.model, latents)
        logged = self.latents.logs.fingerprint
        if self.held_out is not None:
            shared, chance = _shared_episodes(self.latents.logs, self.held_out.logs)
            if shared.mean() > chance + BEYOND_CHANCE:
                raise ReachcostError(
                    f"{shared.sum()} of the {len(shared)} held-out episodes are in the logs that heads learn from: "
                    "give others"
                )
        if any(pairs["logs_sha256"] != logged for pairs in self.records):
            raise ReachcostError(
                "the head was fitted on other logs than these, so their coverage tells nothing about it: "
                "give the logs it was fitted on"
            )

    def _require_columns(self) -> None:
        columns = self.latents.logs.columns
        if self.state_columns is None or "state" not in columns:
            return
        width = int(np.prod(columns["state"].shape[1:]))
        if not len(self.state_columns) or not all(0 <= number < width for number in self.state_columns):
            raise ReachcostError(
                f"state_columns {list(self.state_columns)} are none of the {width} numbers of a logged state: "
                f"choose from 0 to {width - 1}"
            )

    def rule(self, name: str, rule: Rule) -> Rule:
        """The rule of a stage, at the threshold that was asked for."""
        return replace(rule, threshold=self.thresholds.get(name, rule.threshold))

    @property
    def heads(self) -> list[Any]:
        """The heads behind the cost."""
        return list(getattr(self.cost, "heads", ()))

    @property
    def learned(self) -> bool:
        """Whether the cost has learned from logs."""
        return bool(self.heads)

    @property
    def label(self) -> str:
        """What reports call the audited cost."""
        return RAW if type(self.cost) is LatentMSE else "head" if self.learned else "audited"

    def asked(self, part: str) -> Any:
        """What several stages share and is made on demand, if somebody asked for it."""
        return vars(self).get(part)

    @property
    def records(self) -> list[dict[str, Any]]:
        """How the pairs of the heads came about, where they tell."""
        records = [getattr(head, "record", {}).get("pairs") for head in self.heads]
        return [record for record in records if record]

    @property
    def blocks(self) -> ActionBlocks | None:
        """How the model's action blocks stand for actions."""
        return blocks_of(self.model)

    @property
    def place(self) -> tuple[Task, EvaluationSet] | None:
        """Task and evaluation set, if there is a simulator."""
        return None if self.task is None or self.evaluation is None else (self.task, self.evaluation)

    @cached_property
    def evaluated_episodes(self) -> np.ndarray:
        """Logged episodes that hold a start or goal of the evaluation set."""
        logs = self.latents.logs
        if self.evaluation is None or "state" not in logs.columns:
            return np.empty(0, np.int64)
        return Exclusion(logs, [self.evaluation]).episodes

    @cached_property
    def kept_out(self) -> bool | None:
        """Whether the heads' records prove that they never saw the evaluation set; None if they name other sets.

        A record names sets by fingerprint. One that is not this set may still hold it, as a set holds its parts: if
        the task knows it, the logged episodes that it forbids tell.
        """
        if self.evaluation is None or not self.evaluated_episodes.size:
            return True
        proofs = [record.get("exclusion", {}).get("evaluation_sets_sha256", []) for record in self.records]
        if not all(proofs):
            return False
        return all(self.evaluation.fingerprint in proof or self._forbidden(proof) for proof in proofs) or None

    def _forbidden(self, proof: list[str]) -> bool:
        """Whether sets of the task with these fingerprints forbid every logged episode of the evaluation set."""
        sets = [] if self.task is None else [self.task.evaluation_set(name) for name in self.task.sets]
        named = [chosen for chosen in sets if chosen.fingerprint in proof]
        return bool(np.isin(self.evaluated_episodes, Exclusion(self.latents.logs, named).episodes).all())

    @cached_property
    def probe(self) -> LinearProbe | None:
        """A linear probe of the coordinates, fitted on four fifths of the episodes, if the logs allow one."""
        return None if self.split is None else fit_probe(*self.split[0], scaled=True)

    def read(self, latents: Tensor) -> Tensor:
        """Coordinates [N, K] that the probe reads, each in its logged deviations; without a probe, the latents."""
        if self.split is None or self.probe is None:
            return latents
        return self.probe(latents) / deviation(torch.as_tensor(self.split[0][1], dtype=torch.float32))

    @cached_property
    def split(self) -> list[tuple[Tensor, np.ndarray]] | None:
        """Latents and coordinates of rows to fit on, and of rows of other episodes."""
        logs = self.latents.logs
        parts = episode_split(logs)
        if "state" not in logs.columns or min(map(len, parts)) < 2:
            return None
        states = np.asarray(logs.columns["state"])
        read = states.reshape(len(states), -1)
        if self.state_columns is not None:
            read = read[:, list(self.state_columns)]
        elif self.task is not None:
            read = self.task.coordinates(states)
        return [(self.latents.values[torch.from_numpy(rows)], read[rows]) for rows in parts]

    def pools(self, candidates: int) -> np.ndarray:
        """Random candidates of the planner's horizon [E, S, H, A]."""
        task, evaluation = self.require_place()
        return draw_pools(task, self.model, evaluation, self.horizon, candidates)

    @property
    def horizon(self) -> int:
        """Blocks of the planner's candidates from a start: no more than the budget has, if it shrinks to that."""
        task, evaluation = self.require_place()
        budget, length = budget_of(task, evaluation), 1 if self.blocks is None else self.blocks.length
        return min(self.planner.horizon, -(-budget // length)) if self.planner.shrink else self.planner.horizon

    def require_place(self) -> tuple[Task, EvaluationSet]:
        """Task and evaluation set, where there must be both."""
        if self.place is None:
            raise ReachcostError("this part of the audit needs a task: give one, and an evaluation set")
        return self.place

    @cached_property
    def executed(self) -> Executed | None:
        """Candidates that were executed, from every start and from where failed episodes got stuck."""
        if self.place is None:
            return None
        parts = [self._from_starts] + ([] if self.stuck is None else [self._execute(self.stuck)])
        distances = [part.distance for part in parts]
        joined = {
            name: torch.cat([getattr(part, name) for part in parts]) for name in ("start", "predicted", "true", "goal")
        }
        known = None if any(one is None for one in distances) else np.concatenate(cast(Any, distances))
        return Executed(np.concatenate([part.episodes for part in parts]), **joined, distance=known)

    @cached_property
    def _from_starts(self) -> Executed:
        return self._execute(self.require_place()[1])

    def _execute(self, places: EvaluationSet) -> Executed:
        task, _ = self.require_place()
        pools = draw_pools(task, self.model, places, self.horizon, EXECUTED)
        start, predicted, goal = roll_out(task, self.model, places, pools)
        ends = execute(task, places, pools if self.blocks is None else self.blocks.unroll(pools))
        reached = ends.reshape(-1, *places.goals.shape[1:])
        true = encoded(self.model, task.observe(reached), len(reached))
        require_finite(true, "the end of a candidate in episode", np.repeat(places.episodes, EXECUTED))
        distance = to_goals(task.distance, ends, places) if task.offers("distance") else None
        return Executed(places.episodes, start, predicted, true.view(predicted.shape), goal, distance)

    @property
    def stuck(self) -> EvaluationSet | None:
        """Of episodes that failed in closed loop, the last states that a plan was made in, if any failed."""
        if self.runs is None or self.runs.success[0].all():
            return None
        evaluation = self.require_place()[1]
        blocks = 1 if self.blocks is None else self.blocks.length
        last = self.runs.steps[0] - 1
        last -= last % (self.planner.executed * blocks)
        stuck = self.runs.paths[0][np.arange(len(last)), last]
        failed = np.flatnonzero(~self.runs.success[0])
        return replace(evaluation, starts=stuck, source_rows=None, source_episodes=None).subset(failed)

    @cached_property
    def oracle_runs(self) -> ControlRuns | None:
        """The planner with true dynamics and true distance, where they are known and states are vectors."""
        if self.place is None or not self.place[0].offers("distance") or self.place[1].starts.ndim != 2:
            return None
        task, evaluation = self.place
        exact = ExactDynamics(
            task, self.blocks, evaluation.starts
        )  # not a model that says it is exact: it may be broken
        costs = {"oracle": OracleGeodesic(exact)}
        return control(task, exact, costs, evaluation, self.planner, seed=self.seed, proposal=self.proposal)

    @cached_property
    def sasc(self) -> SascAudit | None:
        """The audited cost and latent MSE on the same candidates, as many as the planner samples."""
        if self.place is None or not self.place[0].offers("distance"):
            return None
        task, evaluation = self.place
        costs = {"raw": LatentMSE(), "audited": self.cost}
        return sasc(task, self.model, costs, evaluation, self.pools(self.planner.candidates))

    @cached_property
    def runs(self) -> ControlRuns | None:
        """The planner in closed loop."""
        if self.place is None:
            return None
        _ = self._from_starts  # a model that predicts no numbers is to be named before episodes blame the cost for it
        return self.control({"audited": self.cost})

    @cached_property
    def latent_runs(self) -> ControlRuns:
        """The planner in closed loop under latent MSE."""
        same = type(self.cost) is LatentMSE and self.runs is not None
        return cast(ControlRuns, self.runs) if same else self.control({"raw": LatentMSE()})

    def control(
        self,
        costs: Mapping[str, TerminalCost],
        evaluation: EvaluationSet | None = None,
        planner: SamplingPlanner | None = None,
    ) -> ControlRuns:
        """The planner in closed loop under other costs, on other episodes, or with another search."""
        task, whole = self.require_place()
        episodes, search = evaluation or whole, planner or self.planner
        options: dict[str, Any] = {"seed": self.seed, "proposal": self.proposal, "progress": self.progress}
        return control(task, self.model, costs, episodes, search, **options)


def _shared_episodes(logs: Logs, others: Logs) -> tuple[np.ndarray, float]:
    """Which episodes of `others` have the very states of one of `logs`, bool [E], and the share that is no surprise.

    In small worlds episodes repeat: as often as they do within `logs` or within `others`.
    """
    if "state" not in logs.columns or "state" not in others.columns:
        return np.full(len(others), logs.fingerprint == others.fingerprint), 0.0

    def contents(one: Logs) -> list[bytes]:
        states = np.asarray(one.columns["state"])
        spans = zip(one.offsets.tolist(), one.lengths.tolist(), strict=True)
        return [states[first : first + length].tobytes() for first, length in spans]

    known, found = contents(logs), contents(others)
    repeated = [1 - sum(count == 1 for count in Counter(one).values()) / len(one) for one in (known, found)]
    here = set(known)
    return np.array([episode in here for episode in found]), max(repeated)
