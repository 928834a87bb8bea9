"""The contract of a task: what is checked, what may be left out, and what its exact dynamics are."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reachcost import make_task
from reachcost.audits.audit import Audit
from reachcost.audits.planner import audit_planner
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet, logged_goals
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.control import control
from reachcost.protocols import Observations
from reachcost.tasks.check import check_task
from reachcost.tasks.contract import LOST, Handle, Plane, Task
from reachcost.tasks.exact import ExactDynamics
from reachcost.tasks.registry import TASKS
from reachcost.tasks.toponav.features import follow
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.worldmodels.custom import check_world_model
from reachcost.worldmodels.jepa import JepaWorldModel

LENGTH = 12
SEARCH = CategoricalCEM(actions=3, horizon=6, candidates=64, iterations=3, elites=8)


class Corridor(Task):
    """Twelve cells in a row; actions are left, stay and right. Only what every task must have."""

    name = "corridor"
    action_budget = 30
    discrete_actions = 3

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.clip(states + actions - 1, 0, LENGTH - 1)

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states, "brightness": states / LENGTH}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return (states == goals).reshape(len(states), -1).all(1)


class FullCorridor(Corridor):
    """The same with every optional part."""

    sets = ("ends",)
    lamp = 0.0

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.abs(states - goals).reshape(len(states), -1).sum(1)

    def generate_logs(self, episodes: int, seed: int = 0) -> Logs:
        return walks(episodes, seed)

    def evaluation_set(self, name: str) -> EvaluationSet:
        return EvaluationSet(np.array([[0], [11], [3]]), np.array([[11], [0], [8]]), name)

    def render(self, states: np.ndarray) -> np.ndarray:
        frames = np.zeros((len(states), 1, LENGTH, 3), np.uint8)
        frames[np.arange(len(states)), 0, states[:, 0]] = 255
        return frames

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states / LENGTH)

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        right = (goals > starts)[:, 0]
        return {"to the right": right, "to the left": ~right}

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.where(self.success(states, goals), "success", "lost")

    def bottleneck(self, states: np.ndarray) -> np.ndarray:
        return np.where(states[:, 0] == LENGTH // 2, 2, 0)

    def plane(self) -> Plane:
        return Plane((-0.5, -0.5), (LENGTH - 0.5, 0.5), 1.0, on_a_line, self.cells, lambda places: places[:, 0] > -1)

    def cells(self, places: np.ndarray) -> np.ndarray:
        return np.rint(places[:, :1]).astype(np.int64)

    @property
    def world(self) -> str:
        return f"corridor with a lamp at {self.lamp}"

    def handles(self) -> tuple[Handle, ...]:
        return (Handle("lamp", (0, 0), (LENGTH - 1, 0), self.lamp),)

    def moved(self, name: str, value: float) -> Task:
        other = type(self)()
        other.lamp = value
        return other


def on_a_line(states: np.ndarray) -> np.ndarray:
    return np.concatenate([states, 0 * states], axis=1)


def walks(episodes: int, seed: int = 0) -> Logs:
    """Straight walks to random cells."""
    rng = np.random.default_rng(seed)
    ends = rng.permuted(np.tile(np.arange(LENGTH), (episodes, 1)), axis=1)[:, :2]
    paths = [np.arange(a, b + (d := 1 if b > a else -1), d) for a, b in ends]
    moves = [np.append(np.diff(path), 0) + 1 for path in paths]
    columns = {"state": np.concatenate(paths)[:, None], "action": np.concatenate(moves)[:, None]}
    return Logs(columns, np.array([len(path) for path in paths]))


class Continuous(FullCorridor):
    """Positions on a line; an action is the distance to go."""

    discrete_actions = None

    def generate_logs(self, episodes: int, seed: int = 0) -> Logs:
        logs = walks(episodes, seed)
        return Logs({name: column.astype(np.float64) for name, column in logs.columns.items()}, logs.lengths)

    def evaluation_set(self, name: str) -> EvaluationSet:
        cells = super().evaluation_set(name)
        return replace(cells, starts=cells.starts.astype(float), goals=cells.goals.astype(float))

    def render(self, states: np.ndarray) -> np.ndarray:
        return super().render(states.astype(int))

    def cells(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(places[:, :1], float)


@pytest.mark.parametrize("name", TASKS)
def test_the_bundled_tasks_keep_the_contract(name: str) -> None:
    task = make_task(name)
    missing = check_task(task)
    assert missing == {part: lost for part, lost in LOST.items() if not task.offers(part)}
    assert not {"distance", "generate_logs", "evaluation_set", "render", "category"} & set(missing)


def test_missing_parts_are_reported_with_what_is_lost() -> None:
    assert check_task(FullCorridor()) == check_task(Continuous()) == {}
    assert check_task(Corridor(), np.array([[2], [7]])) == LOST
    task = Corridor()
    for part in ("distance", "bottleneck"):
        assert not task.offers(part)
    with pytest.raises(ReachcostError, match="`distance`"):
        task.distance(np.array([[2]]), np.array([[7]]))
    with pytest.raises(ReachcostError, match="`generate_logs`"):
        task.generate_logs(1)


def noise(*shape: int) -> np.ndarray:
    """Other integers in every call."""
    return np.random.default_rng().integers(10**9, size=shape)


def mutating(task: Corridor, states: np.ndarray, *others: np.ndarray) -> np.ndarray:
    states += 1
    return states.copy()


def mixing(task: Corridor, states: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """The result of a row depends on the other rows."""
    return states - states.max() + 1


def failing(task: Corridor, *arrays: np.ndarray) -> np.ndarray:
    raise IndexError("off the map")


def answers(value: Any) -> Callable[..., Any]:
    """A method with a constant result."""
    return lambda task, *arrays: value


def logs_of_states(task: Corridor, episodes: int) -> Logs:
    return Logs({"state": np.eye(2)}, np.array([2]))


def a_set(**changes: Any) -> Callable[[Any, str], EvaluationSet]:
    """A method that returns the set of the corridor with changes; functions are called every time."""

    def evaluation_set(task: Corridor, name: str) -> EvaluationSet:
        made = {part: change() if callable(change) else change for part, change in changes.items()}
        return replace(FullCorridor().evaluation_set(name), **made)

    return evaluation_set


ZEROS = np.zeros((3, 1), int)
NAMES = ("lost", "success")
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": None}, "`name`"),
    "budget in words": ({"action_budget": "ninety"}, "`action_budget`"),
    "one action": ({"discrete_actions": 1}, "`discrete_actions`"),
    "step mutates": ({"step": mutating}, "step changes the arrays"),
    "step mixes rows": ({"step": mixing}, "step of a row"),
    "step is random": ({"step": lambda _, s, a: s + noise(*s.shape)}, "step gives different results"),
    "step to other shape": ({"step": lambda _, s, a: np.hstack([s, s])}, r"\(3, 2\) of int64 \(3, 1\)"),
    "step to other dtype": ({"step": lambda _, s, a: s / 2}, "step made float64"),
    "step stands still": ({"step": lambda _, s, a: s.copy()}, "step changes nothing"),
    "step fails": ({"step": failing}, "step failed .*IndexError: off the map"),
    "no state observed": ({"observe": lambda _, s: {"xy": s}}, "column `state`"),
    "half observed": ({"observe": lambda _, s: {"state": s, "xy": s[1:]}}, r"observe \('xy'\) returned"),
    "observed together": ({"observe": lambda _, s: {"state": s - s.max()}}, r"observe \('state'\) of a row"),
    "success as int": ({"success": lambda _, s, g: (s == g)[:, 0] * 1}, "success returned int64"),
    "no success": ({"success": lambda _, s, g: (s != g)[:, 0]}, "reached itself"),
    "distance below zero": ({"distance": lambda _, s, g: (s - g)[:, 0]}, "non-negative"),
    "distance 7": ({"distance": lambda _, s, g: np.full(len(s), 7)}, "to themselves"),
    "further distances listed": ({"further_distances": ["euclidean"]}, "further_distances failed"),
    "no groups": ({"groups": answers(None)}, "groups failed"),
    "groups overlap": ({"groups": lambda _, s, g: dict.fromkeys("ab", s[:, 0] >= 0)}, "several of the groups a, b"),
    "category column": ({"category": lambda _, a, s, g: np.full(s.shape, "success")}, "category returned"),
    "category at the goal": ({"category": lambda _, a, s, g: np.full(len(s), "fine")}, "category returned .*'fine'"),
    "coordinates are NaN": ({"coordinates": lambda _, s: s * np.nan}, "nan"),
    "bottleneck 3": ({"bottleneck": lambda _, s: np.full(len(s), 3)}, "bottleneck returned"),
    "render in grey": ({"render": lambda _, s: np.zeros((len(s), 8, 8), np.uint8)}, "render returned uint8"),
    "logs without actions": ({"generate_logs": logs_of_states}, "leaves out a column"),
    "logs of one seed": ({"generate_logs": lambda _, e, seed=0: walks(e)}, "same logs for every seed"),
    "logs of floats": ({"generate_logs": Continuous.generate_logs}, "states of generate_logs are float64"),
    "no set": ({"evaluation_set": answers(None)}, r"evaluation_set\('ends'\) is None"),
    "equal states": ({"evaluation_set": a_set(starts=ZEROS, goals=ZEROS)}, "states="),
    "random set": ({"evaluation_set": a_set(goals=lambda: noise(3, 1))}, r"evaluation_set\('ends'\) is another one"),
    "set elsewhere": ({"evaluation_set": a_set(world="maze")}, "'ends' is of maze"),
    "set of no budget": ({"evaluation_set": a_set(budget=0)}, "budget of 0"),
    "set of floats": ({"evaluation_set": a_set(goals=np.zeros((3, 1)))}, r"evaluation_set.* are float64"),
}


@pytest.mark.parametrize(("parts", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_task_is_refused(parts: dict[str, Any], message: str) -> None:
    broken = type("Broken", (FullCorridor,), parts)()
    with pytest.raises(ReachcostError, match=message):
        check_task(broken)


@pytest.mark.parametrize(("change", "refused"), [(2e-7, False), (1e-3, True)])
def test_rounding_may_depend_on_the_batch(change: float, refused: bool) -> None:
    def step(task: Task, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return (states + actions) * np.float32(1 + change * len(states))

    states, actions = np.random.default_rng(1).normal(size=(2, 8, 2)).astype(np.float32)
    batched = type("Batched", (Corridor,), {"step": step, "discrete_actions": None})()
    with pytest.raises(ReachcostError, match="step of a row") if refused else nullcontext():
        check_task(batched, states, actions)


def test_missing_states_and_actions_must_be_passed() -> None:
    no_tasks: list[Any] = [Corridor, "corridor"]
    for nothing in no_tasks:
        with pytest.raises(ReachcostError, match="`task`"):
            check_task(nothing)
    with pytest.raises(ReachcostError, match="states="):
        check_task(Corridor())
    silent = type("Silent", (Continuous,), {"generate_logs": Task.generate_logs})()
    with pytest.raises(ReachcostError, match="actions="):
        check_task(silent)
    assert check_task(silent, actions=np.full((3, 1), 1.5)).keys() == {"generate_logs"}
    with pytest.raises(ReachcostError, match="generate_logs"):
        check_task(type("Aimless", (Continuous,), {"generate_logs": logs_of_states})())


def audited(task: Task, **options: Any) -> Audit:
    """A small audit of latent distance, which is exact here."""
    model = ExactDynamics(FullCorridor())
    cells = FullCorridor().evaluation_set("ends")
    latents = options.pop("latents", None) or encode_logs(model, walks(40))
    return audit_planner(model, latents, options.pop("cost", None), task, cells, SEARCH, **options)


def test_a_task_without_distance_can_be_run_and_audited() -> None:
    task, model, cells = Corridor(), ExactDynamics(FullCorridor()), FullCorridor().evaluation_set("ends")
    runs = control(task, model, {"raw": LatentMSE()}, cells, SEARCH)
    assert runs.success.all()
    assert np.isnan(runs.final_distance).all()
    assert set(runs.category.ravel()) == {"success"}
    audit = audited(task)
    found = {stage.name: stage for stage in audit.stages}
    assert audit.verdict == "none"
    assert found["representation"].outcome == found["dynamics"].outcome == "pass"
    assert found["execution"].value == 100
    assert found["sampling"].outcome == found["ranking"].outcome == "unknown"
    assert "oracle distance" in found["sampling"].advice
    assert "0 of 100 goals" in found["ranking"].advice
    latents = encode_logs(model, walks(40))
    head = fit(TemporalPairs(latents, 100, validation=10), Recipe(epochs=1, hidden=4))
    learned = {stage.name: stage for stage in audited(task, latents=latents, cost=HeadCost(head)).stages}
    assert learned["coverage"].outcome == "pass"
    assert learned["ranking"].advice == "needs --held-out, or a --task with an oracle distance"


def test_held_out_logs_evaluate_ranking_without_a_distance() -> None:
    audit = audited(Corridor(), held_out=encode_logs(ExactDynamics(FullCorridor()), walks(400, seed=1)))
    ranking = next(stage for stage in audit.stages if stage.name == "ranking")
    assert ranking.outcome in ("pass", "unknown")  # latent distance is exact here, so no reference is better
    assert "logged correlation" in ranking.measured
    assert not any("held-out logs were not used" in caveat for caveat in audit.caveats)


def test_a_task_with_a_distance_alone_is_audited_in_every_stage() -> None:
    audit = audited(type("Measured", (Corridor,), {"distance": FullCorridor.distance})())
    unknown = {stage.name for stage in audit.stages if stage.outcome == "unknown"}
    assert {stage.outcome for stage in audit.stages if stage.name not in unknown} == {"pass"}
    assert unknown == {"coverage", "foresight"}  # nothing was learned, and nothing fails


def test_exact_dynamics_equal_the_simulator(world: TwoRoom, lewm: JepaWorldModel, task: TopoNav) -> None:
    rng = torch.Generator().manual_seed(0)
    plans: list[tuple[Task, ActionBlocks | None, torch.Tensor]] = [
        (world, lewm.actions, torch.randn(2, 6, 3, lewm.action_dim, generator=rng)),
        (task, None, torch.randint(5, (2, 6, 12, 1), generator=rng)),
    ]
    for place, blocks, pool in plans:
        model = ExactDynamics(place, blocks)
        starts = place.evaluation_set(place.sets[0]).starts[:2]
        observations = {"state": place.observe(starts)["state"]}
        check_world_model(model, observations, pool)
        context = model.encode(observations)[:, None]
        np.testing.assert_array_equal(model.states(context[:, 0]), starts)
        assert model.states(context).dtype == starts.dtype
        steps = pool.numpy() if blocks is None else blocks.unroll(pool.numpy())
        here = np.repeat(starts, 6, axis=0)
        for t in range(steps.shape[2]):
            here = place.step(here, steps[:, :, t].reshape(12, -1))
        np.testing.assert_array_equal(model.rollout(context, pool).numpy().reshape(12, -1), here)


def test_discrete_actions_reach_a_task_as_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner samples uint8, where 0 - 1 is 255."""

    def step(task: Task, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        assert actions.dtype == np.int64
        return np.clip(states + (actions - 1), 0, LENGTH - 1)

    monkeypatch.setattr(FullCorridor, "step", step)
    task, cells = FullCorridor(), FullCorridor().evaluation_set("ends")
    model = ExactDynamics(task)
    runs = control(task, model, {"raw": LatentMSE(), "oracle": OracleGeodesic(model)}, cells, SEARCH)
    assert runs.success.all()
    context = model.encode({"state": np.array([[5]])})[:, None]
    assert model.rollout(context, torch.zeros(1, 1, 2, 1, dtype=torch.uint8)).item() == 3


def test_exact_dynamics_require_actions_and_states(lewm: JepaWorldModel) -> None:
    with pytest.raises(ReachcostError, match="actions="):
        ExactDynamics(TwoRoom())
    with pytest.raises(ReachcostError, match="example="):
        ExactDynamics(Corridor())
    assert ExactDynamics(Corridor(), example=np.array([[4]])).latent_dim == 1
    elsewhere = TwoRoom(Layout(doors=((88.0, 14.0),)))  # which the frozen evaluation sets do not belong to
    assert ExactDynamics(elsewhere, lewm.actions).latent_dim == 2


def test_a_table_of_many_actions_is_followed_in_any_integer_type() -> None:
    """A planner samples uint8, which does not hold the number of a pair of twenty actions."""
    table, rng = (np.arange(30)[:, None] + np.arange(20)) % 30, np.random.default_rng(0)
    start, pool = torch.arange(4), torch.from_numpy(rng.integers(20, size=(4, 10, 7, 1)))
    ends = (start[:, None] + pool[..., 0].sum(2)) % 30
    for kind in (torch.uint8, torch.int64):
        assert torch.equal(follow(table, start, pool.to(kind)), ends)
    with pytest.raises(ReachcostError, match="0 to 19"):
        follow(table, start, pool + 1)


def test_an_evaluation_set_requires_starts_and_goals_only() -> None:
    starts, goals = np.zeros((3, 2)), np.ones((3, 2))
    bare, full = EvaluationSet(starts, goals), EvaluationSet(starts, goals, "given", 0, np.arange(3))
    assert bare.fingerprint == full.fingerprint
    subset = bare.subset(slice(1, 3))
    assert subset.episodes.tolist() == [1, 2]
    assert bare.record == bare.spread(3).record == {"evaluation_set_sha256": bare.fingerprint}
    assert subset.spread(1).record["full_set_sha256"] == subset.record["full_set_sha256"] == bare.fingerprint
    assert EvaluationSet([[0], [1]], [[1], [0]]).goals.shape == (2, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ReachcostError, match="starts are far"):
        EvaluationSet("far", starts, goals)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ReachcostError, match="shapes"):
        EvaluationSet(starts, goals[:, :1])
    with pytest.raises(ReachcostError, match=r"\(3, 2, 3\)"):
        EvaluationSet(starts, goals[:2])


def test_goals_of_logs_know_their_world_and_budget() -> None:
    sampled = logged_goals(walks(40), offset=3, count=5, name="near", world="corridor", budget=9)
    assert (sampled.name, sampled.world, sampled.budget, len(sampled)) == ("near", "corridor", 9, 5)
    assert (np.abs(sampled.goals - sampled.starts) == 3).all()
    single = Logs({"state": np.arange(4)[:, None]}, np.ones(4, int))
    with pytest.raises(ReachcostError, match="3 steps"):
        logged_goals(single, offset=3, count=5)
