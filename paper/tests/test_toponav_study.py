"""TopoNav's study: the paper's candidates."""

import numpy as np
import pytest

from reachcost.core.seeding import EpisodeStreams
from reachcost.data.evaluation import EvaluationSet
from reachcost.tasks.toponav.task import TopoNav
from reachcost_paper.toponav.pools import RouteProposal, sasc_pool

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
