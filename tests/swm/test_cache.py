"""Models of the real stable-worldmodel that plan with a head: the same costs as by their own code, with less work."""

import copy
import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from stable_worldmodel import solver as solvers
from stable_worldmodel.wm.lewm.lewm import LeWM
from torch import Tensor, nn
from transformers import ViTModel

from reachcost.core.parallel import reserve_threads
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import PairHead
from reachcost.swm import RepairedModel, SwmModel
from reachcost.swm.cache import FEW, FoldedModel
from reachcost.swm.evaluation import silence
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public_predictor import Predictor
from tests.swm.test_plugin import configured
from tests.swm.test_public_checkpoints import CONFIGS, SIZE, config_tree, real_model

SAMPLES, HORIZON = 40, 5  # more candidates than fit into one piece
FAMILIES = ["lewm", "pldm"]


def random_head() -> LearnedHead:
    torch.manual_seed(3)
    return PairHead(24, hidden=8).eval()


def info(episodes: int, seed: int = 0, samples: int = SAMPLES) -> dict[str, Tensor]:
    """What a solver gives to a model, with frames as the policy's `transform` leaves them."""
    start, goal = torch.randn(2, episodes, 1, 1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
    found = {"pixels": start, "goal": goal, "action": torch.zeros(episodes, 1, 1, 2)}
    return {key: value.expand(-1, samples, *value.shape[2:]) for key, value in found.items()}


def pool(episodes: int, samples: int = SAMPLES) -> Tensor:
    return torch.randn(episodes, samples, HORIZON, 10, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def wanted(theirs: Any, given: dict[str, Tensor], candidates: Tensor) -> Tensor:
    """Costs of the head for the predictions of their own rollout, each episode alone [B, S]."""
    costs = []
    for episode in range(len(candidates)):
        own = {key: value[episode : episode + 1] for key, value in given.items()}
        goal = theirs.encode({"pixels": own["goal"][:, 0]})["emb"]
        ends = theirs.rollout(own, candidates[episode : episode + 1].clone())["predicted_emb"][:, :, -1]
        costs.append(random_head()(ends, goal))
    return torch.cat(costs)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of frames in each call of an encoder of theirs."""
    forward, calls = ViTModel.forward, []

    def watched(self: Any, pixel_values: Tensor, **options: Any) -> Any:
        calls.append(len(pixel_values))
        return forward(self, pixel_values, **options)

    monkeypatch.setattr(ViTModel, "forward", watched)
    return calls


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every prediction by folded parts."""
    forward, calls = Predictor.forward, []

    def watched(self: Any, *given: Any) -> Any:
        calls.append(1)
        return forward(self, *given)

    monkeypatch.setattr(Predictor, "forward", watched)
    return calls


def plan(model: Any, given: dict[str, Tensor], batch: int, name: str = "CEMSolver", **options: Any) -> Tensor:
    """A plan of their solver [B, H, A]."""
    solver = configured(getattr(solvers, name)(model, batch_size=batch, n_steps=3, **options), len(given["pixels"]))
    with silence():
        return solver.solve({key: value[:, 0] for key, value in given.items()})["actions"]


@pytest.mark.parametrize("episodes", [1, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_costs_are_those_of_their_own_rollout(name: str, episodes: int, folded: list[int]) -> None:
    theirs, given, candidates = real_model(CONFIGS[name]), info(episodes), pool(episodes)
    model = RepairedModel(copy.deepcopy(theirs), random_head())
    expected = wanted(theirs, given, candidates)
    assert expected.std(1).min() > 1e-3  # candidates differ
    torch.testing.assert_close(model.get_cost(given, candidates), expected, rtol=0, atol=1e-4)
    with torch.inference_mode(), reserve_threads():
        torch.testing.assert_close(model.get_cost(given, candidates), expected, rtol=0, atol=1e-4)
    assert folded


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_encodes_its_start_and_its_goal_once(family: str, encoded: list[int]) -> None:
    model = RepairedModel(real_model(config_tree(family)), random_head())
    plan(cast(Any, model), info(3), batch=1, num_samples=8, topk=3)
    assert encoded == [1] * 6
    plan(cast(Any, model), info(3, seed=1), batch=3, num_samples=8, topk=3)
    assert encoded[6:] == [3, 3]


@pytest.mark.parametrize("family", FAMILIES)
def test_latents_belong_to_their_frames(family: str) -> None:
    theirs, candidates = real_model(config_tree(family)), pool(3, 4)
    model, first, second = RepairedModel(theirs, random_head()), info(3, 0, 4), info(3, 1, 4)
    nearly = {key: value.clone() for key, value in first.items()}
    nearly["goal"][2, :, 0, 0, 0, 0] += 30  # one number of one goal
    reversed_ = {key: value.flip(0) for key, value in first.items()}
    cases = [first, second, reversed_, nearly, {**first, "goal": second["goal"]}]
    expected = [wanted(theirs, given, candidates) for given in cases]
    for number in [0, 1, 0, 2, 3, 0, 4, 2, 3]:
        torch.testing.assert_close(model.get_cost(cases[number], candidates), expected[number], rtol=0, atol=1e-4)
    for number in (1, 0):  # the same tensors with other frames
        for key in ("pixels", "goal"):
            nearly[key].copy_(cases[number][key])
        torch.testing.assert_close(model.get_cost(nearly, candidates), expected[number], rtol=0, atol=1e-4)
    assert len(model._folded._kept) <= FEW


def by_optimiser(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = 0.1 * torch.ones_like(parameter)
    torch.optim.SGD(model.parameters(), lr=0.5).step()


def by_state_dict(model: nn.Module, assign: bool = False) -> None:
    model.load_state_dict({key: value * 1.1 for key, value in model.state_dict().items()}, assign=assign)


def by_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(1.1)


def by_another_layer(model: Any) -> None:
    model.predictor.transformer.layers[1] = copy.deepcopy(model.predictor.transformer.layers[0])


def by_a_hook(model: Any) -> None:
    model.predictor.register_forward_hook(lambda module, given, found: 0.5 * found)


CHANGES: dict[str, Callable[[Any], object]] = {
    "optimiser": by_optimiser,
    "load_state_dict": by_state_dict,
    "load_state_dict, assign": lambda model: by_state_dict(model, assign=True),
    "data": by_data,
    "some rows": lambda model: model.predictor.transformer.layers[0].mlp.net[1].weight.data[1:].mul_(3.0),
    "running statistics": lambda model: model.pred_proj.net[1].running_mean.add_(0.5),
    "encoder alone": lambda model: by_data(model.encoder),
    "another activation": lambda model: setattr(model.pred_proj.net, "2", nn.ReLU()),
    "another layer": by_another_layer,
    "a hook": by_a_hook,
    "a shorter window": lambda model: setattr(model.predictor, "num_frames", 2),
    "another epsilon": lambda model: setattr(model.predictor.transformer.norm, "eps", 10.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_is_folded_again(name: str) -> None:
    theirs, given, candidates = real_model(config_tree()), info(1, 0, 4), pool(1, 4)
    model = RepairedModel(theirs, random_head())
    before = expected = model.get_cost(given, candidates)
    for _ in range(2):
        CHANGES[name](theirs)
        expected = wanted(theirs, given, candidates)
        torch.testing.assert_close(model.get_cost(given, candidates), expected, rtol=0, atol=1e-4)
    assert (expected - before).abs().max() > 1e-3


def test_other_precisions_are_rolled_out_by_the_model() -> None:
    theirs, given, candidates = real_model(config_tree()), info(1, 0, 4), pool(1, 4)
    model = RepairedModel(theirs, random_head())
    before = model.get_cost(given, candidates)
    theirs.double()
    with pytest.raises(RuntimeError):  # their action encoder reads float32 alone
        model.get_cost(given, candidates)
    theirs.half().float()
    torch.testing.assert_close(model.get_cost(given, candidates), before, rtol=0, atol=1e-2)


class Own(LeWM):
    """Predicts with other actions."""

    def rollout(self, info: Any, action_sequence: Tensor, history_size: Any = None) -> Any:
        return super().rollout(info, 0.5 * action_sequence, history_size)


class WithPosition(LeWM):
    """Reads more than frames."""

    def encode(self, info: Any) -> Any:
        found = super().encode(info)
        return {**found, "emb": found["emb"] + info["position"][..., None]}


def foreign_class(cls: type[LeWM]) -> Any:
    theirs = real_model(config_tree())
    names = ("encoder", "predictor", "action_encoder", "projector", "pred_proj")
    return cls(**{name: getattr(theirs, name) for name in names}).eval()


def patched(owner: Any, name: str) -> None:
    """Replace a method on the instance by one that returns something else."""
    method = getattr(owner, name)
    setattr(owner, name, lambda *given: method(given[0], 2 * given[1]) if len(given) > 1 else 2 * method(*given))


REPLACED: dict[str, Callable[[Any], object]] = {
    "another projector": lambda model: setattr(model.pred_proj, "net", nn.Sequential(nn.Linear(24, 24))),
    "method": lambda model: patched(model, "rollout"),
    "method inside": lambda model: patched(model.predictor.transformer.layers[0].attn, "forward"),
}


@pytest.mark.parametrize("name", ["subclass", *REPLACED])
def test_models_that_differ_are_rolled_out_by_their_own_code(name: str) -> None:
    theirs, given, candidates = foreign_class(Own), info(2, 0, 4), pool(2, 4)
    if name in REPLACED:
        theirs = real_model(config_tree())
        REPLACED[name](theirs)
    model = RepairedModel(theirs, random_head())
    assert model._folded.rollout(theirs, given, candidates) is None
    expected = wanted(theirs, given, candidates)
    torch.testing.assert_close(model.get_cost(given, candidates), expected, rtol=0, atol=1e-4)


def test_other_inputs_of_a_model_are_read_at_every_call() -> None:
    model, candidates = RepairedModel(foreign_class(WithPosition), random_head()), pool(1, 4)
    given = {**info(1, 0, 4), "position": torch.zeros(1, 4, 1), "goal_position": torch.zeros(1, 4, 1)}
    before = model.get_cost(given, candidates)
    assert (model.get_cost({**given, "goal_position": torch.ones(1, 4, 1)}, candidates) - before).abs().min() > 1e-3


def test_a_model_in_training_is_not_folded(folded: list[int]) -> None:
    theirs = real_model(config_tree())
    model = RepairedModel(theirs, random_head())
    theirs.predictor.train()
    model.get_cost(info(1, 0, 4), pool(1, 4))
    assert not folded
    theirs.eval()
    model.get_cost(info(1, 0, 4), pool(1, 4))
    assert folded


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_reach_the_candidates_as_through_their_own_rollout(family: str, folded: list[int]) -> None:
    theirs, given, head = real_model(config_tree(family)), info(2, 0, 4), random_head()
    model = RepairedModel(copy.deepcopy(theirs), head)
    with torch.inference_mode():
        model.get_cost(given, pool(2, 4))  # as CEM does
    candidates = pool(2, 4).requires_grad_()
    goal = theirs.encode({"pixels": given["goal"][:, 0]})["emb"].detach()
    ends = theirs.rollout(dict(given), candidates)["predicted_emb"][:, :, -1]
    (expected,) = torch.autograd.grad(head(ends, goal).sum(), candidates)
    (gradient,) = torch.autograd.grad(model.get_cost(given, candidates).sum(), candidates)
    assert folded
    assert expected.abs().sum((2, 3)).min() > 1e-4
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("name", "options"), [("GradientSolver", {}), ("MPPISolver", {"topk": 3})])
def test_other_solvers_plan_after_cem(name: str, options: dict[str, Any], encoded: list[int]) -> None:
    model, given = cast(Any, RepairedModel(real_model(config_tree()), random_head())), info(2)
    for batch in (2, 1):
        plan(model, given, batch, num_samples=8, topk=3)
        assert plan(model, given, batch, name, num_samples=8, **options).shape == (2, HORIZON, 10)
    assert encoded == [2, 2, 1, 1, 1, 1]


def test_copies_have_their_own_weights() -> None:
    theirs, given, candidates = real_model(config_tree()), info(1, 0, 4), pool(1, 4)
    model = RepairedModel(theirs, random_head())
    before, names = model.get_cost(given, candidates), set(model.state_dict())
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    by_data(theirs)
    assert (model.get_cost(given, candidates) - before).abs().max() > 1e-3
    for other in copies:
        assert isinstance(other._folded, FoldedModel)
        assert torch.equal(other.get_cost(given, candidates), before)
        assert set(other.state_dict()) == names


def test_our_models_encode_frames_once(lewm: JepaWorldModel, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, calls = SwmModel(lewm), []
    embed = type(raw.parts).embed
    monkeypatch.setattr(type(raw.parts), "embed", lambda self, frames: calls.append(len(frames)) or embed(self, frames))
    start, goal = torch.randint(256, (2, 3, 1, 64, 64, 3), dtype=torch.uint8)
    given = {"pixels": start[:, None], "goal": goal[:, None], "action": torch.zeros(3, 1, 1, 2)}
    for model in (raw, RepairedModel(raw, PairHead(192, hidden=8))):
        plan(cast(Any, model), given, batch=3, num_samples=8, topk=3)
    latents = raw.encode({"pixels": start})["emb"]
    kept = latents.clone()
    latents.zero_()  # theirs to change
    assert torch.equal(raw.encode({"pixels": start})["emb"], kept)
    assert calls == [3, 3]
    by_data(raw.parts)
    assert not torch.allclose(raw.encode({"pixels": start})["emb"], kept)
