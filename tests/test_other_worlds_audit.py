"""Audits of worlds with other units, distances, or no oracle."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import reachcost as rc
from reachcost.audits import stages as audit_stages
from reachcost.audits.measurements import exact_dynamics, oracle_runs
from reachcost.audits.stage import Rule, Stage, apply_rule
from reachcost.audits.stages import RULES, STAGES, verdict_of
from reachcost.audits.subject import Subject
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.exact import ExactDynamics

SEARCH = rc.CEM(horizon=3, candidates=64, iterations=3, elites=8)


class Plane(rc.Task):
    """Two numbers; an action is added, at most half a unit of each."""

    name, action_budget, action_dim = "plane", 30, 2

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return (states + np.clip(actions, -0.5, 0.5)).astype(np.float32)

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.abs(states - goals).max(1) < 0.3

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.abs(np.asarray(states) - goals).max(1)

    def generate_logs(self, episodes: int, seed: int = 0) -> rc.Logs:
        rng = np.random.default_rng(seed)
        here, rows, taken = rng.uniform(-6, 6, (episodes, 2)).astype(np.float32), [], []
        aim = rng.uniform(-6, 6, (episodes, 2))
        for _ in range(30):
            rows.append(here)
            taken.append(np.clip(aim - here, -0.5, 0.5) + rng.normal(0, 0.1, here.shape))
            here = self.step(here, taken[-1])
        columns = {"state": np.stack(rows, 1).reshape(-1, 2), "action": np.stack(taken, 1).reshape(-1, 2)}
        return rc.Logs(columns, np.full(episodes, 30), self.observe)


class Cells(Plane):
    """Its distance counts cells of one unit, two steps each."""

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.abs(np.floor(states) - np.floor(goals)).max(1)


class Squared(Plane):
    """Its distance is squared, so that it does not add up."""

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return super().distance(states, goals) ** 2


class NoDistance(Plane):
    """No oracle distance."""

    distance = rc.Task.distance


def far(budget: int) -> rc.EvaluationSet:
    starts = np.random.default_rng(5).uniform(-6, -4, (12, 2)).astype(np.float32)
    return rc.EvaluationSet(starts, -starts, budget=budget)


def subject(task: rc.Task, evaluation: rc.EvaluationSet, **options: Any) -> Subject:
    logs = task.generate_logs(60)
    model = ExactDynamics(task, rc.ActionBlocks.of(logs, 1))
    return Subject(model, rc.encode_logs(model, logs, cache=False), task=task, evaluation=evaluation, **options)


@pytest.mark.parametrize("task", [Plane(), Cells()])
@pytest.mark.parametrize(("budget", "outcome"), [(14, "fail"), (30, "pass")])
def test_goals_within_reach_do_not_depend_on_the_unit_of_distance(task: rc.Task, budget: int, outcome: str) -> None:
    """Eight to twelve units at half a unit a step."""
    crippled = rc.CEM(horizon=1, candidates=2, iterations=1, elites=2)
    assert STAGES["goals"](subject(task, far(budget), planner=crippled)).outcome == outcome


def test_goals_are_unknown_if_distances_do_not_add_up() -> None:
    found = STAGES["goals"](subject(Squared(), far(14), planner=SEARCH))
    assert found.outcome == "unknown"
    assert "adds up" in found.advice


class Scaled(ExactDynamics):
    """Latents of another unit."""

    scale = 1e-3

    def encode(self, observations: Observations) -> Tensor:
        return self.scale * super().encode(observations)


def test_the_representation_does_not_depend_on_the_unit_of_latents() -> None:
    task, logs = Plane(), Plane().generate_logs(60)
    model = Scaled(task, rc.ActionBlocks.of(logs, 1))
    found = STAGES["representation"](Subject(model, rc.encode_logs(model, logs, cache=False)))
    assert found.value is not None
    assert found.value > 0.99


class Backwards(ExactDynamics):
    """Right about the first number, which is large, and wrong about the second."""

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        ends = super().rollout(context, actions)
        wrong = 2 * context[:, -1, None, 1] - ends[..., 1]
        return torch.stack([ends[..., 0], wrong], dim=-1)


class Stretched(Plane):
    """The first number counts in thousandths."""

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return (states + np.clip(actions, -0.5, 0.5) * [1000, 1]).astype(np.float32)


def test_every_coordinate_counts_in_dynamics() -> None:
    task, logs = Stretched(), Plane().generate_logs(60)
    logs = rc.Logs(
        {"state": logs.columns["state"] * np.array([1000, 1], np.float32), "action": logs.columns["action"]},
        logs.lengths,
    )
    for kind, outcome in ((ExactDynamics, "pass"), (Backwards, "fail")):
        model = kind(task, rc.ActionBlocks.of(logs, 1), np.zeros((1, 2), np.float32))
        latents = rc.Latents(torch.from_numpy(np.asarray(logs.columns["state"])), logs)
        assert STAGES["dynamics"](Subject(model, latents)).outcome == outcome


def stages(**rows: list[float]) -> list[Stage]:
    return [apply_rule(RULES[name], np.array(values), np.arange(len(values))) for name, values in rows.items()]


def test_foresight_is_compared_on_the_same_episodes() -> None:
    """The first four fail with true ends as without: the dynamics cost nothing, although the others fail, too."""
    found = stages(sampling=[100.0] * 8, foresight=[0.0, 0, 100, 100], execution=[0.0, 0, 100, 100, 0, 0, 0, 0])
    assert verdict_of(found).blamed == "ranking"


def test_without_an_oracle_cost_and_search_cannot_be_separated() -> None:
    blind = stages(foresight=[0.0] * 4, execution=[0.0] * 4)
    assert verdict_of(blind).blamed == "cannot tell"
    assert verdict_of(stages(foresight=[100.0] * 4, execution=[0.0] * 4)).blamed == "dynamics"
    crippled = rc.CEM(horizon=2, candidates=2, iterations=1, elites=2)
    broken = subject(NoDistance(), far(30))
    logs = rc.encode_logs(broken.model, NoDistance().generate_logs(60, seed=1), cache=False)
    audit = rc.audit_planner(broken.model, broken.latents, None, NoDistance(), far(30), crippled, logs)
    assert audit.verdict == "cannot tell"


def test_episodes_that_repeat_by_chance_are_accepted() -> None:
    def walks(count: int, seed: int) -> rc.Logs:
        first = np.random.default_rng(seed).integers(0, 8, count)
        states = (first[:, None] + np.arange(3)).reshape(-1, 1).repeat(2, axis=1).astype(np.float32)
        return rc.Logs({"state": states, "action": np.ones((3 * count, 1), np.float32)}, np.full(count, 3))

    def latents(logs: rc.Logs) -> rc.Latents:
        return rc.Latents(torch.from_numpy(np.asarray(logs.columns["state"])), logs)

    task = Plane()
    model = ExactDynamics(task, rc.ActionBlocks.of(task.generate_logs(2), 1))
    Subject(model, latents(walks(40, 0)), held_out=latents(walks(40, 1)))
    logs = task.generate_logs(40)
    with pytest.raises(ReachcostError, match="10 held-out episodes"):
        Subject(model, latents(logs), held_out=latents(logs.keep(np.arange(300))))


def test_rules_from_logs_have_their_own_thresholds() -> None:
    logs = Plane().generate_logs(200)
    model = ExactDynamics(Plane(), rc.ActionBlocks.of(logs, 1))
    latents = rc.encode_logs(model, logs, cache=False)
    for asked in ({"ranking": 0.6}, {"ranking-logs": -0.5}):
        ranking = STAGES["ranking"](Subject(model, latents, thresholds=asked))
        assert ranking.threshold == asked.get("ranking-logs", -0.1)


def test_integer_states_of_a_continuous_task_are_refused() -> None:
    task, logs = Plane(), Plane().generate_logs(5)
    model = ExactDynamics(task, rc.ActionBlocks.of(logs, 1), np.zeros((1, 2), np.float32))
    integers = rc.EvaluationSet(np.array([[-4, -4]]), np.array([[4, 4]]))
    with pytest.raises(ReachcostError, match="step"):
        rc.control(task, model, {"raw": rc.LatentMSE()}, integers, SEARCH)


def test_states_that_are_not_vectors_have_no_exact_dynamics() -> None:
    goals = far(30)
    matrices = subject(Plane(), replace(goals, starts=goals.starts[:, None], goals=goals.goals[:, None]))
    assert exact_dynamics(matrices) is None
    assert oracle_runs(matrices) is None
    assert STAGES["sampling"](matrices).outcome == "unknown"


def test_a_stage_is_added_by_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a further cause of a bad order of candidates."""
    rule = Rule("support", "% of goals among the logs", 50.0, True, "log episodes to these goals", share=True)
    monkeypatch.setitem(STAGES, "support", lambda _: apply_rule(rule, np.zeros(4)))
    monkeypatch.setattr(audit_stages, "COST", {"support": STAGES["support"], **audit_stages.COST})
    task = Plane()
    broken = subject(task, far(30))
    audit = rc.audit_planner(broken.model, broken.latents, None, planner=SEARCH)
    assert audit.stages[-1].name == "support"
    assert audit.verdict == "support"
