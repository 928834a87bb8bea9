"""Costs through a linear probe: subspaces add up, decoded distances are those of the decoded states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reachcost.costs.latent import DecodedDistance, LatentMSE, StandardisedL2, SubspaceCost
from reachcost.data.probe import LinearProbe, fit_probe, score_probe
from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom import Layout

pytestmark = pytest.mark.processor


@pytest.fixture
def probe() -> LinearProbe:
    random = torch.Generator().manual_seed(1)
    return LinearProbe(torch.randn(12, 2, generator=random), torch.tensor([112.0, 112.0]))


def test_rowspace_and_residual_split_the_latent_distance(probe: LinearProbe) -> None:
    terminal, goal = torch.randn(3, 5, 12), torch.randn(3, 12)
    rowspace, residual = (SubspaceCost(probe, rest)(terminal, goal) for rest in (False, True))
    assert torch.allclose(rowspace + residual, 12 * LatentMSE()(terminal, goal), rtol=1e-4)
    projector = SubspaceCost(probe).projector
    assert torch.allclose(projector @ projector, projector, atol=1e-5)
    assert torch.linalg.matrix_rank(projector) == 2
    kept = goal[:, None] + (terminal - goal[:, None]) @ projector
    assert torch.allclose(probe(kept), probe(terminal), atol=1e-3)  # the rowspace is all that the probe reads


def test_decoded_distances_are_those_of_the_decoded_states(probe: LinearProbe) -> None:
    states = np.array([[60.0, 170.0], [90.0, 49.0]])
    inverse = torch.linalg.pinv(probe.weight)
    latents = ((torch.from_numpy(states).float() - probe.bias) @ inverse)[None]
    goal = (torch.tensor([[160.0, 170.0]]) - probe.bias) @ inverse
    straight = DecodedDistance(probe)(latents, goal)[0]
    assert straight.tolist() == pytest.approx([100.0, np.hypot(70, 121)], rel=1e-3)
    around = DecodedDistance(probe, Layout().geodesic)(latents, goal)[0]
    expected = Layout().geodesic(states, np.array([[160.0, 170.0]]))
    assert around.tolist() == pytest.approx(expected.tolist(), rel=1e-3)
    assert around[0] > 200


def test_standardised_distance_ignores_the_scale_of_components() -> None:
    latents = torch.randn(500, 4)
    scale = torch.tensor([1.0, 10.0, 0.1, 3.0])
    terminal, goal = latents[:6].view(2, 3, 4), latents[6:8]
    plain = StandardisedL2.of(latents)(terminal, goal)
    assert torch.allclose(StandardisedL2.of(latents * scale)(terminal * scale, goal * scale), plain, rtol=1e-4)
    with pytest.raises(ReachcostError, match="positive standard deviation"):
        StandardisedL2(torch.zeros(3))


def test_a_probe_reads_what_is_linear_and_only_that() -> None:
    latents = torch.randn(2000, 6, generator=torch.Generator().manual_seed(0))
    linear, square = latents[:, :1].numpy() * 3 + 5, latents[:, :1].square().numpy()
    train, test = slice(0, 1500), slice(1500, None)
    score = score_probe(fit_probe(latents[train], linear[train]), latents[test], linear[test])
    assert score.r2 > 0.9999
    assert score.rmse < 0.01
    assert score_probe(fit_probe(latents[train], square[train]), latents[test], square[test]).r2 < 0.1
    with pytest.raises(ReachcostError, match="two or more of both"):
        fit_probe(latents, linear[:10])
