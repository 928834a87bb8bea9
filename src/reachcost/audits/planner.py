"""The audit of a whole planner: which of its stages is at fault?

Each stage is measured with the others out of the way: the representation by a probe, the dynamics against what really
comes, the sampler with true dynamics and true distance, the cost on candidates that are the same for all costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.coverage import uncovered
from reachcost.audits.dynamics import logged_moves, prediction_skill
from reachcost.audits.logged import logged_audit, logged_pools
from reachcost.audits.sasc import SascAudit, execute, gaussian_pools, roll_out, sasc
from reachcost.audits.stages import LEARNED_RANKING, LOGGED_RANKING, RULES, Rule, Stage, judge, verdict
from reachcost.base.progress import Progress
from reachcost.base.seeding import generator
from reachcost.costs.checks import require_one_model
from reachcost.costs.latent import LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, model_identity
from reachcost.data.logs import Logs
from reachcost.data.probe import LinearProbe, episode_split, fit_probe, score_probe
from reachcost.errors import ReachcostError
from reachcost.planning.cem import CEM
from reachcost.planning.control import ControlRuns, control
from reachcost.protocols import Task, TerminalCost, WorldModel
from reachcost.repair.exclusion import Exclusion
from reachcost.repair.pairs import require_latents
from reachcost.tasks.exact import ExactTwoRoom
from reachcost.tasks.tworoom import TwoRoom

EXECUTED = 20
"""Candidates of each episode whose real ends are encoded."""
PLACES = 2_000
"""Held-out rows that the logs are asked to cover."""
LOGGED_GOALS = 100


@dataclass(frozen=True, repr=False)
class PlannerAudit:
    """A planner under audit. Without a task it is judged from logs alone, as far as they tell.

    >>> from reachcost import encode_logs, load_world_model, make_task
    >>> task, model = make_task("tworoom"), load_world_model("lewm-tworoom-3072")
    >>> audit = PlannerAudit(model, encode_logs(model, task.generate_logs(100)))
    >>> [stage.outcome for stage in audit.stages][:3]
    ['pass', 'pass', 'unknown']
    """

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
    planner: CEM = field(default_factory=CEM)
    """The sampler."""
    held_out: Latents | None = None
    """Latents of logs that no head has seen; only needed without a task."""
    seed: int = 0
    """Of the planner."""
    progress: Progress = field(default_factory=Progress)
    """Where to show progress."""

    def __repr__(self) -> str:
        where = "logs alone" if self.evaluation is None else repr(self.evaluation)
        return f"PlannerAudit({self.model!r}, {type(self.cost).__name__}, {where})"

    def __post_init__(self) -> None:
        require_latents(self.latents)
        if self.evaluation is not None and not isinstance(self.evaluation, EvaluationSet):
            raise ReachcostError(f"evaluation is {self.evaluation!r}: give a set, task.evaluation_set(name)")
        if (self.task is None) != (self.evaluation is None):
            raise ReachcostError("a task goes with an evaluation set: give both, or neither for an audit from logs")
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
        if any(pairs["logs_sha256"] != logged for pairs in self._records):
            raise ReachcostError(
                "the head was fitted on other logs than these, so their coverage tells nothing about it: "
                "give the logs it was fitted on"
            )

    @cached_property
    def stages(self) -> list[Stage]:
        """Every stage in causal order, measured."""
        measures = {
            "representation": self._representation,
            "dynamics": self._dynamics,
            "coverage": self._coverage,
            "sampling": self._sampling,
            "ranking": self._ranking,
            "execution": self._execution,
        }
        found = []
        for name, measure in measures.items():
            self.progress.step(name)
            found.append(measure())
        return found

    @property
    def verdict(self) -> str:
        """The stage at fault; `none` if episodes succeed, `unknown` if nothing fails but success was not measured."""
        return verdict(self.stages)

    @property
    def learned(self) -> bool:
        """Whether the cost has learned from logs."""
        return bool(getattr(self.cost, "heads", ()))

    @property
    def _records(self) -> list[dict[str, Any]]:
        """How the pairs of the heads came about, where they tell."""
        records = [getattr(head, "record", {}).get("pairs") for head in getattr(self.cost, "heads", ())]
        return [record for record in records if record]

    @property
    def caveats(self) -> list[str]:
        """What a reader of the stages must know."""
        found = [
            f"the interval of {stage.name} holds its threshold: more episodes may change the outcome"
            for stage in self.stages
            if stage.near
        ]
        if self._evaluated_episodes.size and any("exclusion" not in record for record in self._records):
            found.append("the head was fitted on episodes of the evaluation set, so success flatters it")
        if self._executed is None and self.held_out is None:
            found.append("dynamics were measured on the logs given, which the world model may have been trained on")
        if self._executed is not None and self.held_out is not None:
            found.append("the held-out logs were not used, as there is a simulator")
        return found

    @cached_property
    def _evaluated_episodes(self) -> np.ndarray:
        """Logged episodes that hold a start or goal of the evaluation set."""
        logs = self.latents.logs
        if self.evaluation is None or "state" not in logs.columns:
            return np.empty(0, np.int64)
        return Exclusion(logs, [self.evaluation]).episodes

    @cached_property
    def probe(self) -> LinearProbe | None:
        """A linear probe of the state, fitted on four fifths of the episodes, if the logs allow one."""
        return None if self._split is None else fit_probe(*self._split[0])

    @cached_property
    def _split(self) -> list[tuple[Tensor, np.ndarray]] | None:
        """Latents and states of rows to fit on, and of rows of other episodes."""
        logs = self.latents.logs
        parts = episode_split(logs)
        if "state" not in logs.columns or min(map(len, parts)) < 2:
            return None
        states = np.asarray(logs.columns["state"])
        return [(self.latents.values[torch.from_numpy(rows)], states[rows]) for rows in parts]

    def _representation(self) -> Stage:
        if self._split is None or self.probe is None:
            return judge("representation", "needs logs with a column `state`, of five or more episodes")
        return judge("representation", score_probe(self.probe, *self._split[1]).r2)

    def _dynamics(self) -> Stage:
        """Latents count most what matters least, so the skill is that of the probed state where there is a probe."""
        try:
            moved = self._executed or logged_moves(self.model, self.held_out or self.latents, self.planner.horizon)
        except ReachcostError as error:
            return judge("dynamics", str(error))
        return judge("dynamics", prediction_skill(*(self.probe(part) for part in moved) if self.probe else moved))

    def _coverage(self) -> Stage:
        if not self.learned:
            return judge("coverage", "no logs were learned from")
        if self._executed is not None:
            places = torch.cat([self._executed[2], self._goal_latents])
        elif self.held_out is not None:
            chosen = generator(0, "coverage").permutation(len(self.held_out.values))[:PLACES]
            places = self.held_out.values[torch.from_numpy(chosen)]
        else:
            return judge("coverage", "needs --held-out or --task")
        logs = self.latents.logs
        learned = ~np.isin(logs.episode_of(np.arange(logs.rows)), self._evaluated_episodes)
        return judge("coverage", 100.0 * uncovered(places, self.latents.values[torch.from_numpy(learned)]).numpy())

    def _sampling(self) -> Stage:
        if self.oracle_runs is None:
            return judge("sampling", "needs a simulator (TwoRoom)")
        return judge("sampling", 100.0 * self.oracle_runs.success[0])

    def _ranking(self) -> Stage:
        if self.simulated:
            elites = 100 * self.planner.elites / self.planner.candidates
            return judge("ranking", self.sasc.rankings["audited"].oracle_best_rank, self._ranking_rule, elites)
        unseen = self.held_out if self.learned else self.held_out or self.latents
        missing = "needs --held-out or --task"
        try:
            pools = None if unseen is None else logged_pools(unseen, np.arange(len(unseen.logs)), LOGGED_GOALS)
        except ReachcostError as error:
            pools, missing = None, str(error)
        if unseen is None or pools is None:
            return judge("ranking", missing, self._ranking_rule)
        found = logged_audit({"audited": self.cost}, unseen, pools)["audited"]
        return judge("ranking", found.spearman, self._ranking_rule)

    @property
    def _ranking_rule(self) -> Rule:
        rule = RULES["ranking"] if self.simulated else LOGGED_RANKING
        return replace(rule, advice=LEARNED_RANKING) if self.learned else rule

    def _execution(self) -> Stage:
        if not self.simulated:
            return judge("execution", "needs a simulator or trials")
        return judge("execution", 100.0 * self.runs.success[0])

    @property
    def simulated(self) -> bool:
        """Whether the planner can act: a simulator, and a model whose action blocks it understands."""
        return self.task is not None and self._blocks is not None

    @property
    def _blocks(self) -> ActionBlocks | None:
        return getattr(self.model, "actions", None)

    def _world(self) -> tuple[Task, EvaluationSet, ActionBlocks]:
        """Task, evaluation set and action blocks, where there must be all of them."""
        if self.task is None or self.evaluation is None or self._blocks is None:
            raise ReachcostError("this part of the audit needs a task and a model with action blocks (`actions`)")
        return self.task, self.evaluation, self._blocks

    @cached_property
    def oracle_runs(self) -> ControlRuns | None:
        """The planner with true dynamics and true distance, where they are known."""
        if not isinstance(self.task, TwoRoom) or not self.simulated:
            return None
        _, evaluation, blocks = self._world()
        exact = ExactTwoRoom(self.task, blocks)
        return control(self.task, exact, {"oracle": OracleGeodesic(exact)}, evaluation, self.planner, seed=self.seed)

    def pools(self, candidates: int) -> np.ndarray:
        """Gaussian candidates of the planner's horizon [E, S, H, A]."""
        return gaussian_pools(self._world()[1], self.model.action_dim, self.planner.horizon, candidates)

    @cached_property
    def sasc(self) -> SascAudit:
        """The audited cost and latent MSE on the same candidates, as many as the planner samples."""
        task, evaluation, _ = self._world()
        costs = {"raw": LatentMSE(), "audited": self.cost}
        return sasc(task, self.model, costs, evaluation, self.pools(self.planner.candidates))

    @cached_property
    def runs(self) -> ControlRuns:
        """The planner in closed loop."""
        return self.control({"audited": self.cost})

    def control(
        self, costs: Mapping[str, TerminalCost], evaluation: EvaluationSet | None = None, planner: CEM | None = None
    ) -> ControlRuns:
        """The planner in closed loop under other costs, on other episodes, or with another search."""
        task, whole, _ = self._world()
        episodes, search = evaluation or whole, planner or self.planner
        return control(task, self.model, costs, episodes, search, seed=self.seed, progress=self.progress)

    @cached_property
    def _executed(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Start, predicted and true latents [N, D] of candidates that were executed; None without a simulator."""
        if not self.simulated:
            return None
        task, evaluation, blocks = self._world()
        pools = self.pools(EXECUTED)
        start, predicted, _ = roll_out(task, self.model, evaluation, pools)
        ends = execute(task, evaluation, blocks.unroll(pools))
        true = self.model.encode(task.observe(ends.reshape(-1, *evaluation.goals.shape[1:])))
        return start.repeat_interleave(EXECUTED, 0), predicted.flatten(0, 1), true

    @property
    def _goal_latents(self) -> Tensor:
        task, evaluation, _ = self._world()
        return self.model.encode(task.observe(evaluation.goals))


def _shared_episodes(logs: Logs, others: Logs) -> int:
    """How many episodes two logs share, as far as their lengths, first and last states tell."""
    if "state" not in logs.columns or "state" not in others.columns:
        return len(others) if logs.fingerprint == others.fingerprint else 0

    def keys(one: Logs) -> list[tuple[int, bytes, bytes]]:
        states, last = np.asarray(one.columns["state"]), one.offsets + one.lengths - 1
        ends = zip(one.lengths.tolist(), one.offsets.tolist(), last.tolist(), strict=True)
        return [(length, states[first].tobytes(), states[end].tobytes()) for length, first, end in ends if length > 1]

    return len(set(keys(logs)) & set(keys(others)))
