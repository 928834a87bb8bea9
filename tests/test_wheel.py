"""The wheel: small, with one world model, and sufficient for the example of the README."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.test_documentation import README, ROOT, SMALLER, blocks

LARGEST = 10 * 10**6


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [*pip("wheel"), "--no-build-isolation", "--wheel-dir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = out.glob("reachcost-*.whl")
    return built


def pip(command: str, *before: str) -> list[str]:
    return [sys.executable, "-m", "pip", *before, command, "--quiet", "--no-index", "--no-deps"]


@pytest.fixture(scope="module")
def python(wheel: Path) -> Path:
    """The interpreter of a new environment with the wheel, and with the dependencies of this one."""
    venv.create(wheel.parent / "environment", symlinks=True)
    found = wheel.parent / "environment" / "bin" / "python"
    subprocess.run([*pip("install", "--python", str(found)), str(wheel)], check=True)
    (packages,) = (wheel.parent / "environment" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return found


def run(python: Path, directory: Path, code: str) -> str:
    """Output of code in a directory, without this repository on the module path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REACHCOST_"))}
    environment |= {"REACHCOST_CACHE": str(directory / "cache"), "HOME": str(directory)}
    done = subprocess.run([python, "-c", code], cwd=directory, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout + done.stderr


def test_the_wheel_is_small_and_has_one_world_model(wheel: Path) -> None:
    assert wheel.stat().st_size <= LARGEST
    names = ZipFile(wheel).namelist()
    assert [name.split("/")[-2] for name in names if name.endswith(".safetensors")] == ["lewm-tworoom-3072"]
    assert {name.split("/")[0] for name in names} == {"reachcost", "reachcost_command.py", "reachcost-0.1.0.dist-info"}


def test_the_example_of_the_readme_runs_with_the_wheel(python: Path, tmp_path: Path) -> None:
    code = blocks(README, "python")[0]
    for whole, part in SMALLER[README.name].items():
        code = code.replace(whole, part)
    assert run(python, tmp_path, code)


def test_the_wheel_names_the_models_that_it_lacks(python: Path, tmp_path: Path) -> None:
    code = "import reachcost as rc; print(rc.__file__); print(*(n for n, directory in rc.zoo().items() if directory))"
    file, *here = run(python, tmp_path, code).splitlines()
    assert Path(file).is_relative_to(python.parent.parent)
    assert here == ["lewm-tworoom-3072"]
    code = "from reachcost.cli import main; assert main(['check', 'pldm-tworoom-3072'])"
    assert "REACHCOST_ZOO" in run(python, tmp_path, code)
