"""CEM over action blocks, and control of TwoRoom with a bundled world model."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reachcost.audits.sasc import draw_pools, sasc
from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import DecodedDistance, HeadCost, HybridCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.actions import ActionBlocks
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.heads.kinds import PairHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.planning.planner import PlanContext, Planner, RandomPolicy
from reachcost.protocols import Observations
from reachcost.tasks.exact import ExactDynamics
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model

pytestmark = pytest.mark.processor


class Summing:
    """Latent = sum of the action blocks; remembers every pool."""

    latent_dim, action_dim = 2, 2

    def __init__(self) -> None:
        self.pools: list[Tensor] = []

    def encode(self, observations: Observations) -> Tensor:
        return torch.as_tensor(observations["state"])

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        self.pools.append(actions.clone())
        return context[:, -1, None] + actions.sum(2)


def streams(rows: int) -> EpisodeStreams:
    return EpisodeStreams(7, "plan", np.arange(rows), 0)


def test_the_default_samples_as_in_the_paper() -> None:
    model, planner = Summing(), CEM(horizon=3, candidates=40, iterations=4, elites=8)
    goal = torch.tensor([[3.0, -1.0], [0.5, 2.0]])
    plan = planner.plan(PlanContext(model, LatentMSE(), torch.zeros(2, 1, 2), goal, streams(2)))
    assert [tuple(pool.shape) for pool in model.pools] == [(2, 40, 3, 2)] * 4
    assert (model.pools[0][:, 0] == 0).all()
    assert abs(model.pools[0][:, 1:].mean()) < 0.2
    assert 0.85 < model.pools[0][:, 1:].std() < 1.15
    noise = streams(2)
    noise.normal(40, 3, 2)  # that of the first pool
    for pool, following in zip(model.pools, [*model.pools[1:], None], strict=True):
        costs = (pool.sum(2) - goal[:, None]).square().mean(-1)
        elites = torch.stack([rows[order[:8]] for rows, order in zip(pool, costs.argsort(dim=1), strict=True)])
        mean, std = elites.mean(1), elites.std(1)  # n - 1, and nothing added
        if following is None:
            assert torch.allclose(plan, mean, atol=1e-6)
        else:
            assert torch.allclose(following[:, 0], mean, atol=1e-6)
            sampled = torch.from_numpy(noise.normal(40, 3, 2))
            assert torch.allclose(following[:, 1:], (mean[:, None] + std[:, None] * sampled)[:, 1:], atol=1e-5)
    assert (plan.sum(1) - goal).abs().max() < 0.5


def test_replanning_reaches_more_goals_with_a_wrong_world_model() -> None:
    task = TwoRoom()
    goals = task.evaluation_set("high-distance").spread(30)
    wrong = ExactDynamics(TwoRoom(Layout(doors=((49.0, 24.0),))), load_world_model("lewm-tworoom-3072").actions)
    planners = {"paper": CEM(candidates=100, elites=10), "replanning": CEM.replanning(candidates=100, elites=10)}
    reached = {
        name: control(task, wrong, {"oracle": OracleGeodesic(wrong)}, goals, planner).success.sum()
        for name, planner in planners.items()
    }
    assert reached["replanning"] > reached["paper"]


GOAL = torch.tensor([[3.0, -1.0], [0.5, 2.0]])
FEW = CEM(horizon=3, candidates=40, iterations=4, elites=8)
BLOCKS = ActionBlocks((1.0, 0.0), (2.0, 1.0), (-1.0, -0.5), (1.5, 0.5), length=1)


class Blocked(Summing):
    actions = BLOCKS


def pools_of(planner: CEM, left: Tensor | None = None, remaining: int | None = None) -> tuple[Tensor, Tensor]:
    """The plan for two episodes, and every pool behind it [iterations, 2, S, H, A]."""
    model = Blocked()
    context = PlanContext(model, LatentMSE(), torch.zeros(2, 1, 2), GOAL, streams(2), left=left, remaining=remaining)
    return planner.plan(context), torch.stack(model.pools)


def test_the_best_candidate_can_be_executed() -> None:
    (mean, pools), (best, same) = pools_of(FEW), pools_of(replace(FEW, execute="best"))
    assert torch.equal(pools, same)
    costs = LatentMSE()(same[-1].sum(2), GOAL)
    for episode in range(2):
        assert torch.equal(best[episode], same[-1, episode, costs[episode].argmin()])
    assert not torch.allclose(best, mean)


def test_the_first_pool_has_the_given_mean_and_deviation() -> None:
    start = torch.tensor([[[1.0, 2.0]], [[-1.0, 0.0]]])
    _, default = pools_of(FEW)
    _, wide = pools_of(replace(FEW, deviation=2.0))
    _, warm = pools_of(replace(FEW, blocks=2, warm_start=True), start)
    assert torch.equal(pools_of(FEW, start)[1], default)  # only a warm start uses it
    assert torch.equal(wide[0], 2 * default[0])
    assert torch.equal(warm[0, :, 0, :1], start)
    assert (warm[0, :, 0, 1:] == 0).all()
    assert torch.allclose(warm[0] - warm[0, :, :1], default[0], atol=1e-6)


@pytest.mark.parametrize("given", ["logs", ((-1.0, -0.5), (1.5, 0.5)), (np.array([-1, -0.5]), np.array([1.5, 0.5]))])
def test_candidates_and_plans_stay_within_bounds(given: Any) -> None:
    plan, pools = pools_of(replace(FEW, bounds=given))
    low, high = torch.tensor(BLOCKS.low), torch.tensor(BLOCKS.high)
    for blocks in (plan, pools):
        actions = torch.from_numpy(BLOCKS.environment(blocks.numpy()))
        assert ((actions >= low - 1e-6) & (actions <= high + 1e-6)).all()
    assert (actions == high).any()
    assert torch.equal(pools, pools_of(replace(FEW, bounds="logs"))[1])


def test_one_number_bounds_every_component() -> None:
    _, pools = pools_of(replace(FEW, bounds=(-0.25, 0.25)))
    assert np.abs(BLOCKS.environment(pools.numpy())).max() == pytest.approx(0.25, abs=1e-6)


def test_kept_elites_take_the_last_places_of_the_next_pool() -> None:
    plain, kept = pools_of(FEW)[1], pools_of(replace(FEW, keep_elites=5))[1]
    assert torch.equal(plain[0], kept[0])
    for before, after in itertools.pairwise(kept):
        costs = LatentMSE()(before.sum(2), GOAL)
        for episode in range(2):
            best = before[episode, costs[episode].argsort()[:5]]
            assert {tuple(row.flatten().tolist()) for row in best} == {
                tuple(row.flatten().tolist()) for row in after[episode, -5:]
            }
    costs = torch.stack([LatentMSE()(pool.sum(2), GOAL).amin(1) for pool in kept])
    assert (costs.diff(dim=0) <= 0).all()  # the best is never lost


def test_correlated_noise_keeps_its_deviation() -> None:
    many = replace(FEW, horizon=6, candidates=4000, iterations=1, elites=2)
    for correlation in (0.0, 0.8):
        _, pools = pools_of(replace(many, correlation=correlation))
        noise = pools[0, 0, 1:]  # blocks of one action each
        assert torch.allclose(noise.std(0), torch.tensor(1.0), atol=0.08)
        measured = (noise[:, :-1] * noise[:, 1:]).mean((0, 2))
        assert torch.allclose(measured, torch.tensor(correlation), atol=0.08)


def test_a_block_holds_several_correlated_actions() -> None:
    class Pairs(Blocked):
        action_dim, latent_dim = 4, 4
        actions = replace(BLOCKS, length=2)

    model = Pairs()
    planner = CEM(horizon=2, candidates=4000, iterations=1, elites=2, correlation=0.9)
    planner.plan(PlanContext(model, LatentMSE(), torch.zeros(1, 1, 4), torch.zeros(1, 4), streams(1)))
    actions = model.pools[0][0, 1:].view(-1, 4, 2)
    assert torch.allclose((actions[:, :-1] * actions[:, 1:]).mean(0), torch.tensor(0.9), atol=0.08)


def test_a_shrinking_plan_ends_with_the_budget() -> None:
    shrinking = replace(FEW, blocks=1, shrink=True)
    for remaining, blocks in ((7, 3), (2, 2), (1, 1)):
        plan, pools = pools_of(shrinking, remaining=remaining)
        assert plan.shape[1] == pools.shape[3] == blocks
    assert pools_of(replace(FEW, blocks=1), remaining=1)[0].shape[1] == FEW.horizon
    assert pools_of(replace(shrinking, warm_start=True), torch.ones(2, 2, 2), remaining=1)[0].shape[1] == 1
    with pytest.raises(ReachcostError, match="remaining"):
        pools_of(shrinking, remaining=0)


WRONG: dict[str, tuple[Any, ...]] = {
    "horizon": (0,),
    "iterations": (0,),
    "elites": (1, 301),
    "execute": ("worst",),
    "correlation": (1.0, -0.1),
    "blocks": (0, 6),
    "warm_start": (True,),
    "deviation": (0.0, float("nan")),
    "least_deviation": (-1.0,),
    "temperature": (-1.0, float("inf")),
    "logged_among": (10,),
    "keep_elites": (-1, 31),
    "bounds": ("space", (1.0,), 1.0),
}


@pytest.mark.parametrize("option", WRONG)
def test_wrong_options_are_refused_by_name(option: str) -> None:
    for value in WRONG[option]:
        with pytest.raises(ReachcostError, match=rf"^CEM\(.*{option}="):
            CEM(**{option: value})


@pytest.mark.parametrize("bounds", [(1.0, -1.0), ((-1.0,) * 3, 1.0)])
def test_wrong_bounds_are_refused(bounds: Any) -> None:
    with pytest.raises(ReachcostError, match="action bounds"):
        pools_of(replace(FEW, bounds=bounds))


@pytest.mark.parametrize("option", [{"bounds": "logs"}, {"correlation": 0.5}])
def test_options_in_units_of_actions_need_action_blocks(option: dict[str, Any]) -> None:
    with pytest.raises(ReachcostError, match="with_actions"):
        replace(FEW, **option).plan(PlanContext(Summing(), LatentMSE(), torch.zeros(2, 1, 2), GOAL, streams(2)))


def test_settings_are_plain_numbers_for_records() -> None:
    given: Any = (np.array([-1, -2], np.float32), 3)
    assert CEM(bounds=given).bounds == ((-1.0, -2.0), 3.0)


@pytest.fixture(scope="module")
def goals(world: TwoRoom) -> EvaluationSet:
    return world.evaluation_set("balanced").subset(slice(0, 4))


SHORT = CEM(candidates=40, iterations=3, elites=6)


def test_an_episode_is_the_same_alone_and_on_any_number_of_threads(
    world: TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet
) -> None:
    torch.manual_seed(0)
    costs = {"raw": LatentMSE(), "head": HeadCost(PairHead(192, hidden=32).eval().requires_grad_(False))}
    full = control(world, lewm, costs, goals, SHORT, seed=5)
    threads = torch.get_num_threads()
    for number, name in enumerate(costs):
        for row in range(len(goals)):
            torch.set_num_threads(1 + row % 2)
            alone = control(world, lewm, {name: costs[name]}, goals.subset(slice(row, row + 1)), SHORT, seed=5)
            np.testing.assert_array_equal(alone.paths[0, 0], full.paths[number, row])
    torch.set_num_threads(threads)


class Watched(Planner):
    """Plans as another planner, and remembers contexts and plans."""

    def __init__(self, planner: CEM) -> None:
        self.planner, self.executed = planner, planner.executed
        self.contexts: list[PlanContext] = []
        self.plans: list[Tensor] = []

    def plan(self, context: PlanContext) -> Tensor:
        self.contexts.append(context)
        self.plans.append(self.planner.plan(context))
        return self.plans[-1]


def test_the_full_plan_is_executed_until_the_budget_ends(
    world: TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet
) -> None:
    watched = Watched(SHORT)
    runs = control(world, lewm, {"raw": LatentMSE()}, goals, watched)
    assert runs.paths.shape == (1, 4, 51, 2)
    assert len(watched.plans) == 2
    here = goals.starts
    for plan in watched.plans:
        for actions in lewm.actions.environment(plan.numpy()).reshape(4, 25, 2).transpose(1, 0, 2):
            here = world.step(here, actions)
    np.testing.assert_array_equal(here, runs.paths[0, :, -1])
    near = world.success(runs.paths[0, :, 1:], goals.goals[:, None])
    np.testing.assert_array_equal(runs.success[0], near.any(1))
    np.testing.assert_array_equal(runs.steps[0], np.where(near.any(1), near.argmax(1) + 1, 50))


def test_a_warm_start_is_the_unexecuted_rest_of_the_last_plan(
    world: TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet
) -> None:
    planner, raw = replace(SHORT, blocks=2, warm_start=True), {"raw": LatentMSE()}
    watched = Watched(planner)
    runs = control(world, lewm, raw, goals, watched)
    first, *others = watched.contexts
    assert first.left is None
    assert len(others) == 4  # 50 actions, two blocks of five at a time
    for context, last in zip(others, watched.plans, strict=False):
        assert context.left is not None
        assert torch.equal(context.left, last[:, 2:])
    alone = control(world, lewm, raw, goals.subset(slice(2, 3)), planner)
    np.testing.assert_array_equal(alone.paths[0, 0], runs.paths[0, 2])
    cold = control(world, lewm, raw, goals, replace(planner, warm_start=False))
    assert (cold.paths != runs.paths).any()


def test_planners_get_the_remaining_number_of_blocks(
    world: TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet
) -> None:
    small = CEM(horizon=3, candidates=8, iterations=1, elites=2, blocks=2, warm_start=True, shrink=True)
    watched = Watched(small)
    runs = control(world, lewm, {"raw": LatentMSE()}, goals, watched, budget=33)
    assert [context.remaining for context in watched.contexts] == [7, 5, 3, 1]
    assert [plan.shape[1] for plan in watched.plans] == [3, 3, 3, 1]  # blocks of five actions, the last one cut
    assert runs.paths.shape[2] == 34


def test_the_oracle_reaches_goals_behind_the_door(world: TwoRoom) -> None:
    exact = ExactDynamics(world, ActionBlocks.of(world.generate_logs(episodes=50), 5))
    across = world.evaluation_set("high-distance")
    across = across.subset(np.flatnonzero(world.layout.doorway_required(across.starts, across.goals))[:20])
    runs = control(world, exact, {"oracle": OracleGeodesic(exact), "straight": LatentMSE()}, across, CEM())
    oracle, straight = runs.success.mean(1)
    assert oracle > 0.85
    assert straight < 0.7


def test_the_random_policy_stays_in_the_logged_range(world: TwoRoom, lewm: JepaWorldModel) -> None:
    goals = world.evaluation_set("high-distance")
    plan = RandomPolicy().plan(PlanContext(lewm, LatentMSE(), torch.zeros(2, 1, 192), torch.zeros(2, 192), streams(2)))
    actions = lewm.actions.unroll(plan.numpy())
    assert actions.shape == (2, 5, 2)
    assert np.abs(actions).max() <= 1 + 1e-6
    assert not np.array_equal(actions[0], actions[1])
    runs = control(world, lewm, {"random": LatentMSE()}, goals, RandomPolicy())
    assert runs.success.mean() < 0.1
    assert runs.paths.shape == (1, 100, 51, 2)


def test_sasc_rolls_out_a_pool_and_executes_it(world: TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet) -> None:
    pools = draw_pools(world, lewm, goals, candidates=50)
    assert np.array_equal(pools[2:3], draw_pools(world, lewm, goals.subset(slice(2, 3)), candidates=50))
    exact = ExactDynamics(world, lewm.actions)
    audit = sasc(world, exact, {"oracle": OracleGeodesic(exact)}, goals, pools)
    np.testing.assert_allclose(audit.scores["oracle"], audit.diagnostic, rtol=1e-5)
    assert audit.rankings["oracle"].spearman == pytest.approx(np.ones(4))
    learned = sasc(world, lewm, {"raw": LatentMSE()}, goals, pools)
    np.testing.assert_array_equal(learned.diagnostic, audit.diagnostic)


def test_parts_that_do_not_fit_are_refused(world: TwoRoom, lewm: JepaWorldModel, goals: EvaluationSet) -> None:
    small = encode_logs(lewm, world.generate_logs(episodes=20, seed=9), cache=False)
    head = HeadCost(fit(TemporalPairs(small, count=200, validation=20), Recipe(hidden=8, epochs=1)))
    raw, other = LatentMSE(), load_world_model("lewm-tworoom-3073")
    narrow = ExactDynamics(world, ActionBlocks((0.0,), (1.0,), (-1.0,), (1.0,), length=5))
    probe = DecodedDistance(LinearProbe(torch.zeros(10, 2), torch.zeros(2)))
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        (r"3072.*3073", (world, other, {"trm": head}, goals)),
        (r"3072.*3073", (world, other, {"trm": HybridCost(raw, head)}, goals)),
        ("dimension 192", (world, ExactDynamics(world, lewm.actions), {"trm": head}, goals)),
        (r"49.0.*150.0", (TwoRoom(Layout(doors=((150.0, 14.0),))), lewm, {"raw": raw}, goals)),
        (r"TopoNav.*TwoRoom", (world, lewm, {"raw": raw}, TopoNav().evaluation_set(episodes=2))),
        ("tworoom", (world, narrow, {"raw": raw}, goals)),
        ("probe", (world, lewm, {"decoded": probe}, goals)),
    ]
    for problem, parts in wrong:
        with pytest.raises(ReachcostError, match=problem):
            control(*parts, planner=SHORT)
    with pytest.raises(ReachcostError, match=r"3072.*3073"):
        sasc(world, other, {"trm": head}, goals, draw_pools(world, other, goals, candidates=5))


def test_mppi_weighs_candidates_by_cost_and_keeps_the_deviation() -> None:
    class Last(Summing):
        latent_dim, action_dim = 1, 1

    model, goal = Last(), torch.full((1, 1), 3.0)
    planner = CEM.mppi(horizon=1, candidates=400, iterations=6)
    numbers = EpisodeStreams(0, "plan", [0], 0)
    plan = planner.plan(PlanContext(model, LatentMSE(), torch.zeros(1, 1, 1), goal, numbers))
    assert plan.item() == pytest.approx(3.0, abs=0.3)
    assert all(pool.std().item() == pytest.approx(1.0, abs=0.15) for pool in model.pools)
    last, costs = model.pools[-1][0, :, 0, 0], (model.pools[-1][0, :, 0, 0] - 3).square()
    weights = torch.softmax(-(costs - costs.min()) / (0.2 * costs.std()), 0)
    assert plan.item() == pytest.approx((weights * last).sum().item(), abs=1e-5)
