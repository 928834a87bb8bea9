"""The objectives are those of the public training scripts, only faster."""

import pytest
import torch
from torch.nn import functional

from reachcost.swm.evaluation import import_stable_worldmodel
from reachcost.worldmodels.objectives import lewm_loss, pldm_loss, sigreg


@pytest.fixture(scope="module")
def public():
    import_stable_worldmodel()
    from stable_worldmodel.wm import loss

    return loss


def test_sigreg_and_its_gradient_equal_the_public_ones(public):
    torch.manual_seed(3)
    latents = (torch.randn(4, 96, 24) * 1.7 + 0.3).requires_grad_()
    torch.manual_seed(5)
    theirs = public.SIGReg(knots=17, num_proj=40)(latents)
    torch.manual_seed(5)
    directions = torch.randn(24, 40)
    ours = sigreg(latents, directions / directions.norm(dim=0))
    assert torch.allclose(ours, theirs, rtol=1e-5)
    gradients = [torch.autograd.grad(value, latents)[0] for value in (ours, theirs)]
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-7)


def test_sigreg_gradient_is_the_numerical_one():
    torch.manual_seed(0)
    latents = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    directions = functional.normalize(torch.randn(3, 4, dtype=torch.float64), dim=0)
    assert torch.autograd.gradcheck(lambda z: sigreg(z, directions), (latents,))


def test_pldm_terms_equal_the_public_ones(public):
    torch.manual_seed(1)
    latents, predicted = torch.randn(16, 4, 8) * 0.5, torch.randn(16, 3, 8)
    acted, actions = torch.randn(16, 3, 10), torch.randn(16, 3, 10)
    theirs = public.PLDMLoss()(latents, acted, actions)
    ours = pldm_loss(latents, predicted, acted, actions)
    names = {
        "std": "std_loss",
        "std_time": "std_t_loss",
        "covariance": "cov_loss",
        "alignment": "temp_align_loss",
        "inverse": "idm_loss",
    }
    for mine, other in names.items():
        assert torch.allclose(ours[mine], theirs[other], rtol=1e-5), mine
    weighted = 18 * ours["std"] + 0.7 * ours["std_time"] + 12 * ours["covariance"] + 0.2 * ours["alignment"]
    assert torch.allclose(ours["loss"], ours["prediction"] + weighted + ours["inverse"], rtol=1e-5)


def test_lewm_loss_is_prediction_plus_weighted_sigreg():
    torch.manual_seed(2)
    latents, predicted = torch.randn(32, 4, 8), torch.randn(32, 3, 8)
    directions = functional.normalize(torch.randn(8, 16), dim=0)
    losses = lewm_loss(latents, predicted, directions, weight=0.5)
    assert torch.allclose(losses["loss"], losses["prediction"] + 0.5 * losses["sigreg"])
    assert torch.allclose(losses["prediction"], (predicted - latents[:, 1:]).square().mean())
