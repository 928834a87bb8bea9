"""Everything computes on the model's device, tested on the meta device, where mixing devices is an error."""

import doctest
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import reachcost as rc
from reachcost.cli import main
from reachcost.commands.models import plan_change
from reachcost.core.devices import choose_device, defer_device_checks, device_of, refuse_if, use_device
from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import StandardisedL2, SubspaceCost
from reachcost.data.actions import ActionBlocks
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError
from reachcost.fitting.loop import Optimiser, run_epoch
from reachcost.peers.qrl_and_hilp import _Bootstrapped, _Pushed
from reachcost.worldmodels import jepa
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture, PublicParts

BLOCKS = ActionBlocks(mean=(0.0, 0.1), std=(1.0, 0.5), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)
SMALL = PublicArchitecture(image_size=28, encoder_depth=1, depth=2, heads=2, dim_head=8, mlp=32)
PARTS = {"compact": lambda: CompactParts(CompactArchitecture()), "public": lambda: PublicParts(SMALL)}
PLANNERS = {
    "paper": rc.CEM(iterations=2),
    "best": rc.CEM(iterations=2, execute="best", keep_elites=4, bounds="logs", correlation=0.5, least_deviation=0.1),
    "replanning": replace(rc.CEM.replanning(), iterations=2),
}


