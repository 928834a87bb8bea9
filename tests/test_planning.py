"""The planner and the control loop."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from reachcost.core.seeding import EpisodeStreams, generator
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import ReachcostError
from reachcost.heads.kinds import PairHead
from reachcost.planning.categorical_cem import CategoricalCEM, sample
from reachcost.planning.control import ControlRuns, control
from reachcost.planning.planner import PlanContext, Planner, RandomPolicy, lowest
from reachcost.protocols import TerminalCost
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost_paper.toponav.recipes import RouteProposal
from reachcost_paper.toponav.tabular import tabulate

pytestmark = pytest.mark.processor


@given(arrays.arrays(np.float32, (3, 20), elements=st.floats(-5, 5, width=16)), st.integers(1, 20))
def test_lowest_is_a_stable_sort(costs: np.ndarray, count: int) -> None:
    expected = np.argsort(costs, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(lowest(torch.from_numpy(costs), count), expected)


def test_sampling_follows_the_probabilities() -> None:
    probability = torch.tensor([[[0.1, 0.2, 0.3, 0.35, 0.05], [0.0, 0.0, 1.0, 0.0, 0.0]]])
    draws = EpisodeStreams(0, "test", [0], 0).uniform16(2, 100_000).view(np.int16)
    actions = sample(probability, torch.from_numpy(draws))
    for position in range(2):
        share = np.bincount(actions[0, position], minlength=5) / 100_000
        assert share == pytest.approx(probability[0, position], abs=0.005)


def test_probabilities_are_summed_in_float32_in_order() -> None:
    """A draw of a published run: float64 sums give action 3."""
    bits = ["0x1.b328b8p-3", "0x1.15df66p-3", "0x1.53a3eep-2", "0x1.11f0c2p-4", "0x1.035bd6p-2"]
    probability = torch.tensor([float.fromhex(each) for each in bits])[None, None]
    assert sample(probability, torch.tensor([[[44553 - 32768]]], dtype=torch.int16)).item() == 2


def test_streams_belong_to_their_episode() -> None:
    alone = EpisodeStreams(0, "plan", [7], 3)
    among = EpisodeStreams(0, "plan", [2, 7, 7, 9], 3)
    numbers, others = alone.uniform16(5), among.uniform16(5)
    np.testing.assert_array_equal(others[1], numbers[0])
    np.testing.assert_array_equal(others[2], numbers[0])
    assert (others[0] != numbers[0]).any()
    for different in ((1, "plan", [7], 3), (0, "x", [7], 3), (0, "plan", [7], 4)):
        assert (EpisodeStreams(*different).uniform16(5) != numbers).any()
    assert generator(0, "plan", 1, 12).random() != generator(0, "plan", 11, 2).random()


def run(
    task: TopoNav,
    model: ExactTopoNav,
    costs: dict[str, TerminalCost],
    evaluation: EvaluationSet,
    planner: Planner | None = None,
) -> ControlRuns:
    table_model, tables = tabulate(model, costs)
    return control(task, table_model, tables, evaluation, planner, seed=3072, proposal=RouteProposal(task))


def test_the_oracle_reaches_more_goals_than_raw_distance(
    task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet
) -> None:
    runs = run(task, model, {"raw": LatentMSE(), "oracle": OracleGeodesic(model)}, evaluation.subset(slice(0, 40)))
    raw, oracle = runs.success.mean(1)
    assert raw < 0.4
    assert oracle > 0.9
    assert (runs.final_distance[runs.success] == 0).all()
    assert (runs.steps[~runs.success] == 90).all()
    assert (runs.category == "success").tolist() == runs.success.tolist()


def test_results_do_not_depend_on_the_batch(
    task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet, head: PairHead
) -> None:
    costs, evaluation = {"raw": LatentMSE(), "head": HeadCost(head)}, replace(evaluation, budget=30)
    full = run(task, model, costs, evaluation.subset(slice(0, 4)))
    for row in (0, 1, 3):
        for number, name in enumerate(costs):
            alone = run(task, model, {name: costs[name]}, evaluation.subset(slice(row, row + 1)))
            np.testing.assert_array_equal(alone.paths[0, 0], full.paths[number, row])


def whole_numbers(terminal: Tensor, goal: Tensor) -> Tensor:
    """A cost whose sums are exact in any order: every processor and every batch gives the same bits."""
    return ((64 * terminal).round() - (64 * goal[:, None]).round()).abs().sum(-1)


def test_tables_do_not_change_plans(task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    costs, few = {"exact": whole_numbers}, evaluation.subset(slice(0, 3))
    direct = control(task, model, costs, few, CategoricalCEM(), seed=3072, proposal=RouteProposal(task))
    np.testing.assert_array_equal(direct.paths, run(task, model, costs, few).paths)


def test_paths_are_executed_actions(task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    runs = run(task, model, {"oracle": OracleGeodesic(model)}, evaluation.subset(slice(0, 5)))
    moved = np.abs(np.diff(runs.paths, axis=2)).sum(-1)
    assert moved.max() == 1
    np.testing.assert_array_equal(runs.paths[0, :, 0], evaluation.starts[:5])
    np.testing.assert_array_equal(runs.paths[0, runs.success[0], -1], evaluation.goals[:5][runs.success[0]])


def test_the_budget_is_given_or_of_the_set_or_of_the_task(
    task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet
) -> None:
    few = evaluation.subset(slice(0, 3))
    short = replace(few, budget=7).subset(slice(1, 3)).spread(1)  # parts of a set keep its budget

    def executed(evaluation: EvaluationSet, budget: int | None = None) -> int:
        runs = control(task, model, {"random": LatentMSE()}, evaluation, RandomPolicy(), budget=budget)
        assert (runs.steps == runs.paths.shape[2] - 1).all()
        return runs.paths.shape[2] - 1

    assert executed(few) == task.action_budget == 90
    assert executed(short) == 7
    assert executed(short, budget=4) == executed(few, budget=4) == 4
    for wrong, budget in ((short, 0), (replace(few, budget=0), None), (few, -1)):
        with pytest.raises(ReachcostError, match="budget"):
            executed(wrong, budget)


def test_tie_break_makes_the_oracle_perfect(task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    runs = run(task, model, {"oracle": OracleGeodesic(model)}, evaluation, CategoricalCEM(tie_break=1e-3))
    assert runs.success.all()
    np.testing.assert_array_equal(runs.steps[0], task.distance(evaluation.starts, evaluation.goals))


class Watcher(ExactTopoNav):
    """Remembers every pool."""

    def __init__(self, task: TopoNav) -> None:
        super().__init__(task)
        self.pools: list[Tensor] = []

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        self.pools.append(actions[..., 0].clone())
        return super().rollout(context, actions)


def test_injected_candidates_take_the_last_places(task: TopoNav, model: ExactTopoNav) -> None:
    watched, cells = Watcher(task), task.cells[[0]]
    latent = model.encode({"state": cells})
    injected = np.full((1, 5, 13, 12), 3, np.uint8)
    streams = EpisodeStreams(0, "plan", [0], 0)
    context = PlanContext(watched, LatentMSE(), latent[:, None], latent, streams, injected=injected)
    plan = CategoricalCEM().plan(context)
    assert plan.shape == (1, 12, 1)
    assert len(watched.pools) == 5
    for pool in watched.pools:
        assert (pool[0, -13:] == 3).all()
        assert (pool[0, :-13] != 3).any()


def pools_of(task: TopoNav, planner: CategoricalCEM, **options: Any) -> list[Tensor]:
    """The pools [S, H] of one plan."""
    watched = Watcher(task)
    start, goal = (watched.encode({"state": task.cells[[cell]]}) for cell in (100, 140))
    streams = EpisodeStreams(0, "plan", [0], 0)
    planner.plan(PlanContext(watched, LatentMSE(), start[:, None], goal, streams, **options))
    return [pool[0] for pool in watched.pools]


def test_kept_elites_come_before_injected_candidates(task: TopoNav, model: ExactTopoNav) -> None:
    planner = CategoricalCEM(candidates=64, elites=8, keep_elites=6)
    injected = np.full((1, 5, 13, 12), 3, np.uint8)
    for places, options in ((0, {}), (13, {"injected": injected})):
        pools = pools_of(task, planner, **options)
        start, goal = (model.encode({"state": task.cells[[cell]]}) for cell in (100, 140))
        for before, after in itertools.pairwise(pools):
            costs = LatentMSE()(model.rollout(start[:, None], before[None, ..., None]), goal)[0]
            best = before[costs.argsort(stable=True)[:6]]
            kept = after[64 - places - 6 : 64 - places]
            assert sorted(kept.tolist()) == sorted(best.tolist())
            assert places == 0 or (after[-places:] == 3).all()


def test_a_warm_start_prefers_the_unexecuted_rest_of_the_last_plan(task: TopoNav) -> None:
    planner = CategoricalCEM(blocks=2, warm_start=True, candidates=2000)
    first = pools_of(task, planner, left=torch.arange(10).remainder(5)[None, :, None])[0]
    share = (first[:, :10] == torch.arange(10).remainder(5)).float().mean(0)
    assert share.numpy() == pytest.approx(np.full(10, 0.84), abs=0.04)
    assert (first[:, 10:] == 0).float().mean().item() == pytest.approx(0.2, abs=0.04)


def test_several_actions_of_a_plan_can_be_executed(
    task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet
) -> None:
    few, costs = evaluation.subset(slice(0, 4)), {"oracle": OracleGeodesic(model)}
    planner = CategoricalCEM(blocks=3, warm_start=True, keep_elites=4, tie_break=1e-3)
    runs = run(task, model, {**costs}, few, planner)
    assert runs.success.all()
    alone = run(task, model, {**costs}, few.subset(slice(2, 3)), planner)
    np.testing.assert_array_equal(alone.paths[0, 0], runs.paths[0, 2])


def test_wrong_input_is_refused(task: TopoNav, model: ExactTopoNav, evaluation: EvaluationSet) -> None:
    few, raw = evaluation.subset(slice(0, 2)), {"raw": LatentMSE()}

    def nan_cost(terminal: Tensor, goal: Tensor) -> Tensor:
        costs = LatentMSE()(terminal, goal)
        costs[1, 9] = torch.nan
        return costs

    class Blind(ExactTopoNav):
        def encode(self, observations):
            return super().encode(observations) * torch.nan

    foreign = {"foreign": HeadCost(PairHead(192, hidden=8))}
    wrong: dict[str, tuple[Any, ...]] = {
        "candidate 9 in episode 1": (model, {"nan": nan_cost}, few),
        "no episodes": (model, raw, evaluation.subset(slice(0, 0))),
        "costs=": (model, {}, few),
        "goal of episode 0": (Blind(task), raw, few),
        "dimension 192": (model, foreign, few),
    }
    for problem, parts in wrong.items():
        with pytest.raises(ReachcostError, match=problem):
            control(task, *parts)
    with pytest.raises(ReachcostError, match="proposal"):
        control(task, model, raw, few, CategoricalCEM(horizon=8), proposal=RouteProposal(task))


def test_more_actions_than_fit_in_a_byte_are_sampled() -> None:
    draws = torch.linspace(-32768, 32767, 5000).to(torch.int16)[None, None]
    assert sample(torch.full((1, 1, 300), 1 / 300), draws).unique().tolist() == list(range(300))
