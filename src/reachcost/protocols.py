"""The four contracts of reachcost, as structural protocols.

Shapes: B batch of episodes, S candidate action sequences, T context frames, H planning horizon (in action
blocks), A numbers in an action block, D latent dimension, N any batch. The world side (tasks, logs, rows) speaks
numpy; the latent side (models, heads, costs, planners) speaks torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from reachcost.base.seeding import EpisodeStreams
    from reachcost.data.evaluation import EvaluationSet

Observations = Mapping[str, np.ndarray]
"""Column name to array [N, ...], for example `{"pixels": uint8 [N, height, width, 3]}`."""


@runtime_checkable
class WorldModel(Protocol):
    """A frozen encoder with latent dynamics. `reachcost.check_world_model` tests the contract."""

    @property
    def latent_dim(self) -> int:
        """D, the size of a latent."""
        ...

    @property
    def action_dim(self) -> int:
        """A, the size of one action block (1 for a discrete action, given by its index)."""
        ...

    def encode(self, observations: Observations) -> Tensor:
        """Map N observations to latents [N, D]."""
        ...

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict where candidates end: context [B, T, D], actions [B, S, T - 1 + H, A] -> terminal [B, S, D].

        T is 1 for most models. With a longer history the first T - 1 action blocks are those already executed between
        the frames of the context.
        """
        ...


@runtime_checkable
class TerminalCost(Protocol):
    """A rule that assigns a cost to each candidate. It sees latents only, never the simulator."""

    def __call__(self, terminal: Tensor, goal: Tensor) -> Tensor:
        """Score terminal latents [B, S, D] against goal latents [B, D] -> costs [B, S]; lower is better."""
        ...


@runtime_checkable
class Head(Protocol):
    """A learned function of two latents, in practice a `torch.nn.Module`."""

    @property
    def latent_dim(self) -> int:
        """D, the size of the latents it was trained on."""
        ...

    def __call__(self, z: Tensor, goal: Tensor) -> Tensor:
        """Map latents [..., D] and [..., D], broadcast against each other, to values [...]."""
        ...


@runtime_checkable
class Task(Protocol):
    """A simulated world, always in batches of N states."""

    @property
    def name(self) -> str:
        """The registered name, as `make_task` takes it."""
        ...

    @property
    def action_budget(self) -> int:
        """How many actions an episode may execute."""
        ...

    @property
    def stops_at_success(self) -> bool:
        """Whether an episode ends when it reaches its goal, or goes on to the end of its budget."""
        ...

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: [N, ...], [N, A] -> [N, ...]."""
        ...

    def render(self, states: np.ndarray) -> np.ndarray:
        """Draw states as uint8 pixels [N, height, width, 3]."""
        ...

    def observe(self, states: np.ndarray) -> Observations:
        """Everything a world model may encode, as columns of N rows."""
        ...

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Oracle distance [N] from states to goals; used for diagnosis, never by a terminal cost."""
        ...

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether each state counts as having reached its goal: bool [N]."""
        ...

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Name how an episode that went from `starts` to `states` came out: str [N]."""
        ...

    def evaluation_set(self, name: str) -> EvaluationSet:
        """Return the evaluation set of that name."""
        ...


@runtime_checkable
class Planner(Protocol):
    """Chooses actions for a batch of episodes; see `reachcost.planning`."""

    @property
    def executed(self) -> int:
        """Action blocks of a plan that are executed before the next plan."""
        ...

    def plan(
        self,
        model: WorldModel,
        cost: TerminalCost,
        context: Tensor,
        goal: Tensor,
        streams: EpisodeStreams,
        injected: np.ndarray | None = None,
    ) -> Tensor:
        """Choose an action sequence [B, H, A] per episode.

        From context [B, T, D], goal [B, D], the random streams of the B episodes, and candidates
        [B, iterations, K, H] that the protocol of the task puts into every pool.
        """
        ...
