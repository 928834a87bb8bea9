"""The table of label sources: a world of a study or of the suite becomes a place, and a way in it a line."""

from __future__ import annotations

from pathlib import Path

from reachcost.studies.experiment import Recording
from reachcost.studies.suite import STUDY
from reachcost.studies.suite.labels import BOUNDS, HEADS, OTHERS, SETTINGS, UNRANKED, Place, _row, paper_studies
from reachcost.worlds import suite
from reachcost.worlds.sets import EPISODES

from .small import STUDIES


def test_every_way_has_settings_or_learns_nothing() -> None:
    assert {*HEADS, *OTHERS} - {*SETTINGS} == {"raw", *BOUNDS}
    assert {*UNRANKED} <= {*OTHERS}
    assert {study.name for study in paper_studies()} > {*STUDIES}


def test_a_line_is_of_all_episodes_and_read_back(tmp_path: Path) -> None:
    place = Place.of_study(STUDIES["toponav"])
    assert len(place.goals) == EPISODES
    assert len(place.kept_out[1]) > EPISODES  # the whole set is kept out of training
    for name in ("raw", *BOUNDS):
        lines = [_row(Recording(STUDY, tmp_path), place, name) for _ in range(2)]
        assert lines[0] == lines[1]
        assert (lines[0].model, lines[0].n) == ("toponav", EPISODES)
        assert ("rho_geo" in lines[0].ours, "operations" in lines[0].ours) == (name == "raw", name == "raw")
    assert _row(Recording(STUDY, tmp_path), place, "raw", {"raw": "other"}).cost == "other"


def test_a_world_of_the_suite_reports_one_set_and_keeps_both_out(tmp_path: Path) -> None:
    place = Place.of_world(Recording(STUDY, tmp_path), suite()["open"])
    assert [one.name for one in place.kept_out] == ["report", "tune"]
    assert place.goals.name == "report"
