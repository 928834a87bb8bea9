"""World models: the TopoNav features and exact dynamics, and the contract checker."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reachcost.data.actions import ActionBlocks
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations, WorldModel
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost.worldmodels.custom import check_world_model


def test_features_are_the_papers_ten_numbers(model: ExactTopoNav) -> None:
    latent = model.encode({"state": np.array([[14, 7]])})[0].double().numpy()
    quarter, half = np.pi / 4, np.pi / 2
    expected = [0.5, 0.25, 0.25, 0.25 * np.sin(quarter), 0, 0.25 * np.cos(quarter), 0, 0.12 * np.sin(half), 0.04, 0]
    np.testing.assert_allclose(latent, expected, atol=1e-7)


def test_rollouts_follow_the_simulator(model: ExactTopoNav, task: TopoNav) -> None:
    rng = np.random.default_rng(0)
    for horizon in (1, 2, 5, 12):
        starts = task.cells[rng.integers(677, size=20)]
        actions = rng.integers(5, size=(20, 30, horizon, 1))
        here = np.repeat(starts, 30, axis=0)
        for t in range(horizon):
            here = task.step(here, actions.reshape(600, horizon, 1)[:, t])
        terminal = model.rollout(model.encode({"state": starts})[:, None], torch.from_numpy(actions))
        assert torch.equal(terminal.reshape(600, 10), model.encode({"state": here}))


def test_foreign_latents_columns_and_actions_are_refused(model: ExactTopoNav) -> None:
    wait = torch.zeros(1, 2, 3, 1, dtype=torch.long)
    for value in (0.5, 77.0, torch.nan):
        with pytest.raises(ReachcostError, match="TopoNav features"):
            model.rollout(torch.full((1, 1, 10), value), wait)
    with pytest.raises(ReachcostError, match="proprio"):
        model.encode({"proprio": np.zeros((1, 2))})
    with pytest.raises(ReachcostError, match="0 to 4"):
        model.rollout(model.latents[:1, None], wait + 9)


class Linear(nn.Module):
    """A minimal honest world model on vectors."""

    latent_dim = 4
    action_dim = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))
        self.norm = nn.BatchNorm1d(4)

    @torch.no_grad()
    def encode(self, observations: Observations) -> Tensor:
        return self.norm(torch.as_tensor(observations["vector"], dtype=torch.float32) @ self.weight)

    @torch.no_grad()
    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        return context[:, -1, None] + actions.sum((2, 3))[..., None]


def frozen() -> Linear:
    return Linear().eval().requires_grad_(False)


VECTORS = {"vector": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
ACTIONS = torch.randn(3, 5, 2, 2, generator=torch.Generator().manual_seed(0))


def test_honest_models_pass(model: ExactTopoNav, task: TopoNav) -> None:
    check_world_model(frozen(), VECTORS, ACTIONS)
    check_world_model(model, task.observe(task.cells[:3]), torch.randint(5, (3, 8, 12, 1)))
    assert isinstance(model, WorldModel)


def broken(name: str, function: Callable[..., object]) -> WorldModel:
    honest = frozen()
    parts = {"encode": honest.encode, "rollout": honest.rollout, name: function}
    return SimpleNamespace(latent_dim=4, action_dim=2, **parts)  # pyright: ignore[reportReturnType]


HONEST = frozen()
BROKEN = {
    "returned shape": broken("encode", lambda o: HONEST.encode(o)[:, :3]),
    "non-finite": broken("encode", lambda o: HONEST.encode(o) * torch.nan),
    "different results for the same input": broken("encode", lambda o: HONEST.encode(o) + torch.rand(1)),
    "encode of a row changes with the other rows": broken("encode", lambda o: HONEST.encode(o) + len(o["vector"])),
    "same latent": broken("encode", lambda o: torch.zeros(len(o["vector"]), 4)),
    "builds a gradient graph": broken("encode", lambda o: HONEST.encode(o).requires_grad_()),
    "encode of a row changes with": broken("encode", lambda o: HONEST.encode(o) - HONEST.encode(o)[:1] / 2),
    "rollout of a row changes": broken("rollout", lambda c, a: HONEST.rollout(c, a) - c[:1, :1] / 2),
    "rollout of a candidate changes with": broken("rollout", lambda c, a: HONEST.rollout(c, a) - a[:, :1, 0, :1]),
    "rollout of a candidate changes": broken("rollout", lambda c, a: HONEST.rollout(c, a) + a.shape[1]),
    "returned ndarray": broken("rollout", lambda c, a: HONEST.rollout(c, a).numpy()),
    "for all actions": broken("rollout", lambda c, a: c[:, -1, None].expand(-1, a.shape[1], -1)),
    r"returned torch.int64: return float32": broken("encode", lambda o: HONEST.encode(o).long()),
    "rollout failed on a batch": broken("rollout", lambda c, a: c @ a),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_model_is_refused_with_its_fault(message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        check_world_model(BROKEN[message], VECTORS, ACTIONS)


def with_attribute(name: str, value: object) -> Any:
    model: Any = broken("encode", HONEST.encode)
    setattr(model, name, value)
    return model


NARROW = ActionBlocks((0.0,), (1.0,), (-1.0,), (1.0,), length=3)
UNFIT: dict[str, tuple[Any, Any, Tensor]] = {
    "train mode": (Linear(), VECTORS, ACTIONS),
    "in train mode": (with_attribute("parts", [Linear()]), VECTORS, ACTIONS),
    "require gradients": (Linear().eval(), VECTORS, ACTIONS),
    "`latent_dim` is None": (SimpleNamespace(), VECTORS, ACTIONS),
    "action_dim": (with_attribute("actions", NARROW), VECTORS, ACTIONS),
    "the class Linear": (Linear, VECTORS, ACTIONS),
    "actions of shape": (HONEST, VECTORS, ACTIONS[..., :1]),
    "got actions of shape": (HONEST, VECTORS, ACTIONS[0, 0, 0]),
    "observations of type ndarray": (HONEST, VECTORS["vector"], ACTIONS),
    "at least two observations": (HONEST, {}, ACTIONS),
}


@pytest.mark.parametrize("named", UNFIT)
def test_unfrozen_models_and_wrong_arguments_are_refused(named: str) -> None:
    with pytest.raises(ReachcostError, match=named):
        check_world_model(*UNFIT[named])
