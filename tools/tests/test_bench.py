"""`reachcost bench`: small comparisons are timed and recorded, and the published record is complete."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reachcost.cli import main
from reachcost.core.progress import Progress
from reachcost.planning.cem import CEM
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.comparison import Disagreement, Entry, Side, Sides, count_operations, measure
from reachcost_tools.bench.learning import encoding_against_target, fitting_against_loader, together_against_apart
from reachcost_tools.bench.models import official
from reachcost_tools.bench.planning import our_plans
from reachcost_tools.bench.record import all_entries, path_in

PUBLISHED = path_in(Path(__file__).parents[2] / "results")
PAGE = (Path(__file__).parents[2] / "docs" / "speed.md").read_text()
LINE = {"says", "unit", "threads", "repeats", "ours_seconds", "peer_seconds", "ratio", "ratio_least", "ratio_most"}


def sleeping(ours: float, peer: float, **options: Any) -> Callable[[], Sides]:
    return lambda: Sides(Side(lambda: time.sleep(ours)), Side(lambda: time.sleep(peer)), **options)


def product() -> Sides:
    matrix = torch.ones(64, 64)
    return Sides(Side(lambda: matrix @ matrix, amount=2), 1.0, counted=True)


FAST = Entry("nap, 1 thread", "short against long", sleeping(0.0, 0.01), "nap", target=0.01)
SLOW = Entry("doze, 1 thread", "long against short", sleeping(0.01, 0.0), "nap", target=100.0, against="swm")
PROMISED = Entry("product", "a matrix product against a promise", product, "product", target=1.0, repeats=5)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three comparisons that take milliseconds; no package is imported."""
    monkeypatch.setattr("reachcost_tools.bench.record.all_entries", lambda: [FAST, SLOW, PROMISED])
    monkeypatch.setattr("reachcost.swm.evaluation.import_stable_worldmodel", lambda: None)
    monkeypatch.setattr("reachcost_tools.bench.record.PACKAGES", {"swm": ()})
    monkeypatch.setattr("reachcost_tools.bench.comparison.SIZE", 64)


@pytest.mark.usefixtures("tiny")
def test_the_record_has_times_ratios_and_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--repeats", "2", "--out", str(tmp_path)]) == 0
    record = json.loads(path_in(tmp_path).read_text())
    assert record["left_out"] == [SLOW.name]  # its package is missing
    assert {*record["ratios"]} == {*record["entries"]} == {*record["targets"]} == {FAST.name, PROMISED.name}
    nap, made = record["entries"][FAST.name], record["entries"][PROMISED.name]
    assert {*nap} == LINE
    assert {*made} == {*LINE, "share_of_matmul_peak"}
    assert nap["repeats"] == 2
    assert nap["ratio_least"] <= nap["ratio"] == record["ratios"][FAST.name] <= nap["ratio_most"]
    assert nap["peer_seconds"] >= 0.01
    assert {*record["matmul_peak_gflops"]} == {"1", "2"}
    assert record["peak_memory_mb"] > 50
    assert {"machine", "versions", "load_per_core_before"} < {*record}
    shown = " ".join(capsys.readouterr().out.split())
    assert "nap, 1 thread: " in shown
    assert "target 0.01" in shown


@pytest.mark.usefixtures("tiny")
def test_slower_than_the_target_fails_and_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--against", "swm", "--repeats", "1", "--out", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert SLOW.name in error
    assert "nap" not in error
    assert json.loads(path_in(tmp_path).read_text())["ratios"][SLOW.name] < 100


@pytest.mark.usefixtures("tiny")
def test_wrong_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = {
        ("--only", "nap", "sprint"): "'sprint': choose one of nap, 1 thread; doze, 1 thread; product",
        ("--only", "doze"): "--against swm",
        ("--repeats", "0"): "--repeats 0",
        ("--only", "nap", "--out", str(tmp_path)): "--only",
    }
    assert main(["bench", "--only", "nap", "--out", str(tmp_path)]) == 0
    for options, message in refused.items():
        assert main(["bench", *options]) == 1
        assert message in capsys.readouterr().err


def test_sides_that_disagree_are_not_compared() -> None:
    def apart(within: float) -> Sides:
        return Sides(Side(lambda: torch.zeros(3)), Side(lambda: torch.full((3,), 0.5)), within=within)

    entry = Entry("plan", "", lambda: apart(0.4), "plan")
    with pytest.raises(Disagreement, match=r"0\.5"):
        measure(entry, 1, Progress())
    assert measure(replace(entry, prepare=lambda: apart(0.6)), 2, Progress())["repeats"] == 2


@pytest.mark.parametrize(
    "prepare",
    [
        lambda: together_against_apart(episodes=2, log_episodes=60, pairs=500, threads=1),
        lambda: encoding_against_target(episodes=2, threads=1),
        lambda: fitting_against_loader(count=2048, episodes=30),
    ],
    ids=["SASC", "encoding", "fitting"],
)
def test_comparisons_without_the_package_run_in_small(prepare: Callable[[], Sides]) -> None:
    assert measure(Entry("small", "", prepare, "unit"), 1, Progress())["ratio"] > 0


def test_a_plan_of_official_size_in_small_and_its_products_counted() -> None:
    model = official(PublicArchitecture(image_size=28, encoder_depth=1, depth=1, history=1))
    frames = np.zeros((2, 28, 28, 3), np.uint8)
    frames[1] = 255
    planner = CEM(candidates=32, elites=4, iterations=2)
    plan = our_plans(model, planner, frames)
    assert plan.shape == (1, 5, 10)
    assert count_operations(lambda: our_plans(model, planner, frames)) > 32 * 2 * 5 * 2 * 192 * 2048


@pytest.mark.published
def test_the_published_record_is_complete_and_the_page_explains_every_missed_target() -> None:
    record = json.loads(PUBLISHED.read_text())
    assert sorted(record["ratios"]) == sorted(entry.name for entry in all_entries())
    assert record["targets"] == {entry.name: entry.target for entry in all_entries() if entry.target is not None}
    assert record["failed"] == {}
    missed = {name for name, ratio in record["ratios"].items() if ratio < record["targets"].get(name, 0)}
    explained = re.findall(r"^\* \*\*(.+?)\*\*", PAGE.partition("targets are missed")[2].partition("## How")[0], re.M)
    assert {name.partition(",")[0] for name in missed} == {*explained}


def test_the_page_shows_every_target() -> None:
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in PAGE.splitlines() if row.count("|") == 7]
    shown = {name: target for name, *_, target, _ in rows}
    for entry in all_entries():
        assert shown[entry.name] == ("–" if entry.target is None else f"{entry.target:g}")