class Transfers(TorchDispatchMode):
    """Records copies between devices; reading a value of the meta device is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[torch.Size] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        given = [argument for argument in args if isinstance(argument, Tensor)]
        if name in ("_to_copy", "copy_") and len({tensor.device for tensor in [*given, result]}) > 1:
            self.copied.append(result.shape)
        return result


def planned(model: JepaWorldModel, cost: rc.TerminalCost, planner: rc.CEM) -> Tensor:
    context = torch.zeros(2, 1, model.latent_dim, device=model.device)
    goal = torch.zeros(2, model.latent_dim, device=model.device)
    return planner.plan(rc.PlanContext(model, cost, context, goal, EpisodeStreams(0, "plan", [0, 1], 0)))


def costs() -> dict[str, rc.TerminalCost]:
    probe = LinearProbe(torch.randn(192, 2), torch.zeros(2))
    return {
        "raw": rc.LatentMSE(),
        "head": rc.HeadCost(rc.heads.EmbeddingHead(192)),
        "pair": rc.HeadCost(rc.heads.PairHead(192, symmetric=True)),
        "hybrid": rc.HybridCost(rc.LatentMSE(), rc.HeadCost(rc.heads.EmbeddingHead(192))),
        "standardised": StandardisedL2(torch.ones(192)),
        "rowspace": SubspaceCost(probe),
    }


@pytest.mark.parametrize(
    ("name", "score", "parts"),
    [
        ("paper", "raw", "public"),
        ("paper", "head", "compact"),
        ("best", "head", "compact"),
        *(("replanning", score, "compact") for score in costs()),
    ],
)
def test_a_plan_copies_only_random_numbers(name: str, score: str, parts: str) -> None:
    planner, model = PLANNERS[name], JepaWorldModel(PARTS[parts](), BLOCKS, device="meta")
    cost = costs()[score]
    planned(model, cost, planner)  # tensors of the cost are copied once
    with Transfers() as transfers:
        plan = planned(model, cost, planner)
    assert (plan.device.type, plan.shape) == ("meta", (2, 5, 10))
    noise = [shape for shape in transfers.copied if len(shape) == 4]
    assert noise == [torch.Size((2, planner.candidates, 5, 10))] * planner.iterations
    assert all(shape.numel() <= 10 for shape in transfers.copied if len(shape) != 4)  # bounds of a block


class Walk:
    latent_dim, action_dim, device = 3, 1, torch.device("meta")

    def encode(self, observations: Any) -> Tensor:
        return torch.empty(len(observations["state"]), self.latent_dim, device=self.device)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        return context[:, -1, None] + actions.float().sum(2)


def test_plans_of_discrete_actions_stay_on_the_device() -> None:
    planner = rc.CategoricalCEM(actions=4, warm_start=True, keep_elites=3)
    here, goal = torch.zeros(2, 1, 3, device="meta"), torch.zeros(2, 3, device="meta")
    left, streams = torch.zeros(2, 11, 1, dtype=torch.long, device="meta"), EpisodeStreams(0, "plan", [0, 1], 0)
    with Transfers() as transfers:
        plan = planner.plan(rc.PlanContext(Walk(), rc.LatentMSE(), here, goal, streams, left=left))
    assert (plan.device.type, plan.shape) == ("meta", (2, 12, 1))
    assert transfers.copied == [torch.Size((2, 12, 256))] * planner.iterations


def test_custom_models_have_a_device() -> None:
    class Sum(Walk):
        latent_dim, action_dim = 2, 2

    blocks = ActionBlocks(mean=(0.0, 0.1), std=(1.0, 0.5), low=(-1.0, -1.0), high=(1.0, 1.0), length=1)
    model: Any = rc.with_actions(Sum(), blocks, units="environment")
    assert planned(model, rc.LatentMSE(), rc.CEM(candidates=8, elites=2)).device.type == "meta"


@pytest.mark.parametrize("parts", PARTS)
def test_frames_are_encoded_on_the_device(parts: str) -> None:
    model = JepaWorldModel(PARTS[parts](), BLOCKS, device="meta")
    side = model.parts.pixels
    latents = model.encode({"pixels": np.zeros((3, side, side, 3), np.uint8)})
    assert (latents.device.type, latents.shape) == ("meta", (3, 192))
    assert model.step(torch.zeros(700, 192), torch.zeros(700, 10)).device.type == "meta"


@pytest.mark.parametrize("head", [rc.heads.EmbeddingHead(12, hidden=8), rc.heads.PairHead(12, hidden=8)])
def test_an_epoch_of_fitting_stays_on_the_device_and_reads_no_value(head: nn.Module) -> None:
    recipe, trained = rc.Recipe(epochs=1, batch_size=16), head.to("meta")
    batches = [tuple(torch.zeros(16, *shape, device="meta") for shape in ((12,), (12,), ()))] * 3

    def losses(z: Tensor, goal: Tensor, target: Tensor) -> Tensor:
        return recipe.losses(trained.scaled(z, goal), target)  # pyright: ignore[reportCallIssue]

    with Transfers() as transfers:
        total = run_epoch(Optimiser(trained, recipe, 48), losses, batches)
    assert total.device.type == "meta"
    assert all(shape.numel() <= 1 for shape in transfers.copied)


needs_half_precision = pytest.mark.skipif("not jepa.half_precision_runs()", reason="this CPU has no half precision")


def test_half_precision_that_crashes_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some virtual machines advertise AMX and forbid it: the first product is an illegal instruction."""
    monkeypatch.setattr(jepa, "_TRIAL", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    monkeypatch.setattr(jepa, "half_precision_runs", jepa.half_precision_runs.__wrapped__)
    with pytest.raises(ReachcostError, match="this CPU"):
        rc.worldmodels.halved(rc.load_world_model("lewm-tworoom-3072"))
    assert doctest.testmod(jepa).failed == 0
    assert main(["check", "lewm-tworoom-3072", "--half", "--device", "cpu"]) == 1
    assert "half precision" in capsys.readouterr().err


@needs_half_precision
def test_half_precision_changes_plans_a_little() -> None:
    model, rng = rc.load_world_model("lewm-tworoom-3072"), torch.Generator().manual_seed(0)
    halved, pool = rc.worldmodels.halved(model), torch.randn(2, 40, 5, 10, generator=rng)
    start, goal = torch.randn(2, 2, 192, generator=rng)
    ends, others = (one.rollout(start[:, None], pool) for one in (model, halved))
    assert others.dtype == torch.float32
    assert not torch.equal(others, ends)
    torch.testing.assert_close(others, ends, atol=0.2, rtol=0.1)
    assert halved.fingerprint == model.fingerprint
    few = rc.CEM(candidates=40, iterations=2, elites=10)
    same, other = (plan_change(model, one, start, goal, few) for one in (model, halved))
    assert (same[0], same[1].max()) == (1, 0)
    assert 0.5 < other[0] <= 1
    assert 0 < other[1].mean() < 0.5


@needs_half_precision
def test_check_reports_half_precision(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(rc.CEM, candidates=8, elites=2)  # processors are slow at half precision
    monkeypatch.setattr("reachcost.planning.cem.CEM", few)
    assert main(["check", "lewm-tworoom-3072", "--half", "--device", "cpu"]) == 0
    assert "half precision" in capsys.readouterr().out


def test_auto_is_the_device_that_was_set() -> None:
    try:
        use_device("meta")
        assert choose_device("auto") == "meta"
        assert device_of(rc.load_world_model("lewm-tworoom-3072")).type == "meta"
    finally:
        use_device("auto")
    assert choose_device("auto") in ("cpu", "cuda")
    with pytest.raises(ReachcostError, match="abacus"):
        use_device("abacus")


def test_on_the_cpu_errors_are_raised_at_once() -> None:
    def refusal() -> Any:
        raise ReachcostError("wrong")

    with defer_device_checks():
        refuse_if(torch.tensor(False), refusal)
        with pytest.raises(ReachcostError, match="wrong"):
            refuse_if(torch.tensor(True), refusal)
    refuse_if(torch.tensor(True, device="meta"), refusal)


def test_objectives_of_every_fit_stay_on_the_device() -> None:
    there = torch.device("meta")
    latents, gaps = torch.zeros(16, 12, device=there), torch.zeros(16, device=there)
    recipe = rc.Recipe(head="euclidean", hidden=8)
    head, blocks = recipe.build(12).to(there), torch.zeros(16, 10, device=there)
    found = [
        _Pushed(head, recipe, 1, 10.0, 0.1).loss(latents, latents, latents),
        _Bootstrapped(head, recipe, 1, 0.98, 0.05).loss(latents, latents, latents),
        rc.heads.BudgetHead(12, 4, 8, 5.0).to(there).losses(latents, latents, gaps).mean(),
        rc.heads.InverseDynamics(12, 10, False, 8, 1).to(there).losses(latents, latents, blocks).mean(),
    ]
    assert {loss.device for loss in found} == {there}
    found[0].backward()
