"""What is given to a public function, and is something else than it asks for, gets one sentence before any work."""

from __future__ import annotations

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
CANDIDATES: Any = "5"
NOT_FINITE = r"'given': starts are not finite, first in row 1: leave such episodes out"


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
    "path for logs": (lambda g: rc.repair(g.model, "logs.h5"), r"`logs` is 'logs.h5': open them first, rc.open_logs"),  # pyright: ignore[reportArgumentType]
    "latents for logs": (lambda g: rc.repair(g.model, g.latents), r"`logs` is of type Latents: open them first"),
    "name for model": (lambda g: rc.repair(_any("lewm"), g.logs), r"world model is 'lewm': load it, rc.load_world_m"),
    "half a model": (lambda g: rc.encode_logs(_any(7), g.logs), r"world model is 7: it lacks latent_dim, encode, see"),
    "dict for recipe": (
        lambda g: rc.repair(g.model, g.logs, recipe=_any({})),
        r"`recipe` is of type dict: give rc\.Rec",
    ),
    "text for pairs": (lambda g: rc.repair(g.model, g.logs, pairs=_any("100")), r"`pairs` is '100': give a whole num"),
    "half a pair": (
        lambda g: rc.labels.TemporalPairs(g.latents, count=_any(9.5)),
        r"`count` is 9.5: give a whole number of",
    ),
    "text for seed": (lambda g: rc.repair(g.model, g.logs, seed=_any("1")), r"`seed` is '1': give a whole number"),
    "latents for pairs": (
        lambda g: rc.fit(g.latents),
        r"`pairs` is of type Latents: give labelled pairs, say rc\.labels\.Te",
    ),
    "name for task": (lambda g: _control(g, task="ring"), r"`task` is 'ring': give a task, rc.make_task\(name\)"),
    "class for task": (lambda g: _control(g, task=TopoNav), r"`task` is the class TopoNav: give a task"),
    "class for model": (lambda g: _control(g, model=ExactTopoNav), r"world model is the class ExactTopoNav: load it"),
    "name for goals": (lambda g: _control(g, goals="high-distance"), r"`evaluation` is 'high-distance': give a set"),
    "class for planner": (lambda g: _control(g, planner=rc.CEM), r"`planner` is the class CEM: make one, rc.CEM\(\)"),
    "text for budget": (lambda g: _control(g, budget="5"), r"`budget` is '5': give a whole number of actions"),
    "name for cost": (lambda g: _control(g, costs={"a": "raw"}), r"cost 'a' is 'raw': give a terminal cost"),
    "class for cost": (lambda g: _control(g, costs={"a": rc.LatentMSE}), r"cost 'a' is the class LatentMSE: give a te"),
    "sasc task": (lambda g: rc.sasc(_any("ring"), g.model, RAW, g.goals), r"`task` is 'ring': give a task"),
    "sasc goals": (lambda g: rc.sasc(g.task, g.model, RAW, _any("all")), r"`evaluation` is 'all': give a set"),
    "sasc pools": (lambda g: rc.sasc(g.task, g.model, RAW, g.goals, _any("p")), r"`pools` is 'p': give .* \[E = 2, S,"),
    "audited costs": (
        lambda g: rc.audit_planner(g.model, g.latents, _any(RAW)),
        r"'audited' is of type dict: give a t",
    ),
    "audited task": (
        lambda g: rc.audit_planner(g.model, g.latents, None, _any("t"), g.goals),
        r"`task` is 't': give a",
    ),
    "text for count": (lambda g: rc.CEM(candidates=CANDIDATES), r"candidates of CEM is '5': give a whole number"),
    "categorical": (
        lambda g: rc.CategoricalCEM(momentum=_any("0")),
        r"momentum of CategoricalCEM is '0': give a number",
    ),
    "half an epoch": (lambda g: rc.Recipe(epochs=_any(2.5)), r"epochs of Recipe is 2.5: give a whole number"),
    "training": (
        lambda g: rc.worldmodels.TrainingPlan(steps=_any("9")),
        r"steps of TrainingPlan is '9': give a whole number",
    ),
    "one length": (lambda g: rc.Logs({"state": np.zeros((8, 2))}, _any(8)), r"lengths are 8: give a list of whole num"),
    "no columns": (
        lambda g: rc.Logs(_any(np.zeros((8, 2))), _any([8])),
        r"`columns` is of type ndarray: give a mapping",
    ),
    "no path": (lambda g: rc.open_logs(_any(None)), r"`path` is None: give a file, or the directory of a table"),
    "no model": (lambda g: rc.load_world_model(_any(None)), r"`source` is None: name a model \(lewm-"),
    "no head": (lambda g: rc.load_head(_any(None)), r"`directory` is None: name what save_head wrote"),
    "text for head": (lambda g: rc.HeadCost(_any("scaled")), r"`head` is 'scaled': give a head, rc.load_head"),
    "saved text": (lambda g: rc.save_head(_any("h"), "nowhere"), r"`head` is 'h': give what rc.fit or rc.repair"),
    "hybrid weight": (lambda g: rc.HybridCost(RAW["raw"], RAW["raw"], _any("1")), r"weight of HybridCost is '1': give"),
    "hybrid base": (lambda g: rc.HybridCost(_any("raw"), RAW["raw"]), r"`?base`? is 'raw': give a terminal cost"),
    "hybrid head": (
        lambda g: rc.HybridCost(RAW["raw"], rc.heads.PairHead(10)),
        r"learned is a head: wrap it, HeadCost\(head\)",
    ),
    "text for blocks": (lambda g: ExactDynamics(g.task, _any("x")), r"`actions` is 'x': give ActionBlocks, say model."),
    "oracle task": (lambda g: rc.labels.OraclePairs(g.latents, _any("x")), r"`task` is 'x': give a task"),
    "written text": (lambda g: rc.write_logs(_any("l"), "nowhere.h5"), r"`logs` is 'l': open them first"),
    "seed": (lambda g: rc.repair(g.model, g.logs, seed=-1), r"the seed is -1: give 0 or more"),
    "no start": (lambda g: rc.EvaluationSet(np.array([[0.0], [np.nan]]), np.ones((2, 1))), NOT_FINITE),
    "one number": (lambda g: _numbered([0, 0, 1]), r"same number, \[0, 0, 1\]"),
    "no block": (lambda g: rc.ActionBlocks.of(g.logs, 0), r"length is 0: a block lasts at least one step"),
    "long block": (
        lambda g: rc.ActionBlocks.of(g.logs, 999),
        r"a block of 999 actions fits in no episode .* has \d+ r",
    ),
    "still": (lambda g: rc.ActionBlocks((0.0,), (0.0,), (0.0,), (0.0,), 1), r"deviations .* are \[0.0\]: every comp"),
    "progress": (lambda g: rc.encode_logs(g.model, g.logs, progress=_any("yes")), r"`progress` is 'yes': give True to"),
}


