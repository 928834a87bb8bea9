"""A new world needs one file: `toy.py` takes part in everything that the bundled worlds do."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.experiments.tables import make_table
from reachcost.results.stats import compare_rankings

from .small import contents
from .toy import METRICS, PLANNER, RECIPE, STUDY, Corridor, Sketch

TASK, MODEL = Corridor(), Sketch(Corridor())
GOALS = TASK.evaluation_set()


@pytest.fixture(scope="module")
def logs() -> rc.Logs:
    return TASK.generate_logs(400)


@pytest.fixture(scope="module")
def head(logs: rc.Logs) -> rc.heads.LearnedHead:
    return rc.repair(MODEL, logs, exclude=GOALS, pairs=12_000, recipe=RECIPE)


def test_world_and_model_fulfil_their_contracts(logs: rc.Logs) -> None:
    assert set(rc.check_task(TASK)) == {"render", "coordinates", "groups", "category", "bottleneck", "plane", "handles"}
    actions = torch.from_numpy(np.random.default_rng(0).integers(3, size=(2, 8, 5, 1)))
    rc.check_world_model(MODEL, TASK.observe(GOALS.starts[[0, -1]]), actions)


def test_the_repair_turns_back_for_the_key(head: rc.heads.LearnedHead) -> None:
    costs = {"raw": rc.LatentMSE(), "repaired": rc.HeadCost(head), "oracle": rc.costs.OracleGeodesic(MODEL)}
    raw, repaired, oracle = rc.control(TASK, MODEL, costs, GOALS, PLANNER).success.mean(1)
    assert raw < 0.1 < 0.8 < repaired <= oracle == 1
    found = rc.sasc(TASK, MODEL, costs, GOALS).rankings
    assert found["raw"].spearman.mean() < 0 < 0.5 < found["repaired"].spearman.mean()
    assert head.record["pairs"]["exclusion"]["overlapping_pairs"] == 0


def test_every_stage_of_its_planner_is_measured(logs: rc.Logs, head: rc.heads.LearnedHead) -> None:
    latents = rc.encode_logs(MODEL, logs)
    before = rc.audit_planner(MODEL, latents, None, TASK, GOALS, PLANNER)
    after = rc.audit_planner(MODEL, latents, rc.HeadCost(head), TASK, GOALS, PLANNER)
    assert (before.verdict, after.verdict) == ("ranking", "none")
    assert {stage.name for stage in after.stages if stage.outcome != "pass"} == {"foresight"}
    missing = {stage.name for stage in before.stages if stage.value is None}
    assert missing == {"coverage", "foresight"}  # latent distance learned from no logs, and ranking fails


def test_unreachable_ends_rank_last_and_are_not_labels() -> None:
    logs, model = TASK.generate_logs(20), rc.tasks.ExactDynamics(TASK)
    latents = rc.encode_logs(model, logs, cache=False)
    assert np.isinf(TASK.distance(np.array([[3, 1]]), np.array([[3, 0]]))).all()
    pairs = rc.labels.OraclePairs(latents, TASK, count=500, validation=50)
    assert torch.isfinite(pairs.train.gap).all()
    goals = rc.EvaluationSet(np.array([[2, 0]]), np.array([[6, 0]]))
    pools = np.random.default_rng(0).integers(3, size=(1, 300, 4, 1))
    audit = rc.sasc(TASK, model, {"oracle": rc.costs.OracleGeodesic(model)}, goals, pools)
    assert np.isinf(audit.diagnostic).any()
    assert not np.isinf(audit.diagnostic).all()
    assert audit.rankings["oracle"].spearman[0] == pytest.approx(1)
    with pytest.raises(rc.ReachcostError, match="diagnostic cost"):
        compare_rankings({}, np.full((1, 3), np.nan))


@pytest.mark.slow
def test_its_study_is_recorded_tabulated_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(STUDY, "keys", tmp_path, episodes=12)
    means = {row.cost: row for row in table.rows if row.seed is None}
    assert list(means) == ["raw", "trm", "oracle", "random", "trm minus raw"]
    assert all(means[cost].ours.keys() == {*METRICS} for cost in ("raw", "trm", "oracle"))
    assert means["trm minus raw"].interval["success"][0] > 50
    audited = json.loads((tmp_path / "tables" / "keys.json").read_text())["rows"][-1]
    assert {name for name, outcome in audited["outcomes"].items() if outcome != "pass"} == {"foresight"}
    kinds = {path.parent.name for path in tmp_path.glob("runs/corridor/*/*")}
    assert kinds == {"heads", "control", "sasc", "audits"}
    before = contents(tmp_path)
    for part in (
        "experiment.fit",
        "experiment.encode_logs",
        "experiment.roll_out",
        "runs.control",
        "runs.audit_planner",
    ):
        monkeypatch.setattr(f"reachcost.experiments.{part}", None)  # nothing is computed a second time
    make_table(STUDY, "keys", tmp_path, episodes=12)
    assert contents(tmp_path) == before
