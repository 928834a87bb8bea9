"""Recorded and replayed rollouts: the same bits, and never those of other weights."""

import copy
import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

import reachcost as rc
from reachcost.core.parallel import MOST, Traced
from reachcost.worldmodels import jepa
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import Parts, predicted_path, rolled_out
from reachcost.worldmodels.public import PublicArchitecture, PublicParts

pytestmark = pytest.mark.processor

SMALL = PublicArchitecture(image_size=28, encoder_depth=1, depth=2, heads=2, dim_head=8, mlp=32, history=3)


def pool(parts: Parts, episodes: int = 2, candidates: int = 70) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    context = torch.randn(episodes, 1, parts.latent_dim, generator=random)
    return context, torch.randn(episodes, candidates, 5, 10, generator=random)


def frozen(parts: Parts) -> Parts:
    torch.manual_seed(0)
    for weight in parts.parameters():
        nn.init.normal_(weight, std=0.05)
    return parts.eval().requires_grad_(False)


PARTS = {"compact": lambda: CompactParts(CompactArchitecture()), "public": lambda: PublicParts(SMALL)}


@pytest.mark.parametrize("name", PARTS)
@torch.no_grad()
def test_replayed_rollouts_equal_those_of_the_parts(name: str) -> None:
    parts = frozen(PARTS[name]())
    context, blocks = pool(parts)
    for full_path in (False, True):
        for _ in range(5):
            found = rolled_out(parts, context, blocks, full_path)
            piece = predicted_path(parts, context[1].repeat(35, 1, 1), blocks[1, :35])
            assert torch.equal(found[1, :35], torch.stack(piece, dim=1) if full_path else piece[-1])
    recordings = jepa._TRACED[parts]._recordings
    assert len(recordings) == 2
    assert None not in recordings.values()  # both were replayed


@torch.no_grad()
def test_changed_weights_are_recorded_again() -> None:
    parts = frozen(PARTS["compact"]())
    context, blocks = pool(parts)
    before = rolled_out(parts, context, blocks)
    changed = {name: 1.5 * tensor for name, tensor in parts.state_dict().items()}
    for assign in (False, True):
        parts.load_state_dict(changed, assign=assign)
        found = rolled_out(parts, context, blocks)
        fresh = rolled_out(copy.deepcopy(parts), context, blocks)
        assert torch.equal(found, fresh)
        assert not torch.equal(found, before)
        changed = {name: 0.5 * tensor for name, tensor in parts.state_dict().items()}


def test_gradients_reach_candidates() -> None:
    parts = frozen(PARTS["compact"]())
    context, blocks = pool(parts)
    rolled_out(parts, context, blocks.requires_grad_()).sum().backward()
    assert blocks.grad is not None
    assert blocks.grad.abs().sum() > 0


@torch.no_grad()
def test_functions_that_differ_when_replayed_are_called_directly() -> None:
    traced, calls = Traced(), []

    def counting(x: Tensor) -> Tensor:
        calls.append(1)
        return x + len(calls)

    follow = traced.recorded("counting", counting, torch.zeros(1))
    assert follow is counting
    for size in range(2 * MOST):
        traced.recorded("plain", lambda x: x + 1, torch.zeros(size))
    assert len(traced._recordings) <= MOST


def test_recordings_are_freed_with_their_model() -> None:
    parts = frozen(PARTS["compact"]())
    with torch.no_grad():
        rolled_out(parts, *pool(parts))
    gone = weakref.ref(parts)
    del parts
    gc.collect()
    assert gone() is None


def test_flops_are_counted_with_recordings() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model = rc.load_world_model("lewm-tworoom-3072")
    context, blocks = pool(model.parts, 1, 10)
    with FlopCounterMode(display=False) as first:
        model.rollout(context, blocks)
    model.rollout(context, blocks)
    with FlopCounterMode(display=False) as second:
        model.rollout(context, blocks)
    assert first.get_total_flops() == second.get_total_flops() > 0
