"""Cells: declared runs, computed by any executor, recorded by one process, to the same bytes."""

import io
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reachcost.cli import main
from reachcost.core.files import new_directory, private_directory, remove_leftovers, shared_directory
from reachcost.core.progress import ConsoleProgress
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.experiments.cells import Cell, Recording, StudyRef, missing_of
from reachcost.experiments.cells.executors import Executor, LocalPool, Recordings, Start, Worker
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.study import Tables
from reachcost.experiments.tables import TablePlan, TableRows, make_tables, plan_of
from reachcost.results.durations import Durations
from reachcost.results.records import read_run
from reachcost.results.tables import ResultTable

from .cells import NumberRun, number_request, quick_toy, small_study
from .small import contents

TWO: Start = partial(LocalPool, workers=2)
TOY = TableRequest("keys", StudyRef(quick_toy, episodes=2))


def made(out: Path, *requests: TableRequest, start: Start = Executor, **options: Any) -> list[ResultTable]:
    return [table for table, _ in make_tables(requests, out, start, **options)]


def small_request(table: str, study: str, episodes: int | None = None) -> TableRequest:
    return TableRequest(table, StudyRef(small_study, (study,), episodes))


def cells_of(request: TableRequest, out: Path) -> dict[Path, Cell]:
    return request.cells(Recordings(out))


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    (tmp_path / "seen").mkdir()
    return tmp_path / "seen"


def recorded(out: Path) -> set[str]:
    return {str(path.parent.relative_to(out / "runs")) for path in (out / "runs").rglob("manifest.json")}


# Declarations


def test_a_table_declares_every_cell_and_nothing_is_computed(tmp_path: Path) -> None:
    cells = cells_of(TOY, tmp_path)
    assert missing_of(cells) == cells
    assert not [*tmp_path.iterdir()]
    made(tmp_path, TOY)
    assert {cell.name for cell in cells.values()} == recorded(tmp_path)
    assert not missing_of(cells_of(TOY, tmp_path))


def test_a_cell_needs_what_its_run_declares(tmp_path: Path) -> None:
    request = number_request(tmp_path, "fine", "other")
    cells = {cell.path.name: cell for cell in cells_of(request, tmp_path).values()}
    assert [need.path for need in cells["fine"].needs] == [cells["weights"].path]
    assert not cells["weights"].needs
    made(tmp_path, request)
    sha256 = read_run(cells["weights"].path).sha256["weights"]
    assert read_run(cells["fine"].path).manifest["config"]["weights_sha256"] == sha256


class Changed(NumberRun):
    """The same name, and another configuration."""

    def config(self, recording: Recording) -> dict[str, Any]:
        return {"changed": True}


def test_the_time_of_a_plan_is_linear_in_its_cells(tmp_path: Path) -> None:
    def seconds(cells: int) -> float:
        request, began = number_request(tmp_path, *map(str, range(cells))), time.process_time()
        assert len(missing_of(cells_of(request, tmp_path))) == cells + 1
        return time.process_time() - began

    assert seconds(20_000) < 16 * seconds(2_500)


def test_a_second_configuration_under_one_name_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for second in (NumberRun("fine", "there"), Changed("fine", "here")):
        rows = TableRows([NumberRun("fine", "here"), second], lambda recording: [])
        study = Tables(name="numbers", protocol=1, tables={"numbers": TablePlan("", (), rows)})
        request = TableRequest("numbers", StudyRef(lambda study=study: study))
        if isinstance(second, Changed):
            with pytest.raises(ReachcostError, match="another configuration"):
                cells_of(request, tmp_path)
        else:
            assert len(cells_of(request, tmp_path)) == 2  # with the weights: equal configurations are one run


def test_a_run_that_is_read_and_not_declared_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="numbers/numbers/other"):
        made(tmp_path, number_request(tmp_path, "undeclared"))
    assert recorded(tmp_path) == {"numbers/base/weights"}


# The same bytes from every executor


@pytest.fixture(scope="module")
def toy_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("here")
    made(out, TOY)
    return out


