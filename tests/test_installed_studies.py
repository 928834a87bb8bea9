"""Studies and commands of other packages are found through entry points, as those of the paper are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STUDY = """
from dataclasses import dataclass

import numpy as np

from reachcost.experiments.cells import RunSpec
from reachcost.experiments.study import Tables
from reachcost.experiments.tables import TablePlan, TableRows
from reachcost.results.tables import TableRow


@dataclass(frozen=True)
class Numbers(RunSpec):
    kind = "numbers"

    def name(self, recording):
        return "three"

    def config(self, recording):
        return {"numbers": 3}

    def compute(self, recording, directory):
        return {"number": np.arange(1, 4)}


def rows(recording):
    number = recording.read(Numbers()).table()["number"].to_pylist()
    return [TableRow("all", "mine", len(number), {"sum": float(sum(number))}, {}, None)]


STUDY = Tables(name="mine", protocol=1, tables={"sums": TablePlan("Sums.", ("sum",), TableRows([Numbers()], rows))})
"""


def package(directory: Path, entry: str, group: str = "reachcost.studies") -> None:
    """A package of one module, installed in a directory: the module, and the metadata that an installer writes."""
    (directory / "my_study.py").write_text(STUDY)
    information = directory / "my_study-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-study\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\nmine = {entry}\n")


def reachcost(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "reachcost", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def reproduce(name: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return reachcost(directory, "reproduce", name, "--out", str(directory / "out"))


def test_a_table_of_an_installed_package_is_reproduced(tmp_path: Path) -> None:
    package(tmp_path, "my_study:STUDY")
    assert reproduce("sums", tmp_path).returncode == 0
    table = json.loads((tmp_path / "out" / "tables" / "sums.json").read_text())
    assert table["rows"][0]["ours"] == {"sum": 6.0}
    assert [path.parent.name for path in (tmp_path / "out" / "runs").rglob("rows.parquet")] == ["three"]


@pytest.mark.parametrize("entry", ["my_studies:STUDY", "my_study:STUDIES"])
def test_a_study_that_cannot_be_imported_is_named(entry: str, tmp_path: Path) -> None:
    package(tmp_path, entry)
    ended = reproduce("sums", tmp_path)
    assert ended.returncode == 1
    assert entry in ended.stderr


def test_a_command_that_cannot_be_imported_breaks_no_other(tmp_path: Path) -> None:
    package(tmp_path, "my_commands:run", "reachcost.commands")
    ended = reachcost(tmp_path, "demo", "--help")
    assert ended.returncode == 0
    assert "my_commands" in ended.stderr
