"""Terminal costs that every study can name."""

from __future__ import annotations

from collections.abc import Mapping

from reachcost.costs.latent import DecodedDistance, HeadCost, HybridCost, LatentMSE, StandardisedL2, SubspaceCost
from reachcost.errors import ReachcostError
from reachcost.experiments.study import CostPlan, Study
from reachcost.heads.base import LearnedHead
from reachcost.heads.regression import PairHead

COSTS = {
    "raw": CostPlan(lambda experiment, model, heads: LatentMSE()),
    "standardized-l2": CostPlan(lambda experiment, model, heads: StandardisedL2.of(experiment.latents(model).values)),
    "decoded-xy": CostPlan(lambda experiment, model, heads: DecodedDistance(experiment.probe(model))),
    "decoded-geodesic": CostPlan(
        lambda experiment, model, heads: DecodedDistance(experiment.probe(model), experiment.task.distance)
    ),
    "rowspace": CostPlan(lambda experiment, model, heads: SubspaceCost(experiment.probe(model))),
    "residual": CostPlan(lambda experiment, model, heads: SubspaceCost(experiment.probe(model), residual=True)),
}


def replacement(name: str) -> CostPlan:
    """The head of that name in place of latent distance."""
    return CostPlan(lambda experiment, model, heads: HeadCost(heads[name]), (name,))


def hybrid(name: str, weight: float = 1.0) -> CostPlan:
    """Latent distance plus the head of that name, so many times."""
    return CostPlan(lambda experiment, model, heads: HybridCost(LatentMSE(), HeadCost(heads[name]), weight), (name,))


def symmetrised(name: str) -> CostPlan:
    """The pair head of that name with both input orders averaged."""

    def build(experiment: object, model: str, heads: Mapping[str, LearnedHead]) -> HeadCost:
        head = heads[name]
        if not isinstance(head, PairHead):
            raise ReachcostError(f"only a pair head has two input orders to average: {name!r} is a {head.kind} head")
        return HeadCost(head.symmetrised())

    return CostPlan(build, (name,))


def cost_plan(study: Study, name: str) -> CostPlan:
    """How a study builds the cost of that name."""
    if name in study.heads:
        return replacement(name)
    plans = {**COSTS, **study.costs}
    if name not in plans:
        raise ReachcostError(f"there is no cost {name!r}: choose one of {', '.join((*study.heads, *plans))}")
    return plans[name]
