"""Packs: the same runs in few files; damage is reported for the damaged run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reachcost.errors import ReachcostError
from reachcost.experiments.tables import make_table
from reachcost.report.sources import read_source
from reachcost.results.pack import NAME, fingerprint
from reachcost.results.records import (
    Columns,
    Run,
    is_recorded,
    read_run,
    require_config,
    require_intact_runs,
    run_paths,
)
from reachcost_tools.pack import main

from .cells import made_run, quick_toy

RUNS = 3


def rows(seed: int) -> Columns:
    """Rows of several types; distances of one run are whole numbers."""
    distance = np.arange(6) if seed == 0 else np.array([0.1, np.nan, -0.0, 1e30, 2.0, 3.0]) + seed
    return {
        "cost": np.repeat(["raw", "Ångström"], 3),
        "episode": np.tile(np.arange(3, dtype=np.int16), 2),
        "success": np.arange(6) % 2 == seed % 2,
        "distance": distance.astype(np.float32) if seed == 1 else distance,
        **({"more": np.arange(6) * seed} if seed == 2 else {}),
    }


def compute(seed: int) -> Callable[[Path], Columns]:
    def computed(directory: Path) -> Columns:
        (directory / "config.json").write_text(f'{{"seed": {seed}}}\n')
        (directory / "weights").write_bytes(bytes([seed, 255]))
        return rows(seed)

    return computed


def path_of(out: Path, seed: int) -> Path:
    return out / "runs" / "study" / "heads" / f"run-{seed}"


def record(out: Path, *seeds: int) -> list[Run]:
    return [made_run(path_of(out, seed), {"seed": seed}, compute(seed), ("weights",)) for seed in seeds]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """An output directory whose runs are packed; their weights are not kept."""
    for run in record(tmp_path, *range(RUNS)):
        (run.path / "weights").unlink()
    assert main([str(tmp_path)]) == 0
    return tmp_path


def files(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out / "runs")) for path in (out / "runs").rglob("*") if path.is_file())


def test_packed_runs_are_the_same_runs(tmp_path: Path, packed: Path) -> None:
    known = record(tmp_path / "directories", *range(RUNS))
    assert files(packed) == ["study/heads.parquet", "study/pack.json"]
    assert run_paths(packed / "runs") == [path_of(packed, seed) for seed in range(RUNS)]
    for seed, run in enumerate(known):
        found = read_run(path_of(packed, seed))
        assert found.table().schema.equals(run.table().schema)
        assert all(np.array_equal(*pair, equal_nan=pair[0].dtype.kind == "f") for pair in columns(found, run))
        assert {**found.manifest, "elapsed_seconds": 0} == {**run.manifest, "elapsed_seconds": 0}
        assert found.text("config.json") == run.text("config.json")
        require_config(found, {"seed": seed})
        assert found.sha256 == run.sha256
    require_intact_runs(packed)
    with pytest.raises(ReachcostError, match="seed is 1 there and 7 here"):
        require_config(read_run(path_of(packed, 1)), {"seed": 7})


def columns(*runs: Run) -> list[tuple[np.ndarray, ...]]:
    return [tuple(run.table()[name].to_numpy() for run in runs) for name in runs[0].columns]


def test_a_pack_is_an_ordinary_parquet_file(packed: Path) -> None:
    table = pq.read_table(packed / "runs" / "study" / "heads.parquet", filters=[("run", "==", "run-2")])
    assert table["more"].to_pylist() == [0, 2, 4, 6, 8, 10]


def test_runs_are_added_to_a_pack_and_dropped_from_it(packed: Path) -> None:
    before = {seed: fingerprint(read_run(path_of(packed, seed)).table()) for seed in range(RUNS)}
    record(packed, 3)
    assert len(run_paths(packed / "runs")) == RUNS + 1
    assert main([str(packed)]) == 0
    assert files(packed) == [
        "study/heads.parquet",
        "study/heads/run-3/config.json",
        "study/heads/run-3/weights",
        "study/pack.json",
    ]
    assert {seed: fingerprint(read_run(path_of(packed, seed)).table()) for seed in before} == before
    assert main([str(packed), "--drop", "study/heads/run-[13]"]) == 0
    assert [path.name for path in run_paths(packed / "runs")] == ["run-0", "run-2"]
    assert not is_recorded(path_of(packed, 3))
    assert main([str(packed), "--drop", "study/heads/run-[13]"]) == 1


def test_a_file_whose_runs_stay_the_same_is_not_written_again(packed: Path) -> None:
    file = packed / "runs" / "study" / "heads.parquet"
    before = file.stat().st_ino
    made_run(packed / "runs" / "study" / "control" / "run", {}, lambda _: rows(0))
    assert main([str(packed)]) == 0
    assert file.stat().st_ino == before
    assert len(run_paths(packed / "runs" / "study")) == RUNS + 1


@pytest.mark.parametrize("first", ["heads.parquet", "pack.json"])
def test_packing_that_is_killed_loses_no_run(first: str, packed: Path, tmp_path: Path) -> None:
    """Killed between its two files, and before directories are removed."""
    study = packed / "runs" / "study"
    shutil.copytree(study, tmp_path / "old")
    record(packed, 3)
    shutil.copytree(path_of(packed, 3), tmp_path / "run-3")
    assert main([str(packed)]) == 0
    if first == "heads.parquet":
        shutil.copy(tmp_path / "old" / NAME, study / NAME)
    shutil.rmtree(path_of(packed, 3))
    shutil.copytree(tmp_path / "run-3", path_of(packed, 3))
    require_intact_runs(packed)
    assert [read_run(path).table()["success"].to_pylist() for path in run_paths(study)] == [
        rows(seed)["success"].tolist() for seed in range(RUNS + 1)
    ]
    assert main([str(packed)]) == 0
    require_intact_runs(packed)
    assert read_run(path_of(packed, 3)).pack


def flip(out: Path, seed: int) -> None:
    """Change bytes where the rows of a run are."""
    file = out / "runs" / "study" / "heads.parquet"
    column = pq.read_metadata(file).row_group(seed).column(2)
    data = bytearray(file.read_bytes())
    data[column.data_page_offset + 30] ^= 255
    file.write_bytes(data)


def rewrite(out: Path, edit: Callable[[pa.Table], pa.Table]) -> None:
    """Edit the rows with another tool."""
    file = out / "runs" / "study" / "heads.parquet"
    known = pq.ParquetFile(file)
    edited = edit(known.read())
    with pq.ParquetWriter(file, edited.schema) as writer:
        writer.add_key_value_metadata({"runs": known.metadata.metadata[b"runs"].decode()})
        for first in range(0, len(edited), 6):
            writer.write_table(edited.slice(first, 6))


def change(out: Path, seed: int) -> None:
    """Change a value."""

    def changed(table: pa.Table) -> pa.Table:
        success = table["success"].to_numpy().copy()
        success[6 * seed] ^= True
        return table.set_column(table.column_names.index("success"), "success", pa.array(success))

    rewrite(out, changed)


@pytest.mark.parametrize("damage", [flip, change])
@pytest.mark.parametrize("seed", [0, RUNS - 1])
def test_a_damaged_row_is_reported_for_its_run(damage: Callable, seed: int, packed: Path) -> None:
    damage(packed, seed)
    for read in (require_intact_runs, lambda out: read_run(path_of(out, seed)).table()):
        with pytest.raises(ReachcostError, match=rf"heads/run-{seed} is damaged"):
            read(packed)
    others = [path for path in run_paths(packed / "runs") if path != path_of(packed, seed)]
    assert [len(read_run(path).table()) for path in others] == [6] * (RUNS - 1)


def test_missing_rows_are_found(packed: Path) -> None:
    rewrite(packed, lambda table: table.filter([name != "run-1" for name in table["run"].to_pylist()]))
    with pytest.raises(ReachcostError, match="heads/run-1 is damaged"):  # rows of the next run lie in its place
        require_intact_runs(packed)
    assert len(read_run(path_of(packed, 0)).table()) == 6
    (packed / "runs" / "study" / "heads.parquet").unlink()
    with pytest.raises(ReachcostError, match="heads/run-0 is damaged"):
        require_intact_runs(packed)


@pytest.mark.parametrize(
    ("known", "damaged", "named"),
    [
        ('{\\"seed\\": 1}', '{\\"seed\\": 2}', r"run-1 is damaged: config\.json is missing or changed"),
        ('"columns"', '"fields"', r"run-0 is damaged: pack\.json lacks one of"),
        ('"heads.parquet"', '"../heads.parquet"', r"run-0 is damaged: pack\.json names no heads\.parquet"),
        ('"int16"', '"int17"', r"run-0 is damaged: its rows .* cannot be read"),
        ("reachcost-pack/1", "reachcost-pack/9", r"pack\.json is damaged: .*reachcost-pack/1"),
        ('{\n "format"', "{ ", r"pack\.json is damaged: .*JSON"),
    ],
)
def test_a_damaged_manifest_is_refused(known: str, damaged: str, named: str, packed: Path) -> None:
    file = packed / "runs" / "study" / NAME
    assert known in file.read_text()
    file.write_text(file.read_text().replace(known, damaged))
    with pytest.raises(ReachcostError, match=named):
        [read_run(path).table() for path in run_paths(packed / "runs")]


def test_weights_of_a_packed_run_are_made_again_next_to_its_files(packed: Path) -> None:
    run = read_run(path_of(packed, 2)).complete(compute(2))
    assert (run.path / "weights").read_bytes() == bytes([2, 255])
    assert (run.path / "config.json").read_text() == run.text("config.json")
    require_intact_runs(packed)
    (run.path / "weights").write_bytes(b"other")
    with pytest.raises(ReachcostError, match="weights"):
        require_intact_runs(packed)


def test_a_directory_takes_precedence_over_the_pack(packed: Path) -> None:
    again = path_of(packed, 0)
    shutil.copytree(record(packed / "other", 1)[0].path, again)
    assert read_run(again).manifest["config"] == {"seed": 1}
    assert main([str(packed)]) == 0
    assert read_run(again).pack
    assert read_run(again).manifest["config"] == {"seed": 1}


def test_a_packed_run_can_be_read_elsewhere_from_the_files_it_names(packed: Path, tmp_path: Path) -> None:
    for file in read_run(path_of(packed, 1)).kept_files:
        place = tmp_path / "elsewhere" / file.relative_to(packed)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    assert len(read_run(path_of(tmp_path / "elsewhere", 1)).table()) == 6


def test_a_study_continues_from_its_pack(tmp_path: Path) -> None:
    """A dropped run is computed again to the same rows, with a head whose weights were not kept."""
    runs, table = tmp_path / "runs", tmp_path / "tables" / "keys.json"
    make_table(quick_toy(), "keys", tmp_path, episodes=2)
    known, dropped = json.loads(table.read_text()), "corridor/control/sketch-1-beyond-trm"
    assert main([str(tmp_path)]) == 0
    for weights in [*runs.rglob("weights.safetensors")]:
        shutil.rmtree(weights.parent)
    assert main([str(tmp_path), "--drop", dropped]) == 0
    table.unlink()
    make_table(quick_toy(), "keys", tmp_path, episodes=2)
    found = json.loads(table.read_text())
    assert {**found, "seconds": 0} == {**known, "seconds": 0}
    assert [path.parent for path in runs.rglob("manifest.json")] == [runs / dropped]
    assert [path.parent.name for path in runs.rglob("weights.safetensors")] == ["sketch-1-trm"]


def test_rows_that_a_pack_cannot_hold_are_kept_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, column in {"nested": np.array([["a"], None], object), "run": np.arange(2)}.items():
        made_run(tmp_path / "runs" / "study" / name / "odd", {}, lambda _, name=name, column=column: {name: column})
        assert main([str(tmp_path)]) == 1
        assert f"{name}/odd cannot be packed" in capsys.readouterr().err
        assert files(tmp_path) == [f"study/{name}/odd/manifest.json", f"study/{name}/odd/rows.parquet"]
        shutil.rmtree(tmp_path / "runs")


def test_packed_runs_can_be_reported() -> None:
    study = Path(__file__).parent.parent / "results" / "runs" / "tworoom-trace"
    assert len(read_source(study).records) == 6
    assert len(read_source(study / "control").loops) == 2
    (loop,) = read_source(run_paths(study / "control")[0]).loops
    assert len(loop.success) == 100
    assert len(read_source(study / "heads").heads) == 1
    audits = read_source(study.parent / "pusht" / "audits").audits
    assert {audit.verdict for audit in audits.values()} == {"none", "sampling"}
    with pytest.raises(ReachcostError, match="absent"):
        read_source(study / "control" / "absent")
