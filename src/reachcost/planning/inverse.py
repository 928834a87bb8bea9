"""Acting without a planner: a network that knows which action block leads from a latent to a goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.core.devices import bring
from reachcost.core.parallel import each
from reachcost.core.types import require_type
from reachcost.data.fingerprint import name_of
from reachcost.errors import ReachcostError
from reachcost.heads.inverse import InverseDynamics
from reachcost.planning.planner import PlanContext, Planner


@dataclass(frozen=True)
class InversePolicy(Planner):
    """Executes what inverse dynamics says, one block after the other: in place of a planner, it plans nothing.

    Of a model with a `history` it sees the newest frame.

    >>> from reachcost import LatentMSE, control, make_task
    >>> from reachcost.peers import InverseRecipe, fit_inverse
    >>> from reachcost.tasks import ExactTopoNav
    >>> task, model = make_task("toponav"), ExactTopoNav()
    >>> few = task.evaluation_set().spread(5)
    >>> quick = InverseRecipe(hidden=32, epochs=2)
    >>> policy = InversePolicy(fit_inverse(model, task.generate_logs(100), exclude=few, pairs=2000, recipe=quick))
    >>> control(task, model, {"gc-idm": LatentMSE()}, few, planner=policy).success.shape
    (1, 5)
    """

    network: InverseDynamics
    """What `fit_inverse` returns."""
    sampled: bool = False
    """Draw discrete actions by their probabilities. The most probable ones may lead in a circle for ever, as the policy
    forgets where it has been; chance leaves it, at the price of some detours."""

    def __post_init__(self) -> None:
        require_type(self.network, InverseDynamics, "network", "give what rc.peers.fit_inverse returns")
        if self.sampled and not self.discrete:
            raise ReachcostError(
                "InversePolicy(sampled=True) draws discrete actions, but these are blocks: leave it out"
            )

    @property
    def discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (planners are frozen)
        """Whether its actions are discrete."""
        return self.network.discrete

    @torch.no_grad()
    def plan(self, context: PlanContext) -> Tensor:
        """Return one block per episode [B, 1, A]; each episode is planned by itself."""
        model, goal = context.model, context.goal
        known = self.network.latent_dim, self.network.action_dim
        if known != (model.latent_dim, model.action_dim):
            raise ReachcostError(
                f"this policy was trained on latents of dimension {known[0]} and blocks of {known[1]} numbers, but "
                f"{name_of(model)} has {model.latent_dim} and {model.action_dim}: train one with this world model"
            )
        bring(self.network, goal.device)
        episodes: list[tuple[Tensor, ...]] = list(zip(context.latents[:, -1:], goal, strict=True))
        if self.sampled:
            draws = torch.from_numpy(context.streams.uniform16(1).astype(np.float32) / 65536).to(goal.device)
            episodes = [(*episode, draw) for episode, draw in zip(episodes, draws, strict=True)]
        return torch.stack(each(lambda episode: self.network.act(*episode), episodes))