def test_workers_record_the_same_bytes(toy_here: Path, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    shown = {"console": console, "progress": ConsoleProgress(console)}
    made(tmp_path, TOY, start=TWO, **shown)
    assert contents(tmp_path) == contents(toy_here)
    output = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert output.startswith("keys: 17 to compute\n")
    assert re.search(r"^corridor/heads/sketch-1-trm [\d.]+ s; \d+ of 17 cells done", output, re.MULTILINE)
    assert "17 of 17 cells done" in output
    made(tmp_path, TOY, start=TWO, **shown)
    assert console.file.getvalue()[len(output) :] == "keys: 17 cells recorded earlier, 0 to compute\n"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
def test_workers_record_the_same_bytes_of_learned_models(tmp_path: Path) -> None:
    for name, start in (("here", Executor), ("local", TWO)):
        made(tmp_path / name, small_request("features", "tworoom", 2), start=start)
    assert contents(tmp_path / "local") == contents(tmp_path / "here")


def test_missing_weights_are_made_again_by_one_cell(toy_here: Path, tmp_path: Path) -> None:
    out = shutil.copytree(toy_here, tmp_path / "out")
    before = contents(out)
    (out / "runs" / "corridor" / "heads" / "sketch-1-trm" / "weights.safetensors").unlink()
    for kind in ("control", "sasc"):
        shutil.rmtree(out / "runs" / "corridor" / kind / "sketch-1-beyond-trm")
    assert {cell.name for part in plan_of([TOY], out) for cell in part.remaining} == {
        *(f"corridor/{kind}/sketch-1-beyond-trm" for kind in ("control", "sasc")),
        "corridor/heads/sketch-1-trm",
    }
    made(out, TOY)
    assert contents(out) == before


# Shared files


def test_logs_are_encoded_once_for_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "cache"))
    made(tmp_path / "local", TOY, start=TWO)
    (kept,) = (tmp_path / "cache" / "latents").iterdir()
    before = (kept / "manifest.json").stat().st_mtime_ns
    made(tmp_path / "here", TOY)
    assert (kept / "manifest.json").stat().st_mtime_ns == before
    assert contents(tmp_path / "local") == contents(tmp_path / "here")


def test_a_cell_with_another_configuration_in_a_worker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="drawn"):
        made(tmp_path, number_request(tmp_path, "draws"), start=TWO)


def test_a_shared_directory_is_removed_by_the_last_process(tmp_path: Path) -> None:
    (first, leave), (second, leave_too) = (shared_directory(tmp_path / "node", "0" * 32) for _ in range(2))
    assert first == second
    leave()
    remove_leftovers(tmp_path)
    assert first.exists()
    leave_too()
    assert not first.exists()
    (tmp_path / f".node.{'0' * 32}.partial").write_text("in the way")
    with pytest.raises(ReachcostError, match="node"):
        shared_directory(tmp_path / "node", "0" * 32)


def test_the_directory_of_workers_is_private(tmp_path: Path) -> None:
    place = private_directory(tmp_path / "workers")
    assert place.stat().st_mode & 0o777 == 0o700
    assert private_directory(place) == place
    place.chmod(0o777)
    with pytest.raises(ReachcostError, match="TMPDIR"):
        private_directory(place)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ReachcostError, match="TMPDIR"):
        private_directory(tmp_path / "link")


def test_a_missing_ray_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["reproduce", "toponav", "--out", str(tmp_path), "--on", "ray"]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r"reachcost: --on ray needs Ray \(.*\): pip install 'reachcost\[ray\]'\n", error)
    assert main(["reproduce", "toponav", "--address", "auto"]) == 1
    assert "--on ray" in capsys.readouterr().err


def test_a_worker_records_nothing_that_its_cell_needs(tmp_path: Path) -> None:
    request, out = number_request(tmp_path, "fine"), tmp_path / "out"
    (cell,) = (cell for cell in cells_of(request, out).values() if cell.path.name == "fine")
    outcome = Worker(out, tmp_path, 1, "cpu").compute(cell.message())
    assert isinstance(outcome.result, str)
    assert "numbers/base/weights is needed and not recorded" in outcome.result
    assert not out.exists()


# Failures


