"""Fingerprints of world models: equal for equal weights, different for others, none without weights."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import reachcost as rc
from reachcost.data.models import name_of
from reachcost.errors import ReachcostWarning
from reachcost.protocols import Observations
from reachcost.tasks.tworoom import Layout, TwoRoom

pytestmark = pytest.mark.processor


class Own:
    latent_dim, action_dim = 2, 2

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    def encode(self, observations: Observations) -> Tensor:
        return torch.as_tensor(observations["state"]).float()

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        raise NotImplementedError

    @cached_property
    def remembered(self) -> int:
        return 7


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(2, 2)


class Net(nn.Module):
    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.layer, self.gain = linear(), gain
        self.register_buffer("mean", torch.full((2,), gain), persistent=False)


PAIRS = {
    "weights": (lambda: Own(net=linear(0)), lambda: Own(net=linear(1))),
    "a tensor": (lambda: Own(w=torch.ones(2)), lambda: Own(w=torch.zeros(2))),
    "half precision": (lambda: Own(w=torch.ones(2).bfloat16()), lambda: Own(w=torch.ones(2).half())),
    "a scalar": (lambda: Own(w=torch.tensor(1.0)), lambda: Own(w=torch.tensor(2.0))),
    "an array": (lambda: Own(w=np.ones((2, 3))), lambda: Own(w=np.ones((3, 2)))),
    "a setting": (lambda: Own(net=linear(), scale=1.0), lambda: Own(net=linear(), scale=2.0)),
    "a tuple": (lambda: Own(net=linear(), sizes=(1, 2)), lambda: Own(net=linear(), sizes=(1, 3))),
    "deep inside": (lambda: Own(parts={"a": [linear(0)]}), lambda: Own(parts={"a": [linear(1)]})),
    "deep attributes": (lambda: Own(a=Own(b=Own(c=Own(d=linear(0))))), lambda: Own(a=Own(b=Own(c=Own(d=linear(1)))))),
    "its name": (lambda: Own(net=linear()), lambda: Own(other=linear())),
    "its class": (lambda: Own(net=linear()), lambda: type("Other", (Own,), {})(net=linear())),
    "a setting of a module": (lambda: Net(1.0), lambda: Net(2.0)),
    "a buffer": (lambda: Own(net=Net(1.0)), lambda: Own(net=Net(2.0))),
}


@pytest.mark.parametrize("what", PAIRS)
def test_models_that_differ_have_different_fingerprints(what: str) -> None:
    one, other = PAIRS[what]
    assert rc.data.fingerprint_of(one()) == rc.data.fingerprint_of(one()) != rc.data.fingerprint_of(other())


def test_modes_and_caches_do_not_change_the_fingerprint() -> None:
    model = Own(net=linear().eval())
    before = rc.data.fingerprint_of(model)
    assert model.remembered == 7
    model.net.train().requires_grad_(False)  # pyright: ignore[reportAttributeAccessIssue]
    assert rc.data.fingerprint_of(model) == before


@pytest.mark.parametrize("model", [Own(), Own(scale=3.0, name="x"), Own(kind=Own, call=len)])
def test_models_without_weights_have_no_fingerprint(model: Own) -> None:
    assert rc.data.fingerprint_of(model) is None


def test_the_attribute_fingerprint_has_priority() -> None:
    assert rc.data.fingerprint_of(Own(net=linear(), fingerprint="mine-1")) == "mine-1"
    assert rc.data.fingerprint_of(Own(net=linear(), fingerprint=None)) is None
    lewm = rc.load_world_model("lewm-tworoom-3072")
    assert rc.data.fingerprint_of(lewm) == lewm.fingerprint


def test_names_are_short_and_without_addresses() -> None:
    assert [name_of(model) for model in (Own(), Net(), rc.tasks.ExactTopoNav())] == ["Own", "Net", "ExactTopoNav()"]


def test_fingerprints_of_exact_dynamics() -> None:
    class Scaled(rc.tasks.ExactDynamics):
        def __init__(self, task: rc.Task, actions: rc.ActionBlocks, scale: float) -> None:
            super().__init__(task, actions)
            self.scale = scale

    def blocks(length: int = 5) -> rc.ActionBlocks:
        return rc.ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length)

    task, moved = TwoRoom(), TwoRoom(Layout(doors=((150.0, 14.0),)))
    models = [
        rc.tasks.ExactDynamics(task, blocks()),
        rc.tasks.ExactDynamics(moved, blocks()),
        rc.tasks.ExactDynamics(task, blocks(4)),
        Scaled(task, blocks(), 1.0),
        Scaled(task, blocks(), 2.0),
    ]
    assert len({rc.data.fingerprint_of(model) for model in models}) == len(models)
    assert rc.data.fingerprint_of(rc.tasks.ExactDynamics(TwoRoom(), blocks())) == rc.data.fingerprint_of(models[0])


def test_latents_are_cached_for_models_with_weights_only(tmp_path: Path) -> None:
    logs = TwoRoom().generate_logs(4)
    found = rc.encode_logs(Own(net=linear()), logs, cache=tmp_path)
    assert found.model["name"] == "Own"
    assert list(tmp_path.rglob("latents.npy"))
    with pytest.warns(ReachcostWarning, match="Own has no `fingerprint`") as said:
        assert rc.encode_logs(Own(), logs, cache=tmp_path).model == {}
    assert len(said) == 1
    assert rc.encode_logs(Own(), logs, cache=False).model == {}  # nothing was to be kept, so nothing is said
