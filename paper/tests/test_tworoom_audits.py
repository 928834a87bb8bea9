"""Small audit tables of TwoRoom, computed: they are complete, have valid intervals and pictures, and are read back."""

from pathlib import Path

import pytest

from reachcost.results.figures import Dot, draw_dots
from reachcost_paper.tworoom import STUDY
from tests.small import contents, small_table

SLOW = {"logged-audit", "layouts-unseen"}  # encode unseen episodes, or imagine
LONGER = {"subspace", "layout", "coverage-repair", "tworoom-solved", "budget"}
QUICKLY_MADE = sorted({*STUDY.table_groups["audits"], *STUDY.table_groups["beyond"]} - SLOW)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONGER else []) for name in QUICKLY_MADE]
)
@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")
def test_a_small_audit_is_complete_and_read_back(name: str, out: Path) -> None:
    plan, rows = STUDY.tables[name], small_table("tworoom", name, out)["rows"]
    assert {metric for row in rows for metric in row["ours"]} == {*plan.metrics}
    for row in rows:
        assert row["interval"].keys() <= row["ours"].keys()
        assert (row["paper"] or {}).keys() <= {*plan.metrics}
        for metric, (low, high) in row["interval"].items():
            assert low - 1e-4 <= row["ours"][metric] <= high + 1e-4
    lines = [(row["cost"], row["model"], row["seed"], row.get("setting"), *row["ours"]) for row in rows]
    assert len({*lines}) == len(lines)
    picture = out / "figures" / f"{name}.png"
    assert picture.exists() == bool(plan.drawn or plan.picture)
    before = contents(out)
    small_table("tworoom", name, out)
    assert contents(out) == before  # the second time everything is read back, and drawn with the same bytes


def test_pictures_can_be_drawn_without_intervals_and_paper(tmp_path: Path) -> None:
    dots = [Dot("one", "group", {"success": 3.0}), Dot("two", "other", {}, {}, {"success": 4.0})]
    draw_dots(dots, {"success": "success %"}, tmp_path / "dots.png", "Two rows", {"success": (2.0, "half")})
    assert (tmp_path / "dots.png").read_bytes().startswith(b"\x89PNG")
