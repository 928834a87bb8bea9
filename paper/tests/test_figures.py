"""Figures of the paper are made from published records byte for byte; the animation."""

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from examples.draw_repair import HOLD, STEP, Panel, draw_replay
from reachcost.cli import main
from reachcost.errors import ReachcostError
from reachcost.experiments.registry import all_tables, missing_tables, results_of
from reachcost.results.records import is_recorded
from reachcost_paper.charts import LOOKS, Bar, draw_bars
from reachcost_paper.figures import PANELS
from reachcost_paper.panels import PanelPlan, Records, draw_panels, write_figure

ROOT = Path(__file__).parents[2]
RESULTS, NAMES = ROOT / "results", [*PANELS]
QUICK = ("figure-interfaces", "figure-pair-sampling", "figure-task-execution", "figure-pusht-boundary")
"""A diagram, lines, maps and bars."""


def with_records(out: Path) -> Path:
    """A directory with the published records in it."""
    for name in ("tables", "runs"):
        (out / name).symlink_to(RESULTS / name)
    return out


@cache
def built(name: str) -> Figure:
    return draw_panels(PANELS[name], Records(RESULTS))


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_published_and_has_its_panels(name: str) -> None:
    titles = [axes.get_title("left") for part in built(name).subfigs for axes in part.axes]
    panels = zip("ABCDE", PANELS[name], strict=False)
    assert [title for title in titles if title] == [f"{letter}   {panel.title}" for letter, panel in panels]
    assert all((RESULTS / "figures" / f"{name}.{kind}").stat().st_size < 300_000 for kind in ("svg", "png"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in NAMES]
)
def test_a_figure_has_the_published_bytes_and_names_its_sources(name: str, tmp_path: Path) -> None:
    once, _ = write_figure(name, PANELS[name], with_records(tmp_path))
    assert once.read_bytes() == (RESULTS / "figures" / once.name).read_bytes()
    drawing = once.read_text()
    (sources,) = re.findall(r"<dc:source>(.*?)</dc:source>", drawing) or [""]
    assert {f"tables/{table}" for panel in PANELS[name] for table in panel.tables} <= {*sources.split()}
    assert all(is_recorded(RESULTS / source) for source in sources.split() if source.startswith("runs/"))
    assert "<dc:date>" not in drawing
    for panel in PANELS[name]:  # text is text
        assert re.search(rf">[^<]*{re.escape(panel.title)}</text>", drawing.replace("&#39;", "'"))


def test_bars_show_intervals_and_the_paper_once_each() -> None:
    axes = Figure().add_subplot()
    bars = {"one": [Bar(LOOKS["raw"], 3.0, (2.0, 5.0), 4.0)], "two": [Bar(LOOKS["trm"], 1.0)]}
    draw_bars(axes, bars, "steps", digits=1)
    assert [bar.get_height() for bar in axes.patches] == [3, 1]  # pyright: ignore[reportAttributeAccessIssue]
    assert [text.get_text() for text in axes.texts] == ["3.0", "1.0"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["one", "two"]
    assert [float(line.get_ydata()[0]) for line in axes.lines if line.get_label() == "paper"] == [4.0]  # pyright: ignore


def test_a_figure_is_reproduced_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results_of("figures") == tuple(NAMES)
    assert results_of("all") == (*all_tables(), *NAMES)
    assert main(["reproduce", "figure-interfaces", "--out", str(tmp_path / "out")]) == 0
    assert {path.suffix for path in (tmp_path / "out" / "figures").iterdir()} == {".svg", ".png"}
    assert "figure-interfaces.svg" in capsys.readouterr().out
    assert main(["reproduce", "mars", "--out", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "mars" in error
    assert all(f" {name}" in error for name in NAMES)


def test_a_figure_names_the_tables_that_it_lacks(tmp_path: Path) -> None:
    assert missing_tables("figure-evidence", tmp_path) == ["high-distance", "toponav"]
    assert not missing_tables("figure-evidence", RESULTS)


def test_changed_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(RESULTS / "runs")
    file = tmp_path / "tables" / "trace.json"
    file.parent.mkdir()
    shutil.copy(RESULTS / "tables" / "trace.json", file)
    assert Records(tmp_path).run("trace", "*/traces/*").table().num_rows > 50
    table: dict[str, Any] = json.loads(file.read_text())
    table["rows_sha256"] = dict.fromkeys(table["rows_sha256"], "0" * 64)
    file.write_text(json.dumps(table))
    for wanted in ("traces", "films"):
        with pytest.raises(ReachcostError, match=wanted):
            Records(tmp_path).run("trace", f"*/{wanted}/*")
    with pytest.raises(ReachcostError, match="0 rows"):
        Records(tmp_path).row("trace", cost="gps")
    file.write_text("{")
    with pytest.raises(ReachcostError, match="trace"):
        Records(tmp_path).rows("trace")


def test_panels_wrap_to_the_next_row() -> None:
    plan = PanelPlan("wide", lambda axes, _: None, width=6.0, height=2.0)
    assert len(draw_panels([plan, plan], Records(RESULTS)).subfigs) == 2
    assert len(draw_panels([PanelPlan("narrow", plan.draw, width=3.0)] * 2, Records(RESULTS)).subfigs) == 1


def frames(path: Path) -> tuple[tuple[int, int], list[int], int]:
    """Size, milliseconds of each frame, and number of repetitions, 0 for ever."""
    with Image.open(path) as picture:
        times = []
        for number in range(getattr(picture, "n_frames", 1)):
            picture.seek(number)
            times.append(picture.info["duration"])
        return picture.size, times, picture.info["loop"]


def test_a_replay_has_a_frame_per_step_and_a_long_last_frame(tmp_path: Path) -> None:
    field = np.hypot(*np.meshgrid(np.arange(20.0), np.arange(20.0)))
    routes = [np.linspace((1, 1), (x, 18), steps) for x, steps in ((5, 8), (18, 5))]
    panels = [Panel("cost", "end", field, path, len(path) < 8, 2.0) for path in routes]
    draw_replay(np.array([18.0, 18.0]), panels, (0, 20), tmp_path / "one.gif", "two costs")
    size, times, loop = frames(tmp_path / "one.gif")
    assert (times, loop) == ([STEP] * 7 + [HOLD], 0)
    assert size[0] > 1000


def test_the_readme_opens_with_the_episode() -> None:
    (first, *_) = re.findall(r"!\[([^]]+)\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert first[1] == "docs/images/repair.gif"
    assert len(first[0]) > 80  # a description for readers who do not see it
    size, times, loop = frames(ROOT / first[1])
    assert (ROOT / first[1]).stat().st_size < 2 * 10**6
    assert (size[0] > 1000, len(times) > 20, loop) == (True, True, 0)
