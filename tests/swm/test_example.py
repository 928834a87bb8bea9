"""The example of the README, smaller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "stable_worldmodel.py"


def test_the_example_runs_as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path))
    command = [sys.executable, str(EXAMPLE), "--episodes", "4", "--log-episodes", "1000"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [(name, unit) for name, _, unit in lines] == [("raw", "%"), ("repaired", "%"), ("random", "%")]
    raw, repaired, random = (int(value) for _, value, _ in lines)
    assert repaired > raw >= random
