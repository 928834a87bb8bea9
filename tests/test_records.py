"""Records: whole or absent, never recomputed, never silently wrong."""

from __future__ import annotations

import json
import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reachcost.base.atomic import new_directory, write_file
from reachcost.errors import ReachcostError
from reachcost.results.records import Columns, Run, _sha256, exclusive, read_run, record_run, require_rows

KEYS = {"cost": ["raw", "trm"], "episode": [0, 1, 2]}


def rows() -> dict[str, np.ndarray]:
    return {
        "cost": np.repeat(["raw", "trm"], 3),
        "episode": np.tile([0, 1, 2], 2),
        "success": np.array([0, 1, 0, 1, 1, 1]),
    }


def compute(_: Path) -> Columns:
    return rows()


def test_a_run_is_recorded_once(tmp_path: Path) -> None:
    calls = []

    def count(directory: Path) -> Columns:
        calls.append(directory)
        (directory / "extra.txt").write_text("kept")
        return rows()

    first = record_run(tmp_path / "run", {"seed": 1}, count)
    again = record_run(tmp_path / "run", {"seed": 1}, count)
    assert len(calls) == 1
    assert first.manifest == again.manifest
    assert set(first.manifest) == {"format", "config", "versions", "machine", "rows", "files", "elapsed_seconds"}
    assert set(first.sha256) == {"rows.parquet", "extra.txt"}
    assert first.manifest["versions"]["torch"]
    assert require_rows(again, KEYS, ["success"])["success"].tolist() == [[0, 1, 0], [1, 1, 1]]


def test_another_configuration_is_refused_and_leaves_the_disk_alone(tmp_path: Path) -> None:
    record_run(tmp_path / "run", {"seed": 1, "budget": 90}, compute)
    before = snapshot(tmp_path)
    with pytest.raises(ReachcostError, match=r"another configuration \(budget is 90 there and 50 here\)"):
        record_run(tmp_path / "run", {"seed": 1, "budget": 50}, compute)
    assert snapshot(tmp_path) == before


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_records_of_other_versions_are_not_mixed_in(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", {}, compute)
    (run.path / "manifest.json").write_text(json.dumps({**run.manifest, "versions": {"torch": "1.0"}}))
    with pytest.raises(ReachcostError, match="was made with other versions"):
        record_run(tmp_path / "run", {}, compute)


def test_a_failing_run_leaves_nothing(tmp_path: Path) -> None:
    def fail(directory: Path) -> Columns:
        (directory / "half.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_run(tmp_path / "run", {}, fail)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_run_are_swept_away(tmp_path: Path) -> None:
    (tmp_path / "runs" / ".run.0.partial").mkdir(parents=True)
    (tmp_path / "runs" / ".run.0.partial" / "half.txt").write_text("half")
    (tmp_path / ".table.md.0.partial").write_text("half")
    with exclusive(tmp_path):
        record_run(tmp_path / "runs" / "run", {}, compute)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "runs"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]


def write_late(path: Path) -> None:
    """Start writing a directory, and finish after another writer has."""
    with new_directory(path) as late:
        (late / "late").write_text("late")
        with new_directory(path) as early:
            (early / "early").write_text("early")


def test_two_writers_of_one_directory_never_mix(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="made by someone else meanwhile"):
        write_late(tmp_path / "head")
    assert [path.name for path in tmp_path.rglob("*")] == ["head", "early"]


@pytest.mark.parametrize(
    "change", [{"config": []}, {"files": []}, {"files": {}}, {"rows": "6"}, {"format": None}, {"versions": None}]
)
def test_malformed_manifests_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    run = record_run(tmp_path / "run", {}, compute)
    (run.path / "manifest.json").write_text(json.dumps({**run.manifest, **change}))
    with pytest.raises(ReachcostError, match="not of format"):
        record_run(tmp_path / "run", {}, compute)


def test_a_wrong_number_of_rows_is_noticed(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", {}, compute)
    (run.path / "manifest.json").write_text(json.dumps({**run.manifest, "rows": 99}))
    with pytest.raises(ReachcostError, match="it has 6 rows, its manifest says otherwise"):
        read_run(run.path).table()


def rewrite(run: Run, columns: dict[str, np.ndarray]) -> Run:
    """Give a run other rows with a manifest that vouches for them."""
    pq.write_table(pa.table(columns), run.path / "rows.parquet")
    run.manifest["files"]["rows.parquet"] = _sha256(run.path / "rows.parquet")
    run.manifest["rows"] = len(next(iter(columns.values())))
    (run.path / "manifest.json").write_text(json.dumps(run.manifest))
    return read_run(run.path)


def without(row: int) -> dict[str, np.ndarray]:
    return {name: np.delete(column, row) for name, column in rows().items()}


def with_value(name: str, row: int, value: object) -> dict[str, np.ndarray]:
    columns = rows()
    changed = columns[name].astype(object)
    changed[row] = value
    columns[name] = np.array(changed.tolist())
    return columns


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (without(4), "1 rows are missing, the first is cost trm, episode 1"),
        (
            {name: np.append(column, column[2]) for name, column in rows().items()},
            "duplicate, the first is cost raw, episode 2",
        ),
        (with_value("success", 3, np.nan), "row 3 has a malformed success"),
        (with_value("cost", 5, "other"), "row 5 has an unexpected cost 'other'"),
        ({**rows(), "episode": np.array(list("abcdef"))}, "column episode is of another type"),
        ({**rows(), "success": np.array(list("abcdef"))}, "column success holds no numbers"),
        (with_value("episode", 0, 9), "row 0 has an unexpected episode 9"),
        ({name: column for name, column in rows().items() if name != "success"}, "no column success"),
    ],
)
def test_aggregation_names_what_is_wrong(tmp_path: Path, columns: dict[str, np.ndarray], message: str) -> None:
    run = rewrite(record_run(tmp_path / "run", {}, compute), columns)
    with pytest.raises(ReachcostError, match=message):
        require_rows(run, KEYS, ["success"])


def test_damaged_files_are_named(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", {}, compute)
    data = (run.path / "rows.parquet").read_bytes()
    (run.path / "rows.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(ReachcostError, match=r"not the file its manifest describes.*remove that directory"):
        read_run(run.path).table()
    (run.path / "rows.parquet").unlink()
    with pytest.raises(ReachcostError, match=r"rows\.parquet cannot be read"):
        read_run(run.path).table()
    (run.path / "manifest.json").write_text("{")
    with pytest.raises(ReachcostError, match="not valid JSON"):
        record_run(tmp_path / "run", {}, compute)
    (run.path / "manifest.json").write_text("{}")
    with pytest.raises(ReachcostError, match="not of format"):
        read_run(run.path)
    (run.path / "manifest.json").unlink()
    with pytest.raises(ReachcostError, match=r"manifest\.json cannot be read"):
        read_run(run.path)


def hold(out: Path, held: Event, release: Event) -> None:
    with exclusive(out):
        held.set()
        release.wait(30)


def test_two_processes_never_share_a_directory(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, held, release))
    other.start()
    try:
        assert held.wait(30)
        with pytest.raises(ReachcostError, match="another reachcost process is working"), exclusive(tmp_path):
            pass
    finally:
        release.set()
        other.join()
    with exclusive(tmp_path):
        pass


def test_files_are_replaced_in_one_step(tmp_path: Path) -> None:
    write_file(tmp_path / "deep" / "table.md", "old")
    write_file(tmp_path / "deep" / "table.md", "new")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["table.md"]
    assert (tmp_path / "deep" / "table.md").read_text() == "new"


def test_an_existing_directory_is_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="exists already"), new_directory(tmp_path):
        pass
