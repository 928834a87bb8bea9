"""World models of users: `with_actions`, and errors for missing or wrong parts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import reachcost as rc
from reachcost.errors import ReachcostError
from reachcost.planning.control import require_actions, require_planner
from reachcost.protocols import Observations
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom

made: Any = rc.with_actions  # untyped, as some arguments are wrong on purpose
SHORT = rc.CEM(horizon=3, candidates=30, iterations=2, elites=5)


class Walk:
    """Positions of TwoRoom as latents; a step is five pixels, walls are unknown."""

    latent_dim = 2

    def __init__(self, length: int = 5) -> None:
        self.action_dim = 2 * length
        self.weight = torch.full((1,), 5.0)

    def encode(self, observations: Observations) -> Tensor:
        return torch.as_tensor(observations["state"]).float()

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        steps = actions.unflatten(-1, (-1, 2)).clamp(-1, 1).sum((2, 3))
        return context[:, -1, None] + self.weight * steps


@pytest.fixture(scope="module")
def logs(world: TwoRoom) -> rc.Logs:
    return world.generate_logs(episodes=30)


@pytest.fixture(scope="module")
def goals(world: TwoRoom) -> rc.EvaluationSet:
    return world.evaluation_set("balanced").subset(slice(0, 4))


def test_a_model_with_actions_plans(world: TwoRoom, logs: rc.Logs, goals: rc.EvaluationSet) -> None:
    model = rc.with_actions(Walk(), logs, length=5, units="environment")
    assert isinstance(model, rc.WorldModel)
    assert (model.latent_dim, model.action_dim, model.actions) == (2, 10, rc.ActionBlocks.of(logs, 5))
    actions = torch.randn(2, 4, 3, 10, generator=torch.Generator().manual_seed(0))
    rc.check_world_model(model, world.observe(goals.starts[:2]), actions)
    room = goals.subset(world.groups(goals.starts, goals.goals)["same room"])
    costs = {"raw": rc.LatentMSE()}
    assert rc.control(world, model, costs, room, rc.CEM(candidates=60, iterations=4, elites=8)).success.all()
    assert rc.sasc(world, model, costs, room).rankings["raw"].spearman.mean() > 0.9


def test_heads_are_matched_with_the_wrapped_model(world: TwoRoom, logs: rc.Logs, goals: rc.EvaluationSet) -> None:
    bare, other = Walk(), Walk()
    other.weight = torch.full((1,), 4.0)
    pairs = rc.labels.TemporalPairs(rc.encode_logs(bare, logs), count=200, validation=20)
    head = rc.fit(pairs, rc.Recipe(hidden=8, epochs=1))
    assert head.record["pairs"]["model"] == {"name": "Walk", "sha256": rc.data.fingerprint_of(bare)}
    costs = {"trm": rc.HeadCost(head)}
    rc.control(world, rc.with_actions(bare, logs, 5), costs, goals, SHORT)
    with pytest.raises(ReachcostError, match="was trained on latents of Walk"):
        rc.control(world, rc.with_actions(other, logs, 5), costs, goals, SHORT)


def test_actions_are_clamped_and_converted_to_units(logs: rc.Logs) -> None:
    blocks = rc.ActionBlocks((0.0, 1.0), (1.0, 2.0), (-1.0, -1.0), (1.0, 1.0), length=1)
    seen: list[list[float]] = []

    class Watched(Walk):
        def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
            seen.append(actions.flatten().tolist())
            return super().rollout(context, actions)

    for options in ({}, {"clamp": False}, {"units": "environment"}, {"clamp": False, "units": "environment"}):
        model = made(Watched(1), blocks, **options)
        model.rollout(torch.zeros(1, 1, 2), torch.tensor([[[[4.0, -4.0]]]]))
    assert seen == [[1.0, -1.0], [4.0, -4.0], [1.0, -1.0], [4.0, -7.0]]


@pytest.mark.parametrize(
    ("model", "arguments", "named"),
    [
        (Walk(), (), "length=5"),
        (Walk(), (3,), "length=5"),
        (Walk(), (2.5,), "length"),
        (Walk(), (5, "raw"), "units is 'raw'"),
        (Walk, (5,), "the class Walk"),
        (nn.Linear(2, 2), (5,), "latent_dim"),
    ],
)
def test_wrong_arguments_are_refused(logs: rc.Logs, model: Any, arguments: tuple[Any, ...], named: str) -> None:
    options = dict(zip(("length", "units"), arguments, strict=False))
    with pytest.raises(ReachcostError, match=named):
        made(model, logs, **options)


def test_wrong_logs_are_refused(logs: rc.Logs) -> None:
    flat = rc.Logs({"action": np.asarray(logs.columns["action"])[:, 0]}, logs.lengths)
    for model, given, named in (
        (Walk(), "logs.h5", "logs.h5"),
        (Walk(), flat, "'action'"),
        (made(Walk(), logs, 5), logs, "actions"),
    ):
        with pytest.raises(ReachcostError, match=named):
            made(model, given, 5)


def test_a_model_without_actions_is_refused_with_the_line_to_add(world: TwoRoom, goals: rc.EvaluationSet) -> None:
    costs, pools = {"raw": rc.LatentMSE()}, np.zeros((4, 5, 2, 10), np.float32)
    for length, call in (
        (5, lambda: rc.control(world, Walk(), costs, goals, SHORT)),
        (5, lambda: rc.control(world, Walk(), costs, goals, rc.planning.RandomPolicy())),
        (5, lambda: rc.sasc(world, Walk(), costs, goals)),
        (5, lambda: rc.sasc(world, Walk(), costs, goals, pools)),
        (3, lambda: require_actions(world, Walk(3))),
    ):
        with pytest.raises(ReachcostError, match=rf"rc.with_actions\(model, logs, length={length}"):
            call()


def test_blocks_that_do_not_fit_the_task_are_refused(world: TwoRoom, task: TopoNav, model: ExactTopoNav) -> None:
    narrow = rc.ActionBlocks((0.0,), (1.0,), (-1.0,), (1.0,), length=5)
    for given, blocks, size, named in (
        (world, narrow, 5, "actions of tworoom have 2"),
        (world, narrow, 10, "blocks of 5"),
        (world, 5, 10, "ActionBlocks"),
        (task, narrow, 5, "has action blocks"),
        (task, None, 10, "action_dim 10"),
    ):
        walk: Any = Walk()
        walk.actions, walk.action_dim = blocks, size
        with pytest.raises(ReachcostError, match=named):
            require_actions(given, walk)
    assert require_actions(task, model) is None


def test_the_size_of_actions_is_read_from_logs_by_default(world: TwoRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TwoRoom, "action_dim", None)
    narrow = rc.ActionBlocks((0.0,), (1.0,), (-1.0,), (1.0,), length=5)
    with pytest.raises(ReachcostError, match="actions of tworoom have 2"):
        require_actions(world, rc.tasks.ExactDynamics(world, narrow))


def test_planners_of_other_actions_are_refused(
    world: TwoRoom, task: TopoNav, model: ExactTopoNav, evaluation: rc.EvaluationSet
) -> None:
    with pytest.raises(ReachcostError, match=r"CategoricalCEM\(actions=5\)"):
        rc.control(task, model, {"raw": rc.LatentMSE()}, evaluation, rc.CEM())
    with pytest.raises(ReachcostError, match=r"rc.CEM\(\)"):
        require_planner(world, rc.CategoricalCEM())
    for planner in (rc.CategoricalCEM(actions=3), rc.planning.RandomPolicy(actions=3)):
        with pytest.raises(ReachcostError, match="actions=5"):
            require_planner(task, planner)
    require_planner(world, rc.planning.RandomPolicy(actions=3))


WRONG: dict[str, tuple[str, Callable[[Tensor], object]]] = {
    "too few candidates": ("rollout", lambda ends: ends[:, 1:]),
    "too few episodes": ("rollout", lambda ends: ends[1:]),
    "a narrower latent": ("rollout", lambda ends: ends[..., :1]),
    "no tensor": ("rollout", lambda ends: ends.numpy()),
    "a full path": ("rollout", lambda ends: ends[:, :, None]),
    "narrow latents": ("encode", lambda latents: latents[:, :1]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_shape_is_reported_with_the_model(
    world: TwoRoom, logs: rc.Logs, goals: rc.EvaluationSet, case: str
) -> None:
    (method, change), wrong = WRONG[case], Walk()
    right = getattr(wrong, method)
    setattr(wrong, method, lambda *given: change(right(*given)))
    model, costs = rc.with_actions(wrong, logs, 5), {"raw": rc.LatentMSE()}
    for call in (lambda: rc.control(world, model, costs, goals, SHORT), lambda: rc.sasc(world, model, costs, goals)):
        with pytest.raises(ReachcostError, match=rf"`{method}` of the world model Walk"):
            call()
