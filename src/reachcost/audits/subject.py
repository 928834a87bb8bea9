"""A planner under audit: its parts, checked against each other, and what several stages measure together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.sasc import SascAudit, draw_pools, execute, roll_out, sasc
from reachcost.base.progress import Progress
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic, exact_model
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, model_identity, require_finite
from reachcost.data.logs import Logs
from reachcost.data.probe import LinearProbe, episode_split, fit_probe
from reachcost.errors import ReachcostError
from reachcost.fitting.exclusion import Exclusion
from reachcost.fitting.pairs import require_latents
from reachcost.planning.cem import CEM
from reachcost.planning.control import ControlRuns, Proposal, control
from reachcost.protocols import SamplingPlanner, TerminalCost, WorldModel
from reachcost.tasks.contract import Task

EXECUTED = 20
"""Candidates of each episode whose real ends are encoded."""


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
    progress: Progress = field(default_factory=Progress)
    """Where to show progress."""

    def __post_init__(self) -> None:
        require_latents(self.latents)
        if self.evaluation is not None and not isinstance(self.evaluation, EvaluationSet):
            raise ReachcostError(f"evaluation is {self.evaluation!r}: give a set, task.evaluation_set(name)")
        if (self.task is None) != (self.evaluation is None):
            raise ReachcostError("a task goes with an evaluation set: give both, or neither for an audit from logs")
        if not isinstance(self.planner, SamplingPlanner) or not is_dataclass(self.planner):
            raise ReachcostError(f"planner is {self.planner!r}: give one that samples, a dataclass as CEM() is")
        require_one_model({"audited": self.cost}, self.model)
        here = model_identity(self.model)
        for latents in filter(None, (self.latents, self.held_out)):
            if here and latents.model and here["sha256"] != latents.model["sha256"]:
                made_by = latents.model["name"]
                raise ReachcostError(f"the latents are of {made_by}, not of {here['name']}: encode with this model")
        logged = self.latents.logs.fingerprint
        if self.held_out is not None and (shared := _shared_episodes(self.latents.logs, self.held_out.logs)):
            raise ReachcostError(
                f"{shared} of the held-out episodes are in the logs that heads learn from: give others"
            )
        if any(pairs["logs_sha256"] != logged for pairs in self.records):
            raise ReachcostError(
                "the head was fitted on other logs than these, so their coverage tells nothing about it: "
                "give the logs it was fitted on"
            )

    @property
    def heads(self) -> list[Any]:
        """The heads behind the cost."""
        return list(getattr(self.cost, "heads", ()))

    @property
    def learned(self) -> bool:
        """Whether the cost has learned from logs."""
        return bool(self.heads)

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
        """Task and evaluation set, if the planner can act there: its actions must be known."""
        if self.task is None or self.evaluation is None:
            return None
        return None if self.blocks is None and self.task.discrete_actions is None else (self.task, self.evaluation)

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
        return None if self.split is None else fit_probe(*self.split[0])

    @cached_property
    def split(self) -> list[tuple[Tensor, np.ndarray]] | None:
        """Latents and coordinates of rows to fit on, and of rows of other episodes."""
        logs = self.latents.logs
        parts = episode_split(logs)
        if "state" not in logs.columns or min(map(len, parts)) < 2:
            return None
        states = np.asarray(logs.columns["state"])
        read = states.reshape(len(states), -1) if self.task is None else self.task.coordinates(states)
        return [(self.latents.values[torch.from_numpy(rows)], read[rows]) for rows in parts]

    def pools(self, candidates: int) -> np.ndarray:
        """Random candidates of the planner's horizon [E, S, H, A]."""
        task, evaluation = self.require_place()
        return draw_pools(task, self.model, evaluation, self.planner.horizon, candidates)

    def require_place(self) -> tuple[Task, EvaluationSet]:
        """Task and evaluation set, where there must be both."""
        if self.place is None:
            raise ReachcostError("this part of the audit needs a task and a model whose actions it understands")
        return self.place

    @cached_property
    def executed(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Start, predicted and true latents [N, D] of candidates that were executed; None without a simulator."""
        if self.place is None:
            return None
        task, evaluation = self.place
        pools = self.pools(EXECUTED)
        start, predicted, _ = roll_out(task, self.model, evaluation, pools)
        ends = execute(task, evaluation, pools if self.blocks is None else self.blocks.unroll(pools))
        true = self.model.encode(task.observe(ends.reshape(-1, *evaluation.goals.shape[1:])))
        require_finite(true, "the end of a candidate in episode", np.repeat(evaluation.episodes, EXECUTED))
        return start.repeat_interleave(EXECUTED, 0), predicted.flatten(0, 1), true

    @property
    def goal_latents(self) -> Tensor:
        """Latents of the goals [E, D]."""
        task, evaluation = self.require_place()
        return self.model.encode(task.observe(evaluation.goals))

    @cached_property
    def oracle_runs(self) -> ControlRuns | None:
        """The planner with true dynamics and true distance, where they are known and states are vectors."""
        if self.place is None or not self.place[0].offers("distance") or self.place[1].starts.ndim != 2:
            return None
        task, evaluation = self.place
        exact = exact_model(task, self.model, evaluation.starts)
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
        return None if self.place is None else self.control({"audited": self.cost})

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


def _shared_episodes(logs: Logs, others: Logs) -> int:
    """How many episodes two logs share, as far as their lengths, first and last states tell.

    Whole numbers repeat by chance, so that they tell nothing.
    """
    known = all("state" in one.columns and one.columns["state"].dtype.kind == "f" for one in (logs, others))
    if not known:
        return len(others) if logs.fingerprint == others.fingerprint else 0

    def keys(one: Logs) -> list[tuple[int, bytes, bytes]]:
        states, last = np.asarray(one.columns["state"]), one.offsets + one.lengths - 1
        ends = zip(one.lengths.tolist(), one.offsets.tolist(), last.tolist(), strict=True)
        return [(length, states[first].tobytes(), states[end].tobytes()) for length, first, end in ends if length > 1]

    return len(set(keys(logs)) & set(keys(others)))