def _numbered(episodes: list[int]) -> rc.EvaluationSet:
    return rc.EvaluationSet(np.zeros((3, 2)), np.ones((3, 2)), episodes=np.array(episodes))


def _any(value: Any) -> Any:
    return value


def _control(given: Given, costs: Any = None, budget: Any = 2, **changes: Any) -> Any:
    parts = given._replace(**changes)
    return rc.control(parts.task, parts.model, costs or RAW, parts.goals, parts.planner, budget=budget)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_arguments_of_another_type_get_one_sentence(mistake: str, given: Given) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(rc.ReachcostError, match=message) as caught:
        call(given)
    assert "\n" not in str(caught.value)
    assert not Path("nowhere").exists()


def test_numbers_of_numpy_are_numbers_and_truth_is_none(given: Given) -> None:
    assert _control(given, budget=np.int64(2)).paths.shape[2] == 3
    require_type(np.float32(1), float, "weight", "")
    require_type(2, float, "weight", "")
    for number in (True, np.float64(2)):
        with pytest.raises(rc.ReachcostError, match="`count` is"):
            require_type(number, int, "count", "give a whole number")


def test_models_are_asked_for_what_planning_needs() -> None:
    class Encoder:
        latent_dim = 2

        def encode(self, observations: Any) -> Any:
            return observations

    with pytest.raises(rc.ReachcostError, match="model is of type Encoder: it lacks action_dim, rollout, see reachc"):
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


