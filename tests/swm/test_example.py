"""The examples of the README, smaller, and the code of the page."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reachcost.swm.evaluation import silence
from tests.test_documentation import NEEDS_SWM, ROOT, blocks

EXAMPLE = ROOT / "examples" / "stable_worldmodel.py"


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran


def test_the_example_runs_as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path))
    ran = run(EXAMPLE, "--episodes", "4", "--log-episodes", "300", "--pairs", "20000")
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [(name, unit) for name, _, unit in lines] == [("raw", "%"), ("repaired", "%"), ("random", "%")]
    raw, repaired, random = (int(value) for _, value, _ in lines)
    assert repaired > raw >= random


def test_the_python_of_the_readme_is_run_from_the_readme_itself(tmp_path: Path) -> None:
    script = tmp_path / "examples" / "pages.py"
    script.parent.mkdir()
    shutil.copy(ROOT / "examples" / "pages.py", script)
    written = ("console\nmake demo", "python\nname = 'raw'\nprint(f'{name} 14%')", "python\nprint('the second one')")
    (tmp_path / "README.md").write_text("\n".join(f"```{block}\n```" for block in written))
    assert run(script).stdout == "raw 14%\n"


def test_python_in_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    with silence():
        exec("\n".join(blocks(ROOT / "docs" / NEEDS_SWM, "python")), namespace)
    assert len(namespace["found"]["episode_successes"]) == 2
