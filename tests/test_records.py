"""Records of runs: complete or absent, computed once, checked when read, and readable after changes of the code."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reachcost.core.files import new_directory, sha256_of
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import NUMERICS, Recording, RunSpec
from reachcost.experiments.study import Tables
from reachcost.results.records import Columns, Evaluated, Run, read_run, require_config, require_rows

from .cells import made_run, record

KEYS = {"cost": ["raw", "trm"], "episode": [0, 1, 2]}


def rows() -> dict[str, np.ndarray]:
    return {
        "cost": np.repeat(["raw", "trm"], 3),
        "episode": np.tile([0, 1, 2], 2),
        "success": np.array([0, 1, 0, 1, 1, 1]),
    }


def compute(_: Path) -> Columns:
    return rows()


def test_a_record_is_read_back(tmp_path: Path) -> None:
    def with_text(directory: Path) -> Columns:
        (directory / "extra.txt").write_text("kept")
        return rows()

    first, again = made_run(tmp_path / "run", {"seed": 1}, with_text), read_run(tmp_path / "run")
    assert first.manifest == again.manifest
    assert set(first.manifest) == {
        *("format", "config", "versions", "machine", "rows", "files", "artefacts", "elapsed_seconds")
    }
    assert set(first.sha256) == {"rows.parquet", "extra.txt"}
    assert first.manifest["versions"]["torch"]
    assert require_rows(again, KEYS, ["success"])["success"].tolist() == [[0, 1, 0], [1, 1, 1]]


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@dataclass(frozen=True)
class Inner:
    width: int = 8


@dataclass(frozen=True)
class Settings:
    """Settings of a run."""

    rate: float = 0.1
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Later(Settings):
    """The settings with another field."""

    depth: int = 2


@dataclass(frozen=True)
class Redefined(Settings):
    """The settings with another default."""

    rate: float = 0.2


def test_a_new_setting_matches_old_records_if_it_has_its_default(tmp_path: Path) -> None:
    first = made_run(tmp_path / "run", {"head": Settings()}, compute)
    assert first.manifest["config"] == {"head": {"rate": 0.1, "inner": {"width": 8}}}
    require_config(first, {"head": Later()})
    with pytest.raises(ReachcostError, match="depth is 2 there and 3 here"):
        require_config(first, {"head": Later(depth=3)})


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        (Settings(rate=0.2), r"head\.rate is 0\.1 there and 0\.2 here"),
        (Redefined(), r"head\.rate is 0\.1 there and 0\.2 here"),
        (Settings(inner=Inner(9)), r"head\.inner\.width is 8 there and 9 here"),
        ({"rate": 0.1}, r"head\.inner is \{.*\} there and null here"),  # the setting is gone
    ],
)
def test_a_changed_setting_or_default_is_refused(tmp_path: Path, changed: object, where: str) -> None:
    run = made_run(tmp_path / "run", {"head": Settings()}, compute)
    with pytest.raises(ReachcostError, match=where):
        require_config(run, {"head": changed})


HIGH, LOW = {"evaluation_set_sha256": "high"}, {"evaluation_set_sha256": "low"}


def test_a_run_may_return_its_evaluation_set(tmp_path: Path) -> None:
    first = made_run(tmp_path / "run", {"part": "report"}, lambda _: Evaluated(rows(), HIGH))
    assert read_run(first.path).manifest["config"] == {"part": "report", **HIGH}
    require_config(first, {"part": "report"})


@pytest.mark.parametrize(("recorded", "now"), [({}, HIGH), (HIGH, {}), (HIGH, {**HIGH, "full_set_sha256": "full"})])
def test_a_record_without_its_evaluation_set_matches(
    tmp_path: Path, recorded: dict[str, str], now: dict[str, str]
) -> None:
    require_config(made_run(tmp_path / "run", {"seed": 1, **recorded}, compute), {"seed": 1, **now})


def test_another_evaluation_set_is_refused(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", HIGH, compute)
    with pytest.raises(ReachcostError, match="evaluation_set_sha256"):
        require_config(run, LOW)


def change_versions(run: Run, **versions: str) -> None:
    """Write other versions into the manifest of a run."""
    manifest = {**run.manifest, "versions": {**run.manifest["versions"], **versions}}
    (run.path / "manifest.json").write_text(json.dumps(manifest))


def test_records_of_another_version_of_reachcost_can_be_read(tmp_path: Path) -> None:
    change_versions(made_run(tmp_path / "run", {}, compute), reachcost="0.0.1", python="3.99")
    assert read_run(tmp_path / "run").manifest["versions"]["reachcost"] == "0.0.1"


TABLES = Tables(name="study", protocol=1, tables={})


@dataclass(frozen=True)
class OneRun(RunSpec):
    kind = "some"
    called: str
    seed: int = 0

    def name(self, recording: Recording) -> str:
        return self.called

    def config(self, recording: Recording) -> dict[str, Any]:
        return {"seed": self.seed}

    def compute(self, recording: Recording, directory: Path) -> Columns:
        return compute(directory)


@pytest.mark.parametrize("package", NUMERICS)
def test_runs_made_with_different_numerics_never_share_a_table(tmp_path: Path, package: str) -> None:
    for name in ("one", "other"):
        record(Recording(TABLES, tmp_path).cell(OneRun(name)))
    change_versions(read_run(tmp_path / "runs" / "study" / "some" / "one"), **{package: "0.1"})
    recording = Recording(TABLES, tmp_path)
    recording.read(OneRun("one"))
    before = snapshot(tmp_path)
    for name in ("other", "new"):
        with pytest.raises(ReachcostError, match=f"{package} 0.1"):
            record(recording.cell(OneRun(name)))
    assert snapshot(tmp_path) == before


def with_weights(directory: Path, content: str = "weights") -> Columns:
    (directory / "weights").write_text(content)
    return rows()


def test_a_missing_artefact_is_made_again_to_the_same_bytes(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", {}, with_weights, ("weights",))
    assert set(run.sha256) == {"rows.parquet", "weights"}
    (run.path / "weights").unlink()
    assert len(run.table()) == 6
    with pytest.raises(ReachcostError, match="weights"):
        run.complete(lambda directory: with_weights(directory, "others"))
    assert not (run.path / "weights").exists()
    run.complete(with_weights)
    assert (run.path / "weights").read_text() == "weights"


def test_a_failing_run_leaves_nothing(tmp_path: Path) -> None:
    def fail(directory: Path) -> Columns:
        (directory / "half.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made_run(tmp_path / "run", {}, fail)
    assert list(tmp_path.iterdir()) == []


def write_late(path: Path) -> None:
    """Start writing a directory, and finish after another writer has."""
    with new_directory(path) as late:
        (late / "late").write_text("late")
        with new_directory(path) as early:
            (early / "early").write_text("early")


def test_two_writers_of_one_directory_never_mix(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="head"):
        write_late(tmp_path / "head")
    assert [path.name for path in tmp_path.rglob("*")] == ["head", "early"]


@pytest.mark.parametrize(
    "change",
    [{"config": []}, {"files": []}, {"files": {}}, {"rows": "6"}, {"format": None}, {"versions": None}],
)
def test_malformed_manifests_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    run = made_run(tmp_path / "run", {}, compute)
    (run.path / "manifest.json").write_text(json.dumps({**run.manifest, **change}))
    with pytest.raises(ReachcostError, match="manifest"):
        read_run(run.path)


def test_a_wrong_number_of_rows_is_noticed(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", {}, compute)
    (run.path / "manifest.json").write_text(json.dumps({**run.manifest, "rows": 99}))
    with pytest.raises(ReachcostError, match="6 rows"):
        read_run(run.path).table()


def rewrite(run: Run, columns: dict[str, np.ndarray]) -> Run:
    """Give a run other rows with a manifest that vouches for them."""
    pq.write_table(pa.table(columns), run.path / "rows.parquet")
    run.manifest["files"]["rows.parquet"] = sha256_of(run.path / "rows.parquet")
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
        (with_value("cost", 5, "other"), "unexpected, the first is cost other, episode 2"),
        ({**rows(), "episode": np.array(list("abcdef"))}, "6 rows are unexpected, the first is cost raw, episode a"),
        ({**rows(), "success": np.array(list("abcdef"))}, "column success holds no numbers"),
        ({name: column for name, column in rows().items() if name != "success"}, "no column success"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, columns: dict[str, np.ndarray], message: str) -> None:
    run = rewrite(made_run(tmp_path / "run", {}, compute), columns)
    with pytest.raises(ReachcostError, match=message):
        require_rows(run, KEYS, ["success"])


def test_damaged_files_are_named(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", {}, compute)
    data = (run.path / "rows.parquet").read_bytes()
    (run.path / "rows.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(ReachcostError, match="remove that directory"):
        read_run(run.path).table()
    (run.path / "rows.parquet").unlink()
    with pytest.raises(ReachcostError, match="rows"):
        read_run(run.path).table()
    for content in ("{", "{}"):
        (run.path / "manifest.json").write_text(content)
        with pytest.raises(ReachcostError, match="manifest"):
            read_run(run.path)
    (run.path / "manifest.json").unlink()
    with pytest.raises(ReachcostError, match="manifest"):
        read_run(run.path)
