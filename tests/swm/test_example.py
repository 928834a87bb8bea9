"""The example of the README, smaller, and the code of the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reachcost.swm.package import silence
from tests.test_documentation import NEEDS_SWM, ROOT, run_python

EXAMPLE = ROOT / "examples" / "stable_worldmodel.py"


def test_the_example_runs_as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path))
    command = [sys.executable, str(EXAMPLE), "--episodes", "4", "--log-episodes", "1000"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [(name, unit) for name, _, unit in lines] == [("raw", "%"), ("repaired", "%"), ("random", "%")]
    raw, repaired, random = (int(value) for _, value, _ in lines)
    assert repaired > raw >= random


def test_python_in_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with silence():
        found: Any = run_python(ROOT / "docs" / NEEDS_SWM)["found"]
    assert len(found["episode_successes"]) == 2
