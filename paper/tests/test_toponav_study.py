"""TopoNav's study: the paper's candidates, its world model and costs as tables, and its p-values."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import HeadCost, HybridCost, LatentMSE
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.heads.kinds import PairHead
from reachcost.protocols import TerminalCost
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost_paper.rows import sign_flip_test
from reachcost_paper.toponav.recipes import RouteProposal, sasc_pool
from reachcost_paper.toponav.tabular import tabulate

pytestmark = pytest.mark.processor


def test_thirteen_proposed_candidates(task: TopoNav, evaluation: EvaluationSet) -> None:
    streams = EpisodeStreams(0, "plan", evaluation.episodes, 0)
    pool = RouteProposal(task)(evaluation.starts, evaluation.goals, streams)
    route = task.routes(evaluation.starts, evaluation.goals, 12)
    assert pool.shape == (120, 5, 13, 12)
    assert (pool[:, :, 0] == 0).all()
    assert (pool[:, :, 1] == route[:, None]).all()
    changed = (pool[:, :, 2:] != route[:, None, None]).mean()
    assert changed == pytest.approx(0.096, abs=0.004)
    assert not (pool[:, 0, 2:] == pool[:, 1, 2:]).all()


def test_sasc_pool_is_stay_route_and_uniform(task: TopoNav, evaluation: EvaluationSet) -> None:
    pool = sasc_pool(task, evaluation, 3072)
    assert pool.shape == (120, 256, 12, 1)
    assert (pool[:, 0] == 0).all()
    assert (pool[:, 1, :, 0] == task.routes(evaluation.starts, evaluation.goals, 12)).all()
    assert np.bincount(pool[:, 2:].ravel()) / pool[:, 2:].size == pytest.approx([0.2] * 5, abs=0.003)
    subset = evaluation.subset(np.array([7, 3]))
    np.testing.assert_array_equal(sasc_pool(task, subset, 3072), pool[[7, 3]])


def test_tabular_form_is_equal(model: ExactTopoNav, task: TopoNav, evaluation: EvaluationSet, head: PairHead) -> None:
    goal = model.encode(task.observe(evaluation.goals[:9]))
    context = model.encode(task.observe(evaluation.starts[:9]))[:, None]
    actions = torch.randint(5, (9, 64, 12, 1), generator=torch.Generator().manual_seed(0))
    costs: dict[str, TerminalCost] = {"raw": LatentMSE(), "head": HeadCost(head), "oracle": OracleGeodesic(model)}
    costs["hybrid"] = HybridCost(costs["raw"], costs["head"], weight=0.5)
    table_model, tables = tabulate(model, costs)
    observations = task.observe(evaluation.starts[:9])
    terminal = table_model.rollout(table_model.encode(observations)[:, None], actions)
    table_goal = table_model.encode(task.observe(evaluation.goals[:9]))
    for name, cost in costs.items():
        direct = cost(model.rollout(context, actions), goal)
        torch.testing.assert_close(tables[name](terminal, table_goal), direct, rtol=1e-5, atol=1e-5)


def test_tables_do_not_depend_on_the_other_goals(model: ExactTopoNav, head: PairHead) -> None:
    terminal, goals = torch.arange(677)[None, :, None].expand(3, -1, -1), torch.tensor([[3], [99], [400]])
    together = tabulate(model, {"head": HeadCost(head)})[1]["head"](terminal, goals)
    alone = tabulate(model, {"head": HeadCost(head)})[1]["head"](terminal[:1], goals[1:2])
    assert torch.equal(together[1:2], alone)


@given(st.lists(st.integers(-120, 120), min_size=1, max_size=7))
def test_sign_flip_equals_integer_arithmetic(counts: list[int]) -> None:
    flips = [sum(s * c for s, c in zip(signs, counts, strict=True)) for signs in product((-1, 1), repeat=len(counts))]
    expected = sum(abs(flip) >= abs(sum(counts)) for flip in flips) / len(flips)
    assert sign_flip_test(100 * np.array(counts) / 120) == expected
