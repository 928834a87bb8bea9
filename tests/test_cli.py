"""The command line: first commands, and messages of mistakes."""

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import reachcost
from reachcost import make_task
from reachcost.cli import main
from reachcost.data.logs_files import open_logs
from reachcost.experiments.registry import all_tables
from reachcost.experiments.study import HeadPlan
from reachcost.heads.recipe import Recipe
from reachcost.planning.cem import CEM


@pytest.mark.slow
def test_the_demo_shows_the_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reachcost.experiments.demo.HEAD", HeadPlan(Recipe(epochs=3), pairs=20_000))
    monkeypatch.setattr("reachcost.experiments.demo.PLANNER", CEM(candidates=100, elites=10))
    command = ["demo", "--episodes", "4", "--log-episodes", "300", "--out", str(tmp_path / "demo")]
    assert main(command) == 0
    shown = capsys.readouterr().out
    for word in ("raw", "trm", "trm-shuffled", "oracle", "random", "paper"):
        assert word in shown
    table = tmp_path / "demo" / "tables" / "demo.json"
    made = table.read_bytes()
    success = {row["cost"]: row["ours"]["success"] for row in json.loads(made)["rows"]}
    assert success["trm"] > max(success["raw"], success["trm-shuffled"])
    assert success["oracle"] > success["random"]
    assert main(command) == 0
    assert "recorded earlier" in capsys.readouterr().out
    assert table.read_bytes() == made


def message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 1
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    return error


def test_mistakes_are_explained_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = message(["reproduce", "mars"], capsys)
    assert all(f" {name}" in known for name in all_tables())
    broken = tmp_path / "out" / "runs" / "toponav" / "control" / "exact-3072-detour-raw"
    broken.mkdir(parents=True)
    assert "is damaged" in message(["reproduce", "toponav", "--out", str(tmp_path / "out")], capsys)
    assert [path.name for path in broken.parent.iterdir()] == [broken.name]
    missing = ["audit", "--model", "lewm-tworoom-3072", "--logs", str(tmp_path / "none.h5")]
    assert "none.h5" in message(missing, capsys)
    assert "--candidates 1" in message([*missing, "--candidates", "1"], capsys)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["reprodce", "all"], "reproduce?"),
        (["audit", "--episode", "3", "--model", "m", "--logs", "l"], "--episodes?"),
        (["fit", "--labels", "stiched", "--model", "m", "--logs", "l", "--out", "o"], "stitched,"),
        (["fit", "--pairs", "ten", "--model", "m", "--logs", "l", "--out", "o"], "whole number"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert meant in line


@pytest.mark.parametrize(("package", "name"), [(reachcost, "LatentMse"), (reachcost.costs, "LatentMse")])
def test_a_misspelt_name_gets_a_suggestion(package: ModuleType, name: str) -> None:
    with pytest.raises(AttributeError, match="did you mean"):
        getattr(package, name)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"reachcost {version('reachcost')}"
    assert reachcost.__version__ == version("reachcost")


def test_logs_are_generated_with_their_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs.h5"
    assert main(["logs", "generate", "tworoom", "--episodes", "20", "--seed", "5", "--out", str(path)]) == 0
    assert "mean displacement, px" in capsys.readouterr().out
    np.testing.assert_array_equal(
        open_logs(path).columns["state"], make_task("tworoom").generate_logs(20, seed=5).columns["state"]
    )


def test_importing_reachcost_does_not_load_torch() -> None:
    code = "import sys, reachcost; assert 'torch' not in sys.modules; assert reachcost.LatentMSE; reachcost.fit"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONWARNINGS": "error"})


def test_public_names_do_not_depend_on_imports() -> None:
    for _, module, _ in pkgutil.walk_packages(reachcost.__path__, "reachcost."):
        importlib.import_module(module)
    names = 0
    for topic in (reachcost, *(value for name, value in vars(reachcost).items() if name in reachcost.__all__)):
        for name in getattr(topic, "__all__", ()):
            assert getattr(topic, name).__name__.rpartition(".")[2] == name
            names += not inspect.ismodule(getattr(topic, name))
    assert names > 90
    unknown = "teleport"
    with pytest.raises(AttributeError, match="teleport"):
        getattr(reachcost, unknown)


def test_the_top_level_is_small() -> None:
    assert len([name for name in reachcost.__all__ if not inspect.ismodule(getattr(reachcost, name))]) <= 40
