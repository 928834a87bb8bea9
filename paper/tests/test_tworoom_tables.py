"""The TwoRoom study: heads exclude the set they run on, sets of other logs, and the checks of the exclusion."""

from dataclasses import replace
from pathlib import Path

import pytest

from reachcost.experiments.experiment import Experiment
from reachcost.labels.exclusion import Exclusion
from reachcost.tasks.tworoom import TwoRoom
from reachcost_paper.tworoom import STUDY
from reachcost_paper.tworoom.settings import LAYOUTS, LEWM
from tests.small import EPISODES, STUDIES, contents, small_table


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The published study; no run is computed here."""
    sets_drawn_once = replace(STUDY, foreign_sets=STUDIES["tworoom"].foreign_sets)
    return Experiment(sets_drawn_once, tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tworoom")


def test_the_exclusion_table_shows_no_overlap(out: Path) -> None:
    rows = small_table("tworoom", "exclusion", out)["rows"]
    means = {row["cost"]: row for row in rows if row["seed"] is None}
    assert all(row["n"] == 3 * EPISODES["tworoom"] for row in means.values())
    assert means["oracle"]["ours"]["rho_geo"] == 1
    checks = [row for row in rows if row["seed"] is not None]
    assert len(checks) == 3 * len(LEWM)
    assert all(row["ours"]["row_overlap"] == row["ours"]["episode_overlap"] == 0 for row in checks)


@pytest.mark.slow
def test_the_ablation_has_heads_for_each_set(out: Path) -> None:
    small_table("tworoom", "temporal-ablation", out)
    trained = {path.name for path in out.glob("runs/tworoom/heads/lewm-3072-trm-without-*")}
    assert trained == {f"lewm-3072-trm-without-distance-controlled{far}" for far in ("", "-far")}
    before = contents(out)
    small_table("tworoom", "temporal-ablation", out)
    assert contents(out) == before


@pytest.mark.slow
def test_fresh_sets_have_other_logs_and_the_same_rule(published: Experiment) -> None:
    for name in ("fresh-1", "fresh-2"):
        fresh = published.evaluation(name)
        assert len(fresh) == 100
        assert not Exclusion(published.logs, [fresh]).episodes.size  # no training episode contains its states
        geodesic = published.task.distance(fresh.starts, fresh.goals)
        assert 120 <= geodesic.min() <= geodesic.max() <= 205


def test_a_head_excludes_the_set_it_runs_on(published: Experiment) -> None:
    for name in published.task.sets:
        assert published.excluded(name) == name
        assert Exclusion(published.logs, [published.evaluation(name)]).episodes.size > 70
    for name in (None, *STUDY.foreign_sets):
        assert published.excluded(name) == "high-distance"


def test_every_layout_has_a_separate_evaluation_set(published: Experiment) -> None:
    for name, layout in LAYOUTS.items():
        world, goals = published.place(name)
        assert isinstance(world, TwoRoom)
        assert world.layout == layout
        assert len(goals) == 100
        assert goals.world == world.world
        assert (layout.room(goals.starts) != layout.room(goals.goals)).sum() == 50
