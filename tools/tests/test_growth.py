"""`reachcost bench --growth`: small curves are measured, recorded and drawn, and the published record is complete."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reachcost.cli import main
from reachcost_tools.bench.growth import (
    MOST_MEMORY,
    Curve,
    Point,
    Prepare,
    all_curves,
    exponent,
    figure_in,
    idle,
    in_new_process,
    measured,
    missed_targets,
    path_in,
    table,
)
from tests.processes import dying, holding

ROOT = Path(__file__).parents[2]
PUBLISHED = path_in(ROOT / "results")
SIZES = (1, 2, 4, 8)


def linear(size: int, _: Path) -> Callable[[], object]:
    return lambda: 0.002 * size


def quadratic(size: int, _: Path) -> Callable[[], object]:
    return lambda: 0.001 * size**2


def failing(size: int, _: Path) -> Callable[[], object]:
    if size == SIZES[-1]:
        raise ValueError("too much of it")
    return lambda: 0.002


def curve(name: str, prepare: Prepare) -> Curve:
    return Curve(name, "small", "naps", SIZES, prepare)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Make the command measure other curves, in this process, as starting another takes seconds."""

    def measure(*curves: Curve, memory: float = 100.0) -> None:
        def point(prepare: Prepare, size: int) -> Point:
            return measured(prepare, size, tmp_path)._replace(memory=memory)

        monkeypatch.setattr("reachcost_tools.bench.growth.seconds_of", lambda side: side.work() or 0.0)
        monkeypatch.setattr("reachcost_tools.bench.growth.in_new_process", point)
        monkeypatch.setattr("reachcost_tools.bench.growth.all_curves", lambda: [*curves])

    return measure


def test_linear_work_is_recorded_and_drawn(
    here: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here(replace(curve("sleep by naps", linear), most=1.5))
    assert main(["bench", "--growth", "--out", str(tmp_path)]) == 0
    record = json.loads(path_in(tmp_path).read_text())
    row = record["curves"]["sleep by naps"]
    assert row["sizes"] == [*SIZES]
    assert row["seconds"] == sorted(row["seconds"])
    assert row["slope"] == pytest.approx(1, abs=0.4)
    assert row["peak_memory_mb"] == [100] * len(SIZES)
    assert {"machine", "versions", "threads", "idle_memory_mb", "load_per_core_before"} < {*record}
    assert figure_in(tmp_path).read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert all(line in shown for line in table(record))


def test_more_time_or_memory_than_the_target_fails(
    here: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here(replace(curve("sleep by naps", linear), most=1.5), curve("sleep by squares", quadratic))
    assert main(["bench", "--growth", "--out", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "sleep by squares grows" in error
    assert "sleep by naps" not in error
    assert json.loads(path_in(tmp_path).read_text())["curves"]["sleep by squares"]["slope"] > 1.5
    here(replace(curve("sleep by naps", linear), most=9.0), memory=MOST_MEMORY + 1)
    assert main(["bench", "--growth"]) == 1
    assert "2,001 MB" in capsys.readouterr().err


def test_a_size_that_fails_is_recorded_and_the_others_are_kept(
    here: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here(curve("sleep by naps", failing))
    assert main(["bench", "--growth", "--out", str(tmp_path)]) == 1
    assert "too much of it" in capsys.readouterr().err
    record = json.loads(path_in(tmp_path).read_text())
    assert record["failed"] == {"sleep by naps, 8 naps": "ValueError: too much of it"}
    assert record["curves"]["sleep by naps"]["sizes"] == [1, 2, 4]
    assert figure_in(tmp_path).exists()


@pytest.mark.slow
def test_a_new_process_reports_its_peak_memory_or_its_death() -> None:
    held = [np.ones(2**29, np.uint8)]  # here, not there
    assert 300 < in_new_process(holding, 300).memory < 300 + held[0].nbytes / 2**20
    with pytest.raises(RuntimeError, match="abruptly"):
        in_new_process(dying, 1)


def test_growth_refuses_options_of_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--only", "plan"], ["--repeats", "2"], ["--against", "swm"]):
        assert main(["bench", "--growth", *option]) == 1
        assert option[0] in capsys.readouterr().err


def test_the_exponent_is_that_of_the_upper_half() -> None:
    assert exponent([10, 100, 1000, 10_000, 100_000], [7, 1, 10, 100, 1000]) == pytest.approx(1)
    assert exponent([], []) is exponent([5], [1.0]) is exponent([5, 6], [1.0, 1.0]) is None


@pytest.mark.parametrize("measure", [*all_curves(), curve("nothing", idle)], ids=lambda measure: measure.name)
def test_curves_run_at_small_sizes(measure: Curve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost_tools.bench.growth.ENOUGH", 0.0)
    monkeypatch.setattr("reachcost_tools.bench.growth.ROWS", 1000)
    monkeypatch.setattr("reachcost_tools.bench.growth.PAIRS", 1000)
    assert measured(measure.prepare, min(measure.sizes[0], 1000), tmp_path).seconds > 0


@pytest.mark.published
def test_the_published_record_reaches_every_target_and_the_page_shows_it() -> None:
    record = json.loads(PUBLISHED.read_text())
    assert [(name, row["sizes"]) for name, row in record["curves"].items()] == [
        (curve.name, sorted({*curve.sizes})) for curve in all_curves()
    ]
    assert missed_targets(record) == []
    page = (ROOT / "docs" / "speed.md").read_text()
    assert "\n".join(table(record)) in page
