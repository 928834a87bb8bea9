"""The reproduction: resumable to the same bytes, refusing what it cannot trust, and published as it comes out."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.experiments.toponav import OUR_HEAD
from reachcost.experiments.toponav_recipes import NOTE, plans
from reachcost.experiments.toponav_tables import READINGS_LEGEND, TOPONAV_LEGEND, reproduce_toponav

from .small import SMALL

ROOT = Path(__file__).parent.parent
SCRIPT = [sys.executable, "-m", "tests.small"]


def contents(out: Path) -> dict[str, bytes]:
    """Every byte below `out`, but for the seconds it took and the lock."""
    files = {}
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name != ".lock":
            data = path.read_bytes()
            if path.name == "manifest.json":
                data = json.dumps({**json.loads(data), "elapsed_seconds": None}).encode()
            files[str(path.relative_to(out))] = data
    return files


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduction")
    reproduce_toponav(out, Progress(), SMALL)
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


def test_the_table_has_the_documented_form(finished: Path) -> None:
    table = json.loads((finished / "tables" / "toponav.json").read_text())
    assert table["table"] == "toponav"
    means = [row for row in table["rows"] if row["seed"] is None]
    assert [row["cost"] for row in means] == [
        *("raw", "trm-paper", "shuffled", "trm", "oracle", "oracle+tie-break", "trm+tie-break", "random")
    ]
    for row in means:
        assert row["n"] == 12
        assert row["interval"].keys() == row["ours"].keys()
        for metric, (low, high) in row["interval"].items():
            assert low <= row["ours"][metric] <= high
        assert (row["paper"] is None) == (row["cost"] not in ("raw", "trm-paper", "shuffled", "oracle"))
    assert means[0]["paper"] == {"success": 15.0, "rho_geo": 0.496, "rank": 45.03, "final_geo": 36.18}
    singles = [row for row in table["rows"] if row["seed"] == 2]
    assert len(singles) == len(means)
    assert means[1]["per_seed"]["success"][1] == singles[1]["ours"]["success"]
    assert means[1]["versus_raw"]["sign_flip_p"] in (0.5, 1.0)
    markdown = (finished / "tables" / "toponav.md").read_text()
    assert "| raw | 12 |" in markdown
    assert "| trm-paper, seed 1 | 6 |" in markdown


def test_manifests_name_every_seed_and_input(finished: Path) -> None:
    head, control, sasc = (
        json.loads((finished / "runs" / name / "manifest.json").read_text())["config"]
        for name in ("toponav-heads/trm-1", "toponav/control-1", "toponav/sasc-1")
    )
    assert (head["base_seed"], head["pair_seed"], head["head_seed"]) == (608, 608, 1)
    assert (control["planner_seed"], sasc["candidate_seed"]) == (1, 608 + 31 + 3)
    for config in (head, control, sasc):
        assert config["logs_sha256"]
        assert config["evaluation_set_sha256"]
    weights = json.loads((finished / "runs/toponav-heads/trm-1/manifest.json").read_text())["files"]
    assert control["heads_sha256"]["trm"] == sasc["heads_sha256"]["trm"] == weights["weights.safetensors"]


def test_heads_record_their_exclusion(finished: Path) -> None:
    training = json.loads((finished / "runs/toponav-heads/trm-paper-1/config.json").read_text())["training"]
    assert training["pairs"]["exclusion"]["overlapping_pairs"] == 0


def test_a_finished_run_is_never_recomputed(copied: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (copied / "runs").rglob("*.parquet")}
    reproduce_toponav(copied, Progress(), SMALL)
    assert {path: path.stat().st_mtime_ns for path in (copied / "runs").rglob("*.parquet")} == before


def finished_runs(out: Path) -> int:
    return len(list(out.glob("runs/*/[!.]*")))


def test_killed_at_random_moments_the_same_bytes_come_out(finished: Path, tmp_path: Path) -> None:
    moments, out = random.Random(0), tmp_path / "out"
    for _ in range(3):  # each time one run further, then somewhere inside the next
        process = subprocess.Popen([*SCRIPT, str(out)], cwd=ROOT)
        before = finished_runs(out)
        while process.poll() is None and not (finished_runs(out) > before and list(out.glob("runs/*/.*.partial"))):
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert finished_runs(out) < finished_runs(finished)
    subprocess.run([*SCRIPT, str(out)], cwd=ROOT, check=True)
    assert contents(out) == contents(finished)


def test_another_configuration_is_refused(copied: Path) -> None:
    before = contents(copied)
    with pytest.raises(ReachcostError, match=r"another configuration \(evaluation_set_sha256 is"):
        reproduce_toponav(copied, Progress(), replace(SMALL, episodes=5))
    assert contents(copied) == before


@pytest.mark.parametrize("name", ["toponav/sasc-2/rows.parquet", "toponav-heads/trm-1/weights.safetensors"])
def test_a_truncated_record_is_refused_before_anything_is_done(copied: Path, name: str) -> None:
    file = copied / "runs" / name
    file.write_bytes(file.read_bytes()[:-9])
    shutil.rmtree(copied / "runs" / "toponav" / "control-1")
    before = contents(copied)
    with pytest.raises(ReachcostError, match=r"damaged: .* remove that directory and run the command again"):
        reproduce_toponav(copied, Progress(), SMALL)
    assert contents(copied) == before


def published(name: str) -> dict[tuple[str, int | None], dict[str, Any]]:
    rows = json.loads((ROOT / "results" / "tables" / f"{name}.json").read_text())["rows"]
    return {(row["cost"], row["seed"]): row for row in rows}


def test_published_numbers_reach_what_they_must() -> None:
    table = published("toponav")
    ours = {cost: row["ours"] for (cost, seed), row in table.items() if seed is None}
    assert all(row["n"] == 360 for (_, seed), row in table.items() if seed is None)
    assert 10 <= ours["raw"]["success"] <= 22
    assert ours["raw"]["rho_geo"] == pytest.approx(0.5, abs=0.06)
    assert ours["raw"]["rank"] == pytest.approx(45, abs=6)
    assert ours["trm-paper"]["success"] >= 85
    assert ours["trm-paper"]["rho_geo"] >= 0.82
    assert ours["shuffled"]["success"] <= 4
    assert ours["oracle"]["success"] >= 95
    assert ours["trm"]["success"] >= 95
    assert ours["oracle+tie-break"]["success"] == 100


def test_our_recipe_is_the_one_with_the_lowest_held_out_error() -> None:
    errors = {cost: row["ours"]["validation_rmse"] for (cost, _), row in published("toponav-recipes").items()}
    assert plans()[min(errors, key=errors.__getitem__)] == OUR_HEAD


def test_published_notes_are_the_ones_the_code_writes() -> None:
    assert NOTE in (ROOT / "results" / "tables" / "toponav-recipes.md").read_text()
    for name, legend in (("toponav", TOPONAV_LEGEND), ("toponav-readings", READINGS_LEGEND)):
        assert legend in (ROOT / "results" / "tables" / f"{name}.md").read_text()
