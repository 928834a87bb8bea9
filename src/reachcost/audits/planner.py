"""The audit of a whole planner: which of its stages is at fault?

Each stage is measured with the others out of the way: the representation by a probe, the dynamics against what really
comes, the sampler with true dynamics and true distance, the cost on candidates that are the same for all costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from reachcost.audits import stages
from reachcost.audits.coverage import uncovered
from reachcost.audits.dynamics import logged_skill, prediction_skill
from reachcost.audits.logged import logged_audit, logged_pools
from reachcost.audits.probe import LinearProbe, fit_probe, score_probe
from reachcost.audits.sasc import SascAudit, execute, gaussian_pools, sasc
from reachcost.audits.stages import Stage, judge
from reachcost.costs import LatentMSE, require_one_model
from reachcost.errors import ReachcostError
from reachcost.evaluation import EvaluationSet
from reachcost.latents import Latents
from reachcost.oracle import OracleGeodesic
from reachcost.planning.cem import CEM
from reachcost.planning.control import ControlRuns, control
from reachcost.progress import Progress
from reachcost.protocols import Task, TerminalCost, WorldModel
from reachcost.seeding import generator
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.actions import ActionBlocks
from reachcost.worldmodels.tworoom import ExactTwoRoom

PROBE_ROWS = 20_000
EXECUTED = 20
"""Candidates of each episode whose real ends are encoded."""
PLACES = 2_000
"""Held-out rows that the logs are asked to cover."""
LOGGED_GOALS = 100


@dataclass(frozen=True)
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

    def __post_init__(self) -> None:
        if (self.task is None) != (self.evaluation is None):
            raise ReachcostError("a task goes with an evaluation set: give both, or neither for an audit from logs")
        require_one_model({"audited": self.cost}, self.model)
        for head in getattr(self.cost, "heads", ()):
            trained_on = getattr(head, "record", {}).get("pairs", {}).get("logs_sha256")
            if trained_on and trained_on != self.latents.logs.fingerprint:
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
        """The stage at fault, or `none`."""
        return stages.verdict(self.stages)

    @property
    def learned(self) -> bool:
        """Whether the cost has learned from the logs."""
        return bool(getattr(self.cost, "heads", ()))

    @cached_property
    def probe(self) -> LinearProbe | None:
        """A linear probe of the state, if the logs have it, fitted on four fifths of the episodes."""
        return None if self._split is None else fit_probe(*self._split[0])

    @cached_property
    def _split(self) -> list[tuple[Tensor, np.ndarray]] | None:
        """Latents and states of rows to fit on, and of rows of other episodes."""
        logs = self.latents.logs
        if "state" not in logs.columns or len(logs) < 5:
            return None
        rows = np.sort(generator(0, "probe").permutation(logs.rows)[:PROBE_ROWS])
        unseen = generator(0, "probe-episodes").permutation(len(logs))[: len(logs) // 5]
        held = np.isin(logs.episode_of(rows), unseen)
        parts = [rows[~held], rows[held]]
        return [
            (self.latents.values[torch.from_numpy(part)], np.asarray(logs.columns["state"])[part]) for part in parts
        ]

    def _representation(self) -> Stage:
        if self._split is None or self.probe is None or min(len(states) for _, states in self._split) < 2:
            return judge("representation", "log the state of every row (column `state`), of five or more episodes")
        return judge("representation", score_probe(self.probe, *self._split[1]).r2)

    def _dynamics(self) -> Stage:
        if self._ends is not None:
            return judge("dynamics", prediction_skill(*self._ends))
        try:
            return judge("dynamics", logged_skill(self.model, self.held_out or self.latents, self.planner.horizon))
        except ReachcostError as error:
            return judge("dynamics", str(error))

    def _coverage(self) -> Stage:
        if not self.learned:
            return judge("coverage", "nothing to cover: this cost has learned from no logs")
        if self._ends is not None:
            places = torch.cat([self._ends[2], self._encode(self._simulated()[1].goals)])
        elif self.held_out is not None:
            chosen = generator(0, "coverage").permutation(len(self.held_out.values))[:PLACES]
            places = self.held_out.values[torch.from_numpy(chosen)]
        else:
            return judge("coverage", "give logs that the head has not seen (--held-out), or a task")
        return judge("coverage", 100 * uncovered(places, self.latents.values).float().mean().item())

    def _sampling(self) -> Stage:
        if self.task is None or self.exact is None:
            return judge("sampling", "needs a simulator: give a task whose dynamics are known")
        _, evaluation = self._simulated()
        runs = control(
            self.task, self.exact, {"oracle": OracleGeodesic(self.exact)}, evaluation, self.planner, seed=self.seed
        )
        return judge("sampling", 100 * float(runs.success.mean()))

    def _ranking(self) -> Stage:
        if self.task is not None:
            elites = 100 * self.planner.elites / self.planner.candidates
            return judge("ranking", float(self.sasc.rankings["audited"].oracle_best_rank.mean()), threshold=elites)
        unseen = self.held_out if self.learned else self.held_out or self.latents
        if unseen is None:
            return judge(
                "ranking", "give logs that the head has not seen (--held-out), or a task", stages.LOGGED_RANKING
            )
        try:
            pools = logged_pools(unseen, np.arange(len(unseen.logs)), LOGGED_GOALS)
        except ReachcostError as error:
            return judge("ranking", str(error), stages.LOGGED_RANKING)
        found = logged_audit({"audited": self.cost}, unseen, pools)["audited"]
        return judge("ranking", float(found.spearman.mean()), stages.LOGGED_RANKING)

    def _execution(self) -> Stage:
        if self.task is None:
            return judge("execution", "needs a simulator, or trials on the robot")
        return judge("execution", 100 * float(self.runs.success.mean()))

    def _simulated(self) -> tuple[Task, EvaluationSet]:
        """Task and evaluation set, where there must be both."""
        if self.task is None or self.evaluation is None:
            raise ReachcostError("this part of the audit needs a simulator: give a task and an evaluation set")
        return self.task, self.evaluation

    @cached_property
    def exact(self) -> ExactTwoRoom | None:
        """The world's own dynamics as a world model, where they are known."""
        blocks = self._blocks
        return ExactTwoRoom(self.task, blocks) if isinstance(self.task, TwoRoom) and blocks else None

    @property
    def _blocks(self) -> ActionBlocks | None:
        return getattr(self.model, "actions", None)

    def pools(self, candidates: int) -> np.ndarray:
        """Gaussian candidates of the planner's horizon [E, S, H, A]."""
        return gaussian_pools(self._simulated()[1], self.model.action_dim, self.planner.horizon, candidates)

    @cached_property
    def sasc(self) -> SascAudit:
        """The audited cost and latent MSE on the same candidates, as many as the planner samples."""
        costs = {"raw": LatentMSE(), "audited": self.cost}
        task, evaluation = self._simulated()
        return sasc(task, self.model, costs, evaluation, self.pools(self.planner.candidates))

    @cached_property
    def runs(self) -> ControlRuns:
        """The planner in closed loop."""
        task, evaluation = self._simulated()
        costs = {"audited": self.cost}
        return control(task, self.model, costs, evaluation, self.planner, seed=self.seed, progress=self.progress)

    @cached_property
    @torch.no_grad()
    def _ends(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Start, predicted and true latents [N, D] of candidates that were executed; None without a simulator."""
        if self.task is None or self.evaluation is None:
            return None
        pools = self.pools(EXECUTED)
        start = self._encode(self.evaluation.starts)
        predicted = self.model.rollout(start[:, None], torch.from_numpy(pools)).flatten(0, 1)
        blocks = self._blocks
        ends = execute(self.task, self.evaluation, blocks.unroll(pools) if blocks else pools)
        true = self._encode(ends.reshape(-1, *self.evaluation.goals.shape[1:]))
        return start.repeat_interleave(EXECUTED, 0), predicted, true

    def _encode(self, states: np.ndarray) -> Tensor:
        return self.model.encode(self._simulated()[0].observe(states))
