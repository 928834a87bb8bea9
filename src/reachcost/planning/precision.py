"""How much plans change with the numbers that a world model computes in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reachcost.core.seeding import EpisodeStreams
from reachcost.data.rollouts import ends_of
from reachcost.planning.cem import CEM
from reachcost.planning.elites import lowest
from reachcost.planning.planner import PlanContext
from reachcost.protocols import TerminalCost, WorldModel


@dataclass(frozen=True)
class PlanChange:
    """What another precision changes, for the same starts, goals and random numbers.

    Attributes:
        elites: Share of the first elites that both choose.
        plans: Mean absolute difference of the plans, in standard deviations of the logged actions.
        largest: The largest difference among all numbers of all plans.
    """

    elites: float
    plans: float
    largest: float

    def __str__(self) -> str:
        return (
            f"{100 * self.elites:.0f} % of the first elites are the same, plans differ by {self.plans:.2g} deviations "
            f"of the logged actions on average, by {self.largest:.2g} at most"
        )


@torch.no_grad()
def plan_change(
    model: WorldModel, other: WorldModel, cost: TerminalCost, start: Tensor, goal: Tensor, planner: CEM | None = None
) -> PlanChange:
    """Plan from starts [B, D] to goals [B, D] with both models, by the same random numbers."""
    planner = planner or CEM()

    def streams() -> EpisodeStreams:
        return EpisodeStreams(0, "precision", range(len(goal)), 0)

    noise = torch.from_numpy(streams().normal(planner.candidates, planner.horizon, model.action_dim))
    chosen, plans = [], []
    for one in (model, other):
        best = lowest(cost(ends_of(one, start[:, None], noise), goal), planner.elites)
        chosen.append([set(row) for row in best.tolist()])
        plans.append(planner.plan(PlanContext(one, cost, start[:, None], goal, streams())))
    shared = [len(mine & theirs) / planner.elites for mine, theirs in zip(*chosen, strict=True)]
    difference = (plans[0] - plans[1]).abs()
    return PlanChange(sum(shared) / len(shared), difference.mean().item(), difference.max().item())
