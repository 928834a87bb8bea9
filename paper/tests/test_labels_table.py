"""The tables of label sources and of rollouts: worlds with their records, and methods as rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from reachcost.costs.latent import LatentMSE
from reachcost.experiments.cells import Recording
from reachcost.heads.inverse import InverseDynamics
from reachcost.heads.kinds import EuclideanHead
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.planner import InversePolicy
from reachcost.results.records import read_run
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_paper.suite import STUDY, labels
from reachcost_paper.suite.labels import (
    BOUNDS,
    HEADS,
    OTHERS,
    SETTINGS,
    UNRANKED,
    MethodRun,
    Place,
    method_row,
    multiply_adds,
    paper_studies,
    place_of,
)
from reachcost_paper.worlds import suite
from reachcost_paper.worlds.tasks import EPISODES
from tests.cells import record
from tests.small import STUDIES


def test_every_method_that_learns_has_settings() -> None:
    assert {*HEADS, *OTHERS} - {*SETTINGS} == {"raw", *BOUNDS}
    assert {*UNRANKED} <= {*OTHERS}
    assert {study.name for study in paper_studies()} > {*STUDIES}


def test_a_row_has_all_episodes_and_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.of_study(STUDIES["toponav"])
    monkeypatch.setattr(labels, "place_of", lambda recording, world: place)
    subset, full = place.excluded
    assert len(subset) == len(place.goals) == EPISODES < len(full)  # the full set is excluded from training
    record(*Recording(STUDY, tmp_path).cells(MethodRun("toponav", name) for name in ("raw", *BOUNDS)))
    for name in ("raw", *BOUNDS):
        row, again = (method_row(Recording(STUDY, tmp_path), "toponav", name, {"raw": "other"}) for _ in range(2))
        assert row == again
        assert (row.model, row.n, row.cost) == ("toponav", EPISODES, "other" if name == "raw" else name)
        assert {"rho_geo", "operations"} & {*row.ours} == ({"rho_geo", "operations"} if name == "raw" else set())
    config = read_run(tmp_path / "runs" / "suite" / "labels" / "toponav-raw").manifest["config"]
    assert config["evaluation_set_sha256"] == subset.fingerprint
    assert config["full_set_sha256"] == full.fingerprint


def test_planners_of_one_place_share_its_head_and_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HEADS, labels.BUDGET_COST, lambda place: EuclideanHead(place.model.latent_dim, scale=1.0))
    small = {"CEM 6 x 1": CEM(3, 6, 1, 2), "from logs 8 x 1": CEM.experienced(horizon=3, candidates=8, iterations=1)}
    monkeypatch.setattr(labels, "planners", lambda own: small)
    runs = [labels.BudgetRun("open"), *(MethodRun("open", name) for name in BOUNDS)]
    record(*Recording(STUDY, tmp_path).cells(runs))
    rows, again = (labels.world_rows(Recording(STUDY, tmp_path), "open") for _ in range(2))
    assert rows == again
    assert [row.setting for row in rows] == [*small, "", ""]
    assert [row.n for row in rows] == [EPISODES * len(labels.PLANNER_SEEDS)] * 2 + [EPISODES] * 2
    config = read_run(tmp_path / "runs" / "suite" / "budget" / "open").manifest["config"]
    goals = place_of(Recording(STUDY, tmp_path), "open").goals
    assert config["evaluation_set_sha256"] == goals.fingerprint
    assert goals.name == "report"


def test_fewer_rollouts_are_a_sixteenth_and_an_eighth_in_every_world() -> None:
    for world in suite().values():
        own = world.planner
        assert isinstance(own, CEM | CategoricalCEM)
        full, *others = labels.planners(own).values()
        shares = [one.candidates * one.iterations / (full.candidates * full.iterations) for one in others]
        assert all(0.06 <= share <= 0.0625 for share in shares[:-1])
        assert 0.12 <= shares[-1] <= 0.125
        assert {(one.horizon, one.blocks) for one in (full, *others)} == {(own.horizon, own.blocks)}


def test_operations_are_those_of_the_search_or_of_the_network_of_a_policy(world: TwoRoom, lewm: JepaWorldModel) -> None:
    goals = world.evaluation_set("high-distance").spread(2)
    small = CEM(horizon=2, candidates=20, iterations=3, elites=4)
    network = InverseDynamics(lewm.latent_dim, lewm.action_dim, discrete=False, hidden=64).requires_grad_(False)
    planners = (replace(small, candidates=40), replace(small, iterations=6), replace(small, blocks=1))
    once, direct, *others = (
        multiply_adds(world, lewm, LatentMSE(), goals, planner)
        for planner in (small, InversePolicy(network), *planners)
    )
    assert others == [2 * once, 2 * once, 2 * once]
    products = sum(weight.numel() for weight in network.parameters() if weight.ndim == 2)
    assert direct == round(products / lewm.actions.length)
