"""Code outside reachcost that a sweep names: imported after --trust or a yes, else not even by --plan."""

import os
import pty
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from reachcost.cli import main
from reachcost.commands.sweep import study_of_sweep
from reachcost.errors import ReachcostError

OURS = "reachcost.tasks.tworoom:TwoRoom"
SWEEP = 'task = "{task}"\nmodels = ["{model}"]\nepisodes = 2\nlogs = {{episodes = 5}}\n'
CODE = "from pathlib import Path\nfrom tests.toy import Corridor, Sketch\nPath(__file__).with_name('canary').touch()\n"


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the stranger's modules write when they are imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("stranger.py", "reachcost.py"):
        (tmp_path / name).write_text(CODE)
    return tmp_path / "canary"


def sweep(task: str, model: str, *options: str) -> int:
    Path("sweep.toml").write_text(SWEEP.format(task=task, model=model))
    return main(["sweep", "sweep.toml", "--plan", *options])


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("stranger:Corridor", "lewm-tworoom-3072"),
        ("./stranger.py:Corridor", "lewm-tworoom-3072"),
        ("stranger.py:Corridor", "lewm-tworoom-3072"),
        ("reachcost.py:Corridor", "lewm-tworoom-3072"),
        ("reachcost_command:main", "lewm-tworoom-3072"),
        ("reachcost.commands.demo:demo", "lewm-tworoom-3072"),
        ("tworoom", "stranger:Sketch"),
        (OURS, "stranger.py:Sketch"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--on", "local")])
def test_without_trust_a_plan_imports_nothing(
    task: str, model: str, options: tuple[str, ...], canary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(task, model, *options) == 1
    error = capsys.readouterr().err
    assert "sweep.toml names code outside reachcost" in error
    assert "pass --trust" in error
    assert len(error.strip().splitlines()) == 1
    assert not canary.exists()
    assert not Path("demo").exists()


def test_who_makes_the_study_refuses_it_too(canary: Path) -> None:
    with pytest.raises(ReachcostError, match="--trust"):
        study_of_sweep("sweep.toml", SWEEP.format(task="stranger:Corridor", model="stranger:Sketch"))
    assert not canary.exists()


def test_trust_imports_what_is_named(canary: Path) -> None:
    assert sweep("stranger.py:Corridor", "stranger.py:Sketch", "--trust") == 0
    assert canary.exists()


def test_classes_of_reachcost_need_no_trust_and_bring_no_module_of_the_directory(canary: Path) -> None:
    assert sweep(OURS, "lewm-tworoom-3072") == 0
    assert str(Path.cwd()) not in sys.path


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("n", 1), ("", 1), ("\x04", 1)])
def test_at_a_terminal_the_user_is_asked(answer: str, code: int, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user, terminal = pty.openpty()
    with os.fdopen(terminal) as typed, os.fdopen(os.dup(terminal), "w") as told:
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stderr", told)
        os.write(user, f"{answer}\n".encode())
        assert sweep("stranger.py:Corridor", "stranger.py:Sketch") == code
    shown = b""
    with suppress(OSError), os.fdopen(user, "rb", buffering=0) as screen:  # it ends in an error where nobody writes
        while part := screen.read(10_000):
            shown += part
    assert b"stranger.py:Corridor" in shown
    assert canary.exists() is not bool(code)
