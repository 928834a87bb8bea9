"""`make faults`: which outcomes are right, the record, and a few attempts of classes that take seconds."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reachcost_tools.faults.__main__ import faults
from reachcost_tools.faults.classes import CLASSES, FaultClass
from reachcost_tools.faults.commands import COMMANDS, Bench, Disturbance, contents
from reachcost_tools.faults.processes import Ended, Process, until

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
ROOT = Path(__file__).parents[2]
OURS = {name: CLASSES[name].tries() for name in ("kills", "disks", "memory", "clocks", "drivers", "interrupts")}


FULL = "reachcost: the disk is full: make room\n"


@pytest.mark.parametrize(
    ("code", "error", "right"),
    [
        *((1, FULL, True), (1, f"warning: few logs\n{FULL}", True), (0, FULL, False), (-11, FULL, False)),
        *((1, "Traceback (most recent call last):\nOSError\n", False), (1, 2 * FULL, False), (1, "", False)),
    ],
)
def test_one_sentence_and_a_failure_are_right(code: int, error: str, right: bool) -> None:
    assert Ended(code, error).sentence is right


def test_recorded_seconds_are_ignored(tmp_path: Path) -> None:
    for name, seconds in (("a", 1.25), ("b", 30)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(json.dumps({"rows": 3, "elapsed_seconds": seconds}))
        (tmp_path / name / ".lock").touch()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    (tmp_path / "b" / "manifest.json").write_text(json.dumps({"rows": 4, "elapsed_seconds": 1.25}))
    assert contents(tmp_path / "a") != contents(tmp_path / "b")


def test_processes_that_outlive_the_command_are_found(tmp_path: Path) -> None:
    def leave_one() -> None:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        os._exit(0)

    (tmp_path / "in").mkdir()
    process = Process(["--version"], tmp_path / "in", prepare=leave_one)
    assert process.wait().code == 0
    assert len(process.others()) == 1
    (left,) = process.others()
    os.kill(left, 9)
    assert until(lambda: not process.others(), 60)
    assert not process.orphans()


def test_a_process_that_starts_slowly_can_be_interrupted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = os.setsid
    monkeypatch.setattr(os, "setsid", lambda: (time.sleep(0.5), lead()))
    (tmp_path / "in").mkdir()
    process = Process(["--help"], tmp_path / "in")
    os.killpg(process.pid, signal.SIGINT)
    ended = process.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.error


def test_wrong_outcomes_are_listed_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faults.json").write_text('{"kills": {"tries": 7, "wrong": 0}}')
    for name in ("right", "odd", "dying", "late"):
        monkeypatch.setitem(CLASSES, name, FaultClass("", 4, ""))
    monkeypatch.setattr("reachcost_tools.faults.__main__.WORKER", ("-c", WORKER))
    assert faults(only=("right",), out=tmp_path) == 0
    assert faults(only=("late",), out=tmp_path) == 1  # all its attempts were right, and then it failed
    assert faults(only=("odd", "dying"), tries=3, out=tmp_path) == 1
    shown = capfd.readouterr().out
    assert "odd, try 1" in shown
    assert "dying, all from try 1" in shown
    assert json.loads((tmp_path / "faults.json").read_text()) == {
        "kills": {"tries": 7, "wrong": 0},
        "dying": {"tries": 2, "wrong": 1},
        "late": {"tries": 5, "wrong": 1},
        "odd": {"tries": 3, "wrong": 1},
        "right": {"tries": 4, "wrong": 0},
    }
    with pytest.raises(SystemExit, match="floods"):
        faults(only=("floods",), out=tmp_path)


WORKER = """
import json, sys
name, count, _ = sys.argv[1:]
for number in range(int(count)):
    wrong = "it went wrong" if number % 2 and name == "odd" else ""
    print(json.dumps({"what": f"try {number}", "wrong": wrong}))
    if name == "dying":
        sys.exit("it fell over")
if name == "late":
    sys.exit("it fell over")
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Commands that need no inputs alone: these take seconds."""
    made = Bench(tmp_path_factory.mktemp("faults"))
    (made.scratch / "inputs").mkdir()
    made.__dict__["inputs"] = made.scratch / "inputs"
    return made


@pytest.mark.parametrize("name", OURS)
def test_one_try_of_every_class_is_right(name: str, bench: Bench) -> None:
    disturbance = OURS[name]
    assert isinstance(disturbance, Disturbance)
    assert {*disturbance.turns} == {*COMMANDS}
    attempt = replace(disturbance, turns=("logs",)).attempt(bench, 0)
    assert attempt.what.startswith("try 0: logs, ")
    assert not attempt.wrong


def test_the_page_shows_what_is_recorded() -> None:
    recorded = json.loads((ROOT / "results" / "faults.json").read_text())
    page = (ROOT / "docs" / "faults.md").read_text()
    shown = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", page, re.MULTILINE))
    assert {*shown} == {*recorded} == {*CLASSES}
    for name, found in recorded.items():
        assert shown[name] == f"{CLASSES[name].what} | {found['tries']:,} | {found['wrong']}"
        assert found["wrong"] == 0
        assert found["tries"] >= CLASSES[name].count
