"""Wrong arguments of public functions raise an error of one sentence before any work is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.costs.checks import require_one_model
from reachcost.errors import require_type
from reachcost.tasks.exact import ExactDynamics
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from tests.toy import PLANNER, Corridor, Sketch

RAW: dict[str, Any] = {"raw": rc.LatentMSE()}


class Given(NamedTuple):
    """Good arguments; tests replace one of them."""

    task: Any
    model: Any
    logs: Any
    latents: Any
    goals: Any
    planner: Any = rc.CategoricalCEM(horizon=2, candidates=4, elites=2, iterations=1)


@pytest.fixture(scope="module")
def given(task: TopoNav, model: ExactTopoNav, latents: rc.Latents) -> Given:
    return Given(task, model, latents.logs, latents, task.evaluation_set().spread(2))


MISTAKES: dict[str, tuple[Callable[[Given], Any], str]] = {
    "path as logs": (lambda g: rc.repair(g.model, _any("logs.h5")), "`logs` is 'logs.h5'"),
    "number as lengths": (lambda g: rc.Logs({"state": np.zeros((8, 2))}, _any(8)), "lengths are 8"),
    "array as columns": (lambda g: rc.Logs(_any(np.zeros((8, 2))), _any([8])), "`columns` is of type ndarray"),
    "name as model": (lambda g: rc.repair(_any("lewm"), g.logs), "world model is 'lewm'"),
    "number as model": (lambda g: rc.encode_logs(_any(7), g.logs), "lacks latent_dim, encode"),
    "class as model": (lambda g: _control(g, model=ExactTopoNav), "the class ExactTopoNav"),
    "None as model": (lambda g: rc.load_world_model(_any(None)), "`source` is None"),
    "dict as recipe": (lambda g: rc.repair(g.model, g.logs, recipe=_any({})), "`recipe` is of type dict"),
    "latents as pairs": (lambda g: rc.fit(g.latents), "`pairs` is of type Latents"),
    "fraction as count": (lambda g: rc.labels.TemporalPairs(g.latents, count=_any(9.5)), "`count` is 9.5"),
    "negative seed": (lambda g: rc.repair(g.model, g.logs, seed=-1), "seed is -1"),
    "text as progress": (lambda g: rc.encode_logs(g.model, g.logs, progress=_any("yes")), "`progress` is 'yes'"),
    "name as task": (lambda g: _control(g, task="ring"), "`task` is 'ring'"),
    "class as task": (lambda g: _control(g, task=TopoNav), "the class TopoNav"),
    "name as task of labels": (lambda g: rc.labels.OraclePairs(g.latents, _any("x")), "`task` is 'x'"),
    "name as goals": (lambda g: _control(g, goals="high-distance"), "`evaluation` is 'high-distance'"),
    "text as pools": (lambda g: rc.sasc(g.task, g.model, RAW, g.goals, _any("p")), "`pools` is 'p'"),
    "class as planner": (lambda g: _control(g, planner=rc.CEM), "the class CEM"),
    "text as budget": (lambda g: _control(g, budget="5"), "`budget` is '5'"),
    "name as cost": (lambda g: _control(g, costs={"a": "raw"}), "cost 'a' is 'raw'"),
    "class as cost": (lambda g: _control(g, costs={"a": rc.LatentMSE}), "the class LatentMSE"),
    "dict as audited cost": (lambda g: rc.audit_planner(g.model, g.latents, _any(RAW)), "'audited' is of type dict"),
    "name as audited task": (lambda g: rc.audit_planner(g.model, g.latents, None, _any("t"), g.goals), "`task` is 't'"),
    "None as head": (lambda g: rc.load_head(_any(None)), "`directory` is None"),
    "text as saved head": (lambda g: rc.save_head(_any("h"), "nowhere"), "`head` is 'h'"),
    "text as weight": (lambda g: rc.HybridCost(RAW["raw"], RAW["raw"], _any("1")), "weight of HybridCost is '1'"),
    "name as base": (lambda g: rc.HybridCost(_any("raw"), RAW["raw"]), "base`? is 'raw'"),
    "head as cost": (lambda g: rc.HybridCost(RAW["raw"], rc.heads.PairHead(10)), "HeadCost"),
    "text as momentum": (lambda g: rc.CategoricalCEM(momentum=_any("0")), "momentum of CategoricalCEM is '0'"),
    "text as steps": (lambda g: rc.worldmodels.TrainingPlan(steps=_any("9")), "steps of TrainingPlan is '9'"),
    "text as blocks": (lambda g: ExactDynamics(g.task, _any("x")), "`actions` is 'x'"),
    "start that is not finite": (
        lambda g: rc.EvaluationSet(np.array([[0.0], [np.nan]]), np.ones((2, 1))),
        "starts are not finite, first in row 1",
    ),
    "repeated episode number": (lambda g: _numbered([0, 0, 1]), r"same number, \[0, 0, 1\]"),
    "block without actions": (lambda g: rc.ActionBlocks.of(g.logs, 0), "length is 0"),
    "constant action": (lambda g: rc.ActionBlocks((0.0,), (0.0,), (0.0,), (0.0,), 1), r"deviations are \[0.0\]"),
}


def _numbered(episodes: list[int]) -> rc.EvaluationSet:
    return rc.EvaluationSet(np.zeros((3, 2)), np.ones((3, 2)), episodes=np.array(episodes))


def _any(value: Any) -> Any:
    return value


def _control(given: Given, costs: Any = None, budget: Any = 2, **changes: Any) -> Any:
    parts = given._replace(**changes)
    return rc.control(parts.task, parts.model, costs or RAW, parts.goals, parts.planner, budget=budget)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_argument_is_named_in_one_sentence(mistake: str, given: Given) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(rc.ReachcostError, match=message) as caught:
        call(given)
    assert "\n" not in str(caught.value)
    assert not Path("nowhere").exists()


def test_numpy_numbers_are_accepted_and_booleans_are_not(given: Given) -> None:
    assert _control(given, budget=np.int64(2)).paths.shape[2] == 3
    require_type(np.float32(1), float, "weight", "")
    require_type(2, float, "weight", "")
    for number in (True, np.float64(2)):
        with pytest.raises(rc.ReachcostError, match="`count` is"):
            require_type(number, int, "count", "give a whole number")


def test_a_model_without_parts_that_planning_needs_is_refused() -> None:
    class Encoder:
        latent_dim = 2

        def encode(self, observations: Any) -> Any:
            return observations

    with pytest.raises(rc.ReachcostError, match="lacks action_dim, rollout"):
        require_one_model(RAW, Encoder())  # pyright: ignore[reportArgumentType]


def wide(count: int) -> rc.EvaluationSet:
    return rc.EvaluationSet(np.zeros((2, count), int), np.ones((2, count), int))


class Broken(Corridor):
    """Breaks one promise, or none."""

    asked = 0

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        self.asked += len(states)
        return super().step(states, actions)


def broken(name: str, method: Callable[..., Any]) -> Broken:
    return type("Broken", (Broken,), {name: method})()


def unwritten(*_: Any) -> Any:
    raise NotImplementedError


CONTRACT: dict[str, Callable[..., Any]] = {
    "success": lambda task, states, goals: states == goals,
    "step": lambda task, states, actions: states[:, :1],
    "distance": unwritten,
    "category": lambda task, *states: "late",
    "observe": unwritten,
}


@pytest.mark.parametrize("name", CONTRACT)
def test_a_broken_method_of_a_task_is_named_before_episodes_run(name: str) -> None:
    task, model, goals = broken(name, CONTRACT[name]), Sketch(Corridor()), Corridor().evaluation_set()
    for run in (lambda: rc.control(task, model, RAW, goals, PLANNER), lambda: rc.sasc(task, model, RAW, goals)):
        with pytest.raises(rc.ReachcostError, match=f"`{name}`"):
            run()
    assert task.asked <= 2  # one row in each


@pytest.mark.parametrize("width", [1, 3])
def test_states_of_the_wrong_width_are_named(width: int) -> None:
    task = Corridor()
    with pytest.raises(rc.ReachcostError, match=rf"states \[1, {width}\]"):
        rc.control(task, Sketch(task), RAW, wide(width), PLANNER)


def test_an_encoder_that_fails_is_named_with_its_observations() -> None:
    class Blind(Sketch):
        def encode(self, observations: Any) -> Any:
            return observations["pixels"]

    task = Corridor()
    with pytest.raises(rc.ReachcostError, match=r"`encode` of .*Blind.*KeyError: 'pixels'"):
        rc.control(task, Blind(task), RAW, task.evaluation_set(), PLANNER)


@pytest.mark.parametrize(
    ("encode", "message"),
    [(lambda z: z.numpy(), "returned ndarray"), (lambda z: z[:, :1], r"returned \(64, 1\)")],
)
def test_the_output_of_an_encoder_is_checked(encode: Callable[[Any], Any], message: str) -> None:
    class Other(Sketch):
        def encode(self, observations: Any) -> Any:
            return encode(super().encode(observations))

    task = Corridor()
    for work in (rc.encode_logs, rc.repair):
        with pytest.raises(rc.ReachcostError, match=message):
            work(Other(task), task.generate_logs(5))


def test_latents_have_single_precision() -> None:
    class Double(Sketch):
        def encode(self, observations: Any) -> Any:
            return super().encode(observations).double()

        def rollout(self, context: Any, actions: Any) -> Any:
            return super().rollout(context, actions).double()

    task, goals = Corridor(), Corridor().evaluation_set()
    model, double = Sketch(task), Double(task)
    rc.check_world_model(double, task.observe(goals.starts[[0, -1]]), torch.randint(3, (2, 8, 5, 1)))
    for latents in (rc.encode_logs(one, task.generate_logs(5), cache=False).values for one in (model, double)):
        assert latents.dtype == torch.float32
    same = [rc.control(task, one, RAW, goals, PLANNER, budget=3).paths for one in (model, double)]
    np.testing.assert_array_equal(same[0], same[1])


def test_a_predictor_that_is_not_finite_is_named() -> None:
    class Wild(Sketch):
        def rollout(self, context: Any, actions: Any) -> Any:
            ends = super().rollout(context, actions)
            ends[0, 1] = torch.nan
            return ends

    task, goals = Corridor(), Corridor().evaluation_set()
    model = Wild(task)
    for run in (lambda: rc.control(task, model, RAW, goals, PLANNER), lambda: rc.sasc(task, model, RAW, goals)):
        with pytest.raises(rc.ReachcostError, match=r"`rollout` of the world model .*Wild"):
            run()


def test_missing_discrete_actions_of_a_task_are_named() -> None:
    class Undeclared(Corridor):
        discrete_actions = None

        def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
            return super().step(states, np.arange(3)[np.asarray(actions).astype(int)])

    task = Undeclared()
    with pytest.raises(rc.ReachcostError, match="discrete_actions = 3"):
        rc.check_task(task, actions=np.zeros((8, 1), int))
    blocks = rc.ActionBlocks((1.0,), (1.0,), (0.0,), (2.0,), length=1)
    planner = rc.CEM(horizon=2, candidates=64, elites=8, iterations=1)
    with pytest.raises(rc.ReachcostError, match=r"`step` .*IndexError.*discrete_actions"):
        rc.control(task, rc.tasks.ExactDynamics(task, blocks), RAW, task.evaluation_set(), planner)


def test_logged_actions_must_be_actions_of_the_task() -> None:
    def outside(task: Corridor, episodes: int, seed: int = 0) -> rc.Logs:
        logs = Corridor.generate_logs(task, episodes, seed)
        return rc.Logs({**logs.columns, "action": logs.columns["action"] + 5}, logs.lengths)

    with pytest.raises(rc.ReachcostError, match=r"action .* of corridor .* 0 to 2"):
        rc.check_task(broken("generate_logs", outside))
