"""The audit on held-out logs: the fastest logged way, and heads that follow it or do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reachcost.audits.logged import logged_pools, logged_ranking
from reachcost.errors import ReachcostError
from reachcost.latents import Latents
from reachcost.tasks.tworoom import TwoRoom


class Geodesic:
    """Knows the truth: latents are positions."""

    latent_dim = 2

    def __init__(self, task: TwoRoom) -> None:
        self.task = task

    def __call__(self, z: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.task.distance(z.numpy(), goal.expand_as(z).numpy()))


class Euclidean(Geodesic):
    """Knows no walls."""

    def __call__(self, z: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return (z - goal).norm(dim=-1)


class Backwards(Geodesic):
    """Puts the farthest first."""

    def __call__(self, z: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return -super().__call__(z, goal)


def test_the_fastest_logged_way_orders_states_as_the_true_distance_does() -> None:
    task = TwoRoom()
    logs = task.generate_logs(episodes=600, seed=4)
    latents = Latents(torch.from_numpy(logs.columns["state"]), logs)
    pools = logged_pools(latents, np.arange(100, 600), goals=20, candidates=200)
    assert pools.candidates.shape == pools.fastest.shape == (20, 200)
    assert (logs.episode_of(pools.candidates.ravel()) >= 100).all()
    geodesic, euclidean = (
        logged_ranking(head, latents.values, pools).mean() for head in (Geodesic(task), Euclidean(task))
    )
    assert geodesic > 0.95
    assert euclidean < geodesic
    assert logged_ranking(Backwards(task), latents.values, pools).mean() == pytest.approx(-geodesic)


def test_too_few_logs_are_refused() -> None:
    logs = TwoRoom().generate_logs(episodes=20)
    latents = Latents(torch.from_numpy(logs.columns["state"]), logs)
    with pytest.raises(ReachcostError, match=r"only 0 of 5 goals have 5000 logged states that came by them"):
        logged_pools(latents, np.arange(20), goals=5, candidates=5000)
