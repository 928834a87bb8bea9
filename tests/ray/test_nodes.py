"""Cells on a cluster of several nodes: the same rows as in one process, also if processes and nodes are killed."""

import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from reachcost.cli import main
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.experiments.cells.executors import Executor, Start
from reachcost.experiments.cells.ray_tasks import RayTasks, nodes_directory
from reachcost.experiments.cells.schedule import TableRequest

from ..cells import number_request
from ..small import contents
from ..test_cells import alive, made, recorded, seen, sleeper, small_request, wait_for
from ..test_sweep import CORRIDOR, QUICK
from .nodes import Nodes

__all__ = ["seen"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def start(nodes: Nodes) -> Start:
    return partial(RayTasks, address=nodes.address)


def left_on_nodes() -> list[Path]:
    return [*nodes_directory().glob(".*")]


@pytest.mark.parametrize(
    "table",
    [small_request("toponav", "toponav", 2), small_request("features", "tworoom", 2)],
    ids=lambda table: table.table,
)
def test_nodes_record_the_same_bytes(table: TableRequest, start: Start, tmp_path: Path) -> None:
    for name, place in (("here", Executor), ("nodes", start)):
        made(tmp_path / name, table, start=place)
    assert contents(tmp_path / "nodes") == contents(tmp_path / "here")
    assert not left_on_nodes()


def test_more_workers_than_cores_take_turns(nodes: Nodes, tmp_path: Path, seen: Path) -> None:
    names, handler = [f"fine-{number}" for number in range(4)], signal.getsignal(signal.SIGTERM)
    made(tmp_path, number_request(seen, *names), start=partial(RayTasks, address=nodes.address, workers=4))
    assert {f"numbers/numbers/{name}" for name in names} < recorded(tmp_path)
    assert signal.getsignal(signal.SIGTERM) == handler  # Ray has its own


OWN = """
from pathlib import Path
from tests.toy import Corridor, Sketch
with Path({seen!r}).open("a") as seen:
    seen.write(__file__ + "\\n")
"""


def test_a_custom_world_is_sent_with_its_logs(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reachcost.data.logs_files import write_logs

    from ..toy import Corridor

    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    Path("own/maze.py").write_text(OWN.format(seen=str(tmp_path / "seen")))
    write_logs(Corridor().generate_logs(episodes=30), "my.h5")
    text = CORRIDOR.replace("tests.toy:", "own/maze.py:").replace("{episodes = 100}", "'my.h5'")
    Path("keys.toml").write_text(text + "budgets = [4]\n" + QUICK)
    for out, where in (("here", ()), ("nodes", ("--on", "ray", "--address", nodes.address))):
        assert main(["sweep", "keys.toml", "--trust", "--out", out, *where]) == 0
    assert contents(tmp_path / "nodes") == contents(tmp_path / "here")
    driver, *workers = (tmp_path / "seen").read_text().splitlines()
    assert driver == str(tmp_path / "own" / "maze.py")
    assert workers
    assert all(Path(path).is_relative_to(nodes_directory()) for path in workers)


def test_workers_that_die_are_replaced_and_a_cell_that_kills_them_fails(
    start: Start, seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr("reachcost.experiments.cells.ray_tasks.RETRIES", 1)
    with pytest.raises(ReachcostError) as failed, pytest.warns(ReachcostWarning, match="numbers are old"):
        made(out, number_request(seen, "notes", "dies", "raises", "dies-once", "warns"), start=start)
    message = str(failed.value)
    assert re.search(r"dies failed \(its worker process died 2 times: memory may have run out", message)
    assert "raises failed (there is no such number: take another)" in message
    names = ("notes", "dies-once", "warns")
    assert recorded(out) == {"numbers/base/weights", *(f"numbers/numbers/{name}" for name in names)}
    assert Path((seen / "notes").read_text()).is_relative_to(nodes_directory())
    assert not left_on_nodes()


def test_a_node_that_dies_loses_no_cell(nodes: Nodes, start: Start, seen: Path, tmp_path: Path) -> None:
    def kill() -> None:
        nodes.kill(nodes.number_of(sleeper(seen, "sleeps-once")))

    thread = threading.Thread(target=kill)
    thread.start()
    names = ("fine", "sleeps-once", "last")
    made(tmp_path, number_request(seen, *names), start=start)
    thread.join()
    assert recorded(tmp_path) == {"numbers/base/weights", *(f"numbers/numbers/{name}" for name in names)}


DRIVER = """
import sys
from functools import partial
from pathlib import Path
from reachcost.experiments.cells.ray_tasks import RayTasks
from reachcost.experiments.tables import make_tables
from tests.cells import number_request
seen, out, address = sys.argv[1:]
requests = [number_request(Path(seen), "fine", "sleeps-once")]
print([*make_tables(requests, Path(out), partial(RayTasks, address=address))])
"""


def test_a_killed_driver_resumes_when_it_is_repeated(nodes: Nodes, start: Start, seen: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRIVER, str(seen), str(tmp_path), nodes.address]
    driver = subprocess.Popen(command, cwd=ROOT)
    worker = sleeper(seen, "sleeps-once")
    driver.kill()
    driver.wait()
    wait_for(lambda: not alive(worker))
    made(tmp_path, number_request(seen, "fine", "sleeps-once"), start=start)
    assert recorded(tmp_path) == {f"numbers/{name}" for name in ("base/weights", "numbers/fine", "numbers/sleeps-once")}


def test_nodes_of_another_version_are_refused(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.experiments.cells.ray_tasks.versions", lambda: {"torch": "9.9"})
    monkeypatch.setattr("reachcost.experiments.cells.ray_tasks.code_sha256", lambda: "12")
    with pytest.raises(ReachcostError) as refused:
        made(tmp_path / "out", number_request(tmp_path, "fine"), start=start)
    assert re.fullmatch(
        r"a node of the cluster \(127.0.0.1\) has torch \S+ instead of 9.9, another state of the code of reachcost: "
        "install there what is installed here",
        str(refused.value),
    )


def test_an_address_without_a_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "toponav", "--out", str(tmp_path), "--on", "ray", "--address", "127.0.0.1:1"]) == 1
    assert re.search(r"there is no Ray cluster 127.0.0.1:1 \(.*\): start one with", capsys.readouterr().err)


def test_ctrl_c_ends_the_cluster_of_a_command_silently(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(CORRIDOR + "[heads.trm]\nrecipe = {epochs = 1000000}\n")
    command = [sys.executable, "-m", "reachcost", "sweep", str(tmp_path / "keys.toml"), "--trust"]
    command += ["--on", "ray", "--workers", "1"]
    out = tmp_path / "out"
    driver = subprocess.Popen(
        [*command, "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: bool(recorded(out)))
    os.killpg(driver.pid, signal.SIGINT)
    output, errors = driver.communicate(timeout=120)
    assert driver.returncode == 130
    assert errors == "reachcost: interrupted; saved files are complete, and the same command uses them\n"
    assert all(line.startswith(("keys: ", "keys/")) for line in output.splitlines())
    assert not left_on_nodes()