def test_a_failing_cell_stops_nothing_but_its_table(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    broken, complete = number_request(seen, "fine", "raises", "errs", "last"), number_request(seen, "fine", "last")
    tables = make_tables([broken, complete], out)
    assert [row.cost for row in next(tables)[0].rows] == ["fine", "last"]
    with pytest.raises(ReachcostError) as failed:
        next(tables)
    assert re.fullmatch(
        r"numbers/numbers/raises failed \(there is no such number: take another\); numbers/numbers/errs failed "
        r"\(ZeroDivisionError: by nothing in \S+cells.py:\d+\): fix that, and repeat the command, as all other cells "
        "are recorded",
        str(failed.value),
    )
    assert recorded(out) == {"numbers/base/weights", "numbers/numbers/fine", "numbers/numbers/last"}
    made(out, number_request(seen, "fine", "last"))


def test_a_full_disk_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reachcost.results.records.write_rows", full)
    with pytest.raises(OSError, match="No space left"):
        made(tmp_path, number_request(tmp_path, "fine"))
    assert not recorded(tmp_path)
    assert not [*tmp_path.rglob(".*.partial")]


def test_workers_that_die_are_replaced_and_their_cell_tried_once_more(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = number_request(seen, "fine", "dies", "raises", "dies-once", "warns", "last")
    with (
        pytest.raises(ReachcostError) as failed,
        pytest.warns(ReachcostWarning, match="numbers are old"),
    ):
        made(out, order, start=TWO)
    message = str(failed.value)
    assert re.search(r"dies failed \(its worker process died 2 times: memory may have run out", message)
    assert "raises failed (there is no such number: take another)" in message
    assert recorded(out) == {
        "numbers/base/weights",
        *(f"numbers/numbers/{name}" for name in ("fine", "dies-once", "warns", "last")),
    }
    config = read_run(out / "runs" / "numbers" / "numbers" / "last").manifest["config"]
    assert config["evaluation_set_sha256"] == "last"  # which only the worker knew
    assert not [*out.rglob(".*.partial")]


def test_a_study_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="function at the top of a module"):
        made(tmp_path, TableRequest("keys", StudyRef(lambda: quick_toy())), start=TWO)


# Interrupts

DRIVER = """
import sys
from functools import partial
from pathlib import Path
from reachcost.experiments.cells.executors import LocalPool
from reachcost.experiments.tables import make_tables
from tests.cells import number_request
seen, out = map(Path, sys.argv[1:])
print([*make_tables([number_request(seen, "fine", "sleeps")], out, partial(LocalPool, workers=2))])
"""


def sleeper(seen: Path, name: str = "sleeps") -> int:
    """The process in which a cell sleeps, once it does."""
    wait_for(lambda: (seen / name).exists() and (seen / name).read_text() != "")
    return int((seen / name).read_text())


@pytest.mark.slow
def test_workers_end_when_their_driver_is_killed(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", DRIVER, str(seen), str(out)]
    driver = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
    worker = sleeper(seen)
    driver.kill()
    driver.wait()
    wait_for(lambda: not alive(worker))
    assert [*out.glob(".*.partial")]
    made(out, number_request(seen, "fine"))  # nobody holds the directory, and what was left is swept up
    assert not [*out.rglob(".*.partial")]


def test_ctrl_c_ends_workers_and_the_same_call_goes_on(seen: Path, tmp_path: Path) -> None:
    out, workers = tmp_path / "out", []

    def interrupt() -> None:
        workers.append(sleeper(seen))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        made(out, number_request(seen, "fine", "sleeps"), start=TWO)
    assert not alive(workers[0])
    assert recorded(out) == {"numbers/base/weights", "numbers/numbers/fine"}
    assert not [*out.rglob(".*.partial")]
    made(out, number_request(seen, "fine"), start=TWO)


def wait_for(condition: Callable[[], bool]) -> None:
    patience = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# Plans and estimates


def test_a_plan_counts_missing_cells_and_writes_nothing(toy_here: Path, tmp_path: Path) -> None:
    out = shutil.copytree(toy_here, tmp_path / "out")
    for name in ("control/sketch-1-beyond-raw", "heads/sketch-2-trm", "audits/sketch-1-beyond-trm"):
        shutil.rmtree(out / "runs" / "corridor" / name)
    before = contents(tmp_path)
    parts = {part.kind: part for part in plan_of([TOY], out)}
    assert {kind: (part.done, len(part.remaining)) for kind, part in parts.items()} == {
        "heads": (1, 1),
        "control": (7, 1),
        "sasc": (6, 0),
        "audits": (0, 1),
    }
    took = read_run(out / "runs" / "corridor" / "heads" / "sketch-1-trm").manifest["elapsed_seconds"]
    assert (parts["heads"].seconds, parts["heads"].unknown) == (took, 0)
    assert (parts["audits"].seconds, parts["audits"].unknown) == (0, 1)
    assert parts["control"].seconds > 0
    assert contents(tmp_path) == before


def test_a_cell_is_counted_in_the_first_of_the_tables_that_share_it(tmp_path: Path) -> None:
    requests = [number_request(tmp_path, "fine"), number_request(tmp_path, "fine", "last")]
    remaining = [[cell.path.name for cell in part.remaining] for part in plan_of(requests, tmp_path)]
    assert remaining == [["weights"], ["fine"], ["last"]]


def test_only_comparable_runs_estimate_the_time_of_a_cell(toy_here: Path) -> None:
    def cell(**changes: Any) -> Any:
        cells = cells_of(TOY, toy_here / "nowhere").values()
        found = next(one for one in cells if one.name == "corridor/control/sketch-2-beyond-raw")
        return found.name, {**found.config, **changes}

    durations = Durations([toy_here])
    took = read_run(toy_here / "runs" / "corridor" / "control" / "sketch-2-beyond-raw").manifest["elapsed_seconds"]
    other = read_run(toy_here / "runs" / "corridor" / "control" / "sketch-1-beyond-raw").manifest["elapsed_seconds"]
    assert durations.of(*cell()) == pytest.approx((took + other) / 2)
    assert durations.of(*cell(cost="new", planner_seed=9)) is not None
    assert durations.of(*cell(budget=7)) is None


def test_the_command_shows_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "toponav-recipes", "--plan", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"toponav-recipes +heads +0 +24 ", shown)
    assert "48 cells remain" in shown
    assert not out.exists()


def test_workers_are_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "toponav", "--workers", "2"]) == 1
    assert "--on local" in capsys.readouterr().err
    assert main(["reproduce", "toponav", "--on", "local", "--workers", "0"]) == 1
    assert "--workers 0: give 1 or more" in capsys.readouterr().err