CONTRACT = {
    "success": (
        lambda task, states, goals: states == goals,
        r"`success` answered \[1, 2\] of bool about one state: ret",
    ),
    "step": (lambda task, states, actions: states[:, :1], r"`step` made \[1, 1\] of int64 of states \[1, 2\] of int64"),
    "distance": (
        unwritten,
        r"`distance` failed on states \[1, 2\] of int64, the first of .* \(NotImplementedError: \)",
    ),
    "category": (lambda task, *states: "late", r"`category` answered \[\] of <U4 about one state: return one value"),
    "observe": (unwritten, r"`observe` failed on states \[1, 2\] of int64"),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_what_a_task_cannot_do_shows_before_episodes_run(name: str) -> None:
    method, message = CONTRACT[name]
    task, model, goals = broken(name, method), Sketch(Corridor()), Corridor().evaluation_set()
    for run in (lambda: rc.control(task, model, RAW, goals, PLANNER), lambda: rc.sasc(task, model, RAW, goals)):
        with pytest.raises(rc.ReachcostError, match=message):
            run()
    assert task.asked <= 2  # one row in each


def test_a_missing_distance_is_found_before_candidates_are_rolled_out() -> None:
    task, model = broken("distance", rc.Task.distance), Sketch(Corridor())
    with pytest.raises(rc.ReachcostError, match="'corridor' has no oracle `distance`: write it, or pass diagnostic="):
        rc.sasc(task, model, RAW, Corridor().evaluation_set())
    assert not task.asked


@pytest.mark.parametrize("width", [1, 3])
def test_states_of_the_wrong_width_are_named(width: int) -> None:
    task = Corridor()
    with pytest.raises(rc.ReachcostError, match=rf"failed on states \[1, {width}\] of int64 with .* give states as"):
        rc.control(task, Sketch(task), RAW, wide(width), PLANNER)


def test_an_encoder_that_fails_is_named_with_what_it_was_given() -> None:
    class Blind(Sketch):
        def encode(self, observations: Any) -> Any:
            return observations["pixels"]

    task = Corridor()
    with pytest.raises(
        rc.ReachcostError, match=r"`encode` of .*Blind.* observations with state \(KeyError: 'pixels'\)"
    ):
        rc.control(task, Blind(task), RAW, task.evaluation_set(), PLANNER)


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (
            lambda z: z.numpy(),
            r"`encode` of the world model .*Other.* returned ndarray: return a torch.Tensor \(64, 2\)",
        ),
        (
            lambda z: z[:, :1],
            r"`encode` of the world model .*Other.* returned \(64, 1\): return a torch.Tensor \(64, 2\)",
        ),
    ],
)
def test_what_an_encoder_returns_is_checked_where_logs_are_encoded(
    encode: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    class Other(Sketch):
        def encode(self, observations: Any) -> Any:
            return encode(super().encode(observations))

    task = Corridor()
    for work in (rc.encode_logs, rc.repair):
        with pytest.raises(rc.ReachcostError, match=message):
            work(Other(task), task.generate_logs(5))


def test_latents_are_of_single_precision_whatever_encodes_them() -> None:
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


def test_a_predictor_that_is_not_finite_is_named_and_no_encoder_or_cost() -> None:
    class Wild(Sketch):
        def rollout(self, context: Any, actions: Any) -> Any:
            ends = super().rollout(context, actions)
            ends[0, 1] = torch.nan
            return ends

    task, goals = Corridor(), Corridor().evaluation_set()
    message = (
        r"`rollout` of the world model .*Wild.* predicts 1 of \d+ candidates to end in numbers that are not finite"
    )
    with pytest.raises(rc.ReachcostError, match=message):
        rc.control(task, Wild(task), RAW, goals, PLANNER)
    with pytest.raises(rc.ReachcostError, match=message):
        rc.sasc(task, Wild(task), RAW, goals)


def test_actions_that_a_task_does_not_take_are_told_with_what_may_be_missing() -> None:
    class Undeclared(Corridor):
        discrete_actions = None

        def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
            return super().step(states, np.arange(3)[np.asarray(actions).astype(int)])

    task = Undeclared()
    with pytest.raises(rc.ReachcostError, match=r"logs int64 actions 0 to 2, without .*: set discrete_actions = 3"):
        rc.check_task(task, actions=np.zeros((8, 1), int))
    blocks = rc.ActionBlocks((1.0,), (1.0,), (0.0,), (2.0,), length=1)
    planner = rc.CEM(horizon=2, candidates=64, elites=8, iterations=1)
    with pytest.raises(
        rc.ReachcostError, match=r"`step` failed .* \(IndexError: .*declare `discrete_actions` if actions"
    ):
        rc.control(task, rc.tasks.ExactDynamics(task, blocks), RAW, task.evaluation_set(), planner)


def test_a_task_says_its_name_and_budget() -> None:
    class Nameless(Corridor):
        @property
        def name(self) -> str:
            raise AttributeError

    with pytest.raises(rc.ReachcostError, match="the task Nameless has no `name`: set that attribute of its class"):
        rc.control(Nameless(), Sketch(Corridor()), RAW, Corridor().evaluation_set(), PLANNER)


def test_logged_actions_are_those_of_the_task() -> None:
    def outside(task: Corridor, episodes: int, seed: int = 0) -> rc.Logs:
        logs = Corridor.generate_logs(task, episodes, seed)
        return rc.Logs({**logs.columns, "action": logs.columns["action"] + 5}, logs.lengths)

    with pytest.raises(rc.ReachcostError, match=r"the logs hold the action \d, but those of corridor are .* 0 to 2"):
        rc.check_task(broken("generate_logs", outside))
