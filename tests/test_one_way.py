"""Infinite oracle distances, in a world with paths in one direction only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reachcost.audits.sasc import draw_pools, sasc
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import encode_logs
from reachcost.errors import ReachcostError
from reachcost.labels.oracle import OraclePairs
from reachcost.results.stats import compare_rankings
from reachcost.tasks.exact import ExactDynamics
from tests.toy import Corridor


def test_unreachable_ends_rank_last_and_are_not_labels() -> None:
    task, logs = Corridor(), Corridor().generate_logs(20)
    model = ExactDynamics(task)
    latents = encode_logs(model, logs, cache=False)
    assert np.isinf(task.distance(np.array([[3, 1]]), np.array([[3, 0]]))).all()
    pairs = OraclePairs(latents, task, count=500, validation=50)
    assert torch.isfinite(pairs.train.gap).all()
    goals = EvaluationSet(np.array([[2, 0]]), np.array([[6, 0]]))
    audit = sasc(task, model, {"oracle": OracleGeodesic(model)}, goals, draw_pools(task, model, goals, horizon=4))
    assert np.isinf(audit.diagnostic).any()
    assert not np.isinf(audit.diagnostic).all()
    assert audit.rankings["oracle"].spearman[0] == pytest.approx(1)
    with pytest.raises(ReachcostError, match="diagnostic cost"):
        compare_rankings({}, np.full((1, 3), np.nan))