# Progress


def console_of(**options: Any) -> tuple[io.StringIO, dict[str, Any]]:
    """A console in memory, and options that show cells there."""
    file = io.StringIO()
    console = Console(file=file, width=200, **options)
    return file, {"console": console, "progress": ConsoleProgress(console)}


class Known(Durations):
    """Estimates of a minute for cells that are not weights."""

    def of(self, run: str, config: Mapping[str, Any]) -> float | None:
        return None if "base" in run else 60.0


@pytest.mark.parametrize(("durations", "left"), [(None, "about 0 s left"), (Known([]), "about [0-2] s left")])
def test_time_left_follows_the_cells_that_are_done(
    durations: Durations | None, left: str, seen: Path, tmp_path: Path
) -> None:
    file, options = console_of()
    with pytest.raises(ReachcostError, match="raises failed"):
        made(tmp_path / "out", number_request(seen, "fine", "raises", "last"), durations=durations, **options)
    first, second, third = re.findall(r"\d+ of .*", file.getvalue())
    assert first.startswith("1 of 4 cells done")
    assert re.fullmatch(f"2 of 4 cells done, {left}", second)
    assert third == "3 of 4 cells done, 1 failed"


def test_a_terminal_shows_running_cells(seen: Path, tmp_path: Path) -> None:
    file, options = console_of(force_terminal=True, force_interactive=True)
    with pytest.raises(ReachcostError):
        made(tmp_path / "out", number_request(seen, "raises"), start=TWO, **options)
    assert "of 2 cells done" in file.getvalue()
    assert "failed: numbers/numbers/raises: there is no such number" in file.getvalue()


def test_running_cells_are_printed_while_none_ends(seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.experiments.cells.schedule.EVERY", 0.01)
    file, options = console_of()
    made(tmp_path / "out", number_request(seen, "fine"), start=TWO, **options)
    assert "0 of 2 cells done; numbers/base/weights for 0 s\n" in file.getvalue()


def test_a_run_that_is_being_written_is_not_damaged(toy_here: Path, tmp_path: Path) -> None:
    out = shutil.copytree(toy_here, tmp_path / "out")
    with new_directory(out / "runs" / "corridor" / "heads" / "sketch-9-trm") as partial:
        (partial / "rows.parquet").write_bytes(b"half of th")
        assert sum(len(part.remaining) for part in plan_of([TOY], out)) == 0


def test_one_process_counts_in_titles(tmp_path: Path) -> None:
    file, options = console_of()
    made(tmp_path, number_request(tmp_path, "fine"), progress=options["progress"])
    assert options["progress"]._title == "2/2 fine"
    assert file.getvalue() == "numbers: 2 to compute\n"


def test_published_runs_can_be_sent(tmp_path: Path) -> None:
    for table, study in (("trace", "tworoom"), ("layouts-unseen", "tworoom"), ("toponav-recipes", "toponav")):
        for cell in cells_of(small_request(table, study), tmp_path).values():
            reference, spec, _ = pickle.loads(cell.message())
            again = Recordings(tmp_path).of(reference).cell(spec)
            assert again.name == cell.name
