"""The audit on held-out logs by the fastest logged path."""

import numpy as np
import pytest
import torch

from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError
from reachcost.fitting.logged_audit import logged_audit, logged_pools
from reachcost.tasks.tworoom import TwoRoom


def geodesic(terminal: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    """The true distance: latents are positions."""
    return torch.from_numpy(TwoRoom().distance(terminal.numpy(), goal[:, None].expand_as(terminal).numpy()))


def euclidean(terminal: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    """The distance without walls."""
    return (terminal - goal[:, None]).norm(dim=-1)


def test_the_fastest_logged_path_orders_states_like_the_true_distance() -> None:
    task = TwoRoom()
    logs = task.generate_logs(episodes=600, seed=4)
    latents = Latents(torch.from_numpy(logs.columns["state"]), logs)
    pools = logged_pools(latents, np.arange(100, 600), goals=20, candidates=200)
    assert pools.candidates.shape == pools.fastest.shape == (20, 200)
    assert (logs.episode_of(pools.candidates.ravel()) >= 100).all()
    costs = {"geodesic": geodesic, "euclidean": euclidean, "backwards": lambda *ends: -geodesic(*ends)}
    found = {name: ranking.spearman.mean() for name, ranking in logged_audit(costs, latents, pools).items()}
    assert found["geodesic"] > 0.95
    assert found["euclidean"] < found["geodesic"]
    assert found["backwards"] == pytest.approx(-found["geodesic"])


def test_too_few_logs_are_refused() -> None:
    logs = TwoRoom().generate_logs(episodes=20)
    latents = Latents(torch.from_numpy(logs.columns["state"]), logs)
    with pytest.raises(ReachcostError, match="0 of 5"):
        logged_pools(latents, np.arange(20), goals=5, candidates=5000)
