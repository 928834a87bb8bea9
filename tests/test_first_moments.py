"""Start and end of the command: Ctrl-C, closed pipes, too little memory, odd names."""

import os
import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reachcost as rc
from reachcost.cli import main
from reachcost.core.progress import PlainConsole
from reachcost_tools.faults.kills import error_of, interrupted
from reachcost_tools.faults.processes import Process

COMMAND = [sys.executable, "-m", "reachcost"]
QUICK = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15, 0.4, 0.9])
def test_ctrl_c_ends_the_command_at_any_moment(delay: float, tmp_path: Path) -> None:
    rendering = ("logs", "generate", "tworoom", "--episodes", "2000", "--pixels", "64", "--out", "logs.h5")
    (tmp_path / "out").mkdir()
    process = Process(rendering, tmp_path / "out", fresh=True, options=("-X", "importtime"))
    ended = interrupted(process, delay, fresh=True)
    assert ended.code == 130
    assert error_of(ended, ()) == process.orphans() == ""
    assert not [*(tmp_path / "out").iterdir()]


IMPORTED = """
import os, signal, sys

class Interrupt:
    def find_spec(name, *_):
        if name == "gymnasium":  # the first of what the package imports that takes long
            os.kill(os.getpid(), signal.SIGINT)

sys.argv[0], sys.orig_argv = "-m", ["python", "-m", "reachcost"]
sys.meta_path.insert(0, Interrupt)
import reachcost
"""


def test_ctrl_c_during_the_import_of_the_package() -> None:
    ended = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, env=QUICK, timeout=120)
    assert (ended.returncode, ended.stderr) == (130, "reachcost: interrupted\n")


def test_background_jobs_ignore_interrupts() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import reachcost_command; "
        "reachcost_command.listen(); print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def output_to(where: str) -> dict[str, Any]:
    """Arguments of `subprocess.run` for an unwritable standard output."""
    if where == "closed":
        return {"preexec_fn": partial(os.close, 1)}
    if where == "full":
        return {"stdout": os.open("/dev/full", os.O_WRONLY)}
    reader, writer = os.pipe()
    os.close(reader)
    return {"stdout": writer}


LOGS = ("logs", "generate", "tworoom", "--episodes", "3", "--pixels", "64", "--out", "logs.h5")


@pytest.mark.parametrize("where", ["unread", "closed", "full"])
@pytest.mark.parametrize("arguments", [("--version",), ("--help",), LOGS], ids=["version", "help", "logs"])
def test_unwritable_output_does_not_stop_the_work(arguments: tuple[str, ...], where: str, tmp_path: Path) -> None:
    given = output_to(where)
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=QUICK, timeout=120, **given
    )
    if "stdout" in given:
        os.close(given["stdout"])
    if where == "full":
        assert ended.returncode == 1
        assert re.fullmatch("reachcost: .*No space left on device.*\n", ended.stderr)
    else:
        assert (ended.returncode, ended.stderr) == (0, "")
    if arguments == LOGS:
        assert len(rc.open_logs(tmp_path / "logs.h5")) == 3


LATE = """
import os, signal, sys, reachcost_command
class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGINT):
        kill(me, number)
late = Late()
sys.exit(reachcost_command.main())
"""


@pytest.mark.parametrize("words", ["--version", "--help"])
def test_an_interrupt_after_the_work_has_no_effect(words: str) -> None:
    ended = subprocess.run([sys.executable, "-c", LATE, words], capture_output=True, env=QUICK, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_too_little_memory_to_start_is_explained() -> None:
    limit = 150 * 2**20, 150 * 2**20
    command = [*COMMAND, "check", "toponav"]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=QUICK,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert re.match("reachcost: (there is too little memory to begin|memory ran out)", ended.stderr)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), OSError(12, "Cannot allocate memory")],
)
def test_too_little_memory_for_the_work_is_explained(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr("reachcost.tasks.toponav.TopoNav.generate_logs", full)
    assert main(["logs", "generate", "toponav", "--out", str(tmp_path / "logs.h5")]) == 1
    assert capsys.readouterr().err.startswith("reachcost: memory ran out; ")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("task", ["tworoom", "toponav"])
def test_more_episodes_than_memory_holds_are_refused_at_once(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "generate", task, "--episodes", str(10**12), "--out", str(tmp_path / "logs.h5")]) == 1
    assert "GB of memory" in capsys.readouterr().err
    with pytest.raises((rc.ReachcostError, MemoryError), match=r"memory|allocate"):
        rc.make_task(task).generate_logs(10**12)


NAMES = ("logs[/nothing].h5", "logs:smile:.h5", "logs\x1b[2J.h5")


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_without_markup(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["logs", "generate", "toponav", "--episodes", "3", "--out", name]) == 0
    assert name.replace("\x1b", "⟨1B⟩") in capsys.readouterr().out
    assert (tmp_path / name).exists()


def test_progress_bars_show_text_without_markup(capsys: pytest.CaptureFixture[str]) -> None:
    from reachcost.core.progress import ConsoleProgress

    progress = ConsoleProgress(PlainConsole(force_terminal=True, force_interactive=True, width=120))
    progress.step("model[/x]")
    for _ in progress.track([1], "[/y]"):
        progress.note("[/z]")
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("model[/x]", "[/y]", "[/z]"))
