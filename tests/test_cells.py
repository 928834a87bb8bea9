"""Studies as plans of cells: found by a walk, computed anywhere, recorded by one process, to the same bytes."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from reachcost.base.atomic import new_directory, private_directory, shared_directory, sweep
from reachcost.base.progress import ConsoleProgress, Progress
from reachcost.cli import main
from reachcost.data.latents import Latents, encode_logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.protocols import Observations
from reachcost.results.records import read_run
from reachcost.results.tables import ResultTable
from reachcost.studies.cells.board import Board, Lines, watch_on
from reachcost.studies.cells.cell import Cell
from reachcost.studies.cells.crew import Crew, Death
from reachcost.studies.cells.encoding import Encoded, Encoding, Wanted, WorkersEncoder, nothing_to_bring
from reachcost.studies.cells.estimate import Estimates
from reachcost.studies.cells.executor import Failure, Job, Start
from reachcost.studies.cells.here import Here
from reachcost.studies.cells.local import Local
from reachcost.studies.cells.logs import shared_logs
from reachcost.studies.cells.order import Desk, Order
from reachcost.studies.cells.parcels import Sender, unpack
from reachcost.studies.cells.plan import plan_of
from reachcost.studies.cells.watch import Titles, Watch
from reachcost.studies.cells.worker import Answer, Clerk, Errand, Surroundings
from reachcost.studies.experiment import Experiment
from reachcost.studies.registry import order_of
from reachcost.studies.tables import make_tables

from . import toy
from .cells import Brief, number_order, quick_toy, sketch, small_study
from .small import contents

TWO: Start = partial(Local, workers=2)
TOY = Order("keys", quick_toy, episodes=2)


def made(out: Path, *orders: Order, start: Start = Here, **options: Any) -> list[ResultTable]:
    return [*make_tables(orders, out, start, **options)]


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    (tmp_path / "seen").mkdir()
    return tmp_path / "seen"


def recorded(out: Path) -> set[str]:
    return {str(path.parent.relative_to(out / "runs")) for path in (out / "runs").rglob("manifest.json")}


# What a walk finds


def test_a_walk_finds_every_cell_and_computes_nothing(tmp_path: Path) -> None:
    walk = Desk(tmp_path, Progress()).walk(TOY)
    assert walk.rows is None
    assert not [*tmp_path.iterdir()]
    made(tmp_path, TOY)
    assert {cell.name for cell in walk.missing.values()} == recorded(tmp_path)
    assert Desk(tmp_path, Progress()).walk(TOY).rows is not None


def test_a_cell_needs_what_its_configuration_names(tmp_path: Path) -> None:
    order = number_order(tmp_path, "fine", "other")
    cells = {cell.path.name: cell for cell in Desk(tmp_path, Progress()).walk(order).missing.values()}
    assert cells["fine"].needs == {cells["weights"].path}
    assert not cells["weights"].needs
    made(tmp_path, order)
    sha256 = read_run(cells["weights"].path).sha256["weights"]
    assert read_run(cells["fine"].path).manifest["config"]["weights_sha256"] == sha256


@pytest.mark.parametrize("table", ["statistics", "subspace"])
def test_walks_see_to_the_end_of_tables_that_are_no_lines(table: str, tmp_path: Path) -> None:
    published = Path(__file__).parent.parent / "results" / "tables" / f"{table}.json"
    walk = Desk(tmp_path, Progress()).walk(Order(table, small_study, ("tworoom",)))
    assert {"/".join(path.parts[-3:]) for path in walk.missing} == {*json.loads(published.read_text())["rows_sha256"]}


def test_a_second_configuration_under_one_name_is_refused_before_anything_runs(tmp_path: Path) -> None:
    walk = Desk(tmp_path, Progress()).walk(number_order(tmp_path, "fine"))
    (cell,) = (cell for cell in walk.missing.values() if cell.path.name == "weights")
    with pytest.raises(ReachcostError, match="another configuration"):
        walk.note(type(cell)(cell.name, cell.path, {"changed": True}, cell.compute))


# The same bytes, whoever computes


@pytest.fixture(scope="module")
def toy_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("here")
    made(out, TOY)
    return out


def test_workers_record_the_same_bytes(toy_here: Path, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    made(tmp_path, TOY, start=TWO, watch=watch_on(console, 2))
    assert contents(tmp_path) == contents(toy_here)
    told = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert told.startswith("keys: 17 to compute\n")
    assert re.search(r"^corridor/heads/sketch-1-trm [\d.]+ s; \d+ of 17 cells done", told, re.MULTILINE)
    assert "17 of 17 cells done" in told
    made(tmp_path, TOY, start=TWO, watch=watch_on(console, 2))
    assert console.file.getvalue()[len(told) :] == "keys: 17 cells recorded earlier, 0 to compute\n"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
def test_workers_record_the_same_bytes_of_learned_models(tmp_path: Path) -> None:
    order = Order("features", small_study, ("tworoom",), episodes=2)
    for name, start in (("here", Here), ("local", TWO)):
        made(tmp_path / name, order, start=start)
    assert contents(tmp_path / "local") == contents(tmp_path / "here")


def test_weights_that_were_not_kept_are_made_once_more_by_one_cell(toy_here: Path, tmp_path: Path) -> None:
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


# What workers share


def test_latents_are_encoded_in_shards_to_the_bits_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Brief()
    model, logs = sketch(task, True), task.generate_logs(episodes=40)
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path))
    monkeypatch.setattr("reachcost.studies.cells.encoding.CHECKED", 4 * model.latent_dim * 16)
    several = [WorkersEncoder(nothing_to_bring) for _ in range(2)]

    def cell() -> Latents:
        return encode_logs(model, logs, batch=8)

    wanted = several[0].within(cell, None)
    assert isinstance(wanted, Wanted)
    encoding = Encoding(wanted)
    assert (encoding.shards[0].stop, encoding.shards[-1].stop) == (16, logs.rows)
    for number, shard in reversed([*enumerate(encoding.shards)]):
        worker = several[number % 2]
        made = worker.known(shard) or worker.within(cell, shard)
        assert isinstance(made, Encoded)
        assert len(made.latents) <= 16
        encoding.write(made)
    assert encoding.complete
    encoding.close()
    kept = several[0].within(cell, None)
    assert isinstance(kept, Latents)
    assert kept.values.equal(encode_logs(model, logs, batch=8, cache=False).values)


class Colleagues(Crew[Clerk]):
    """Two workers in this process."""

    @property
    def places(self) -> int:
        return 2

    def __init__(self, out: Path, scratch: Path) -> None:
        super().__init__()
        self._here, self._asked = Surroundings(out, scratch, 1, "cpu"), dict[Clerk, Errand]()

    def _start(self) -> Clerk:
        return Clerk(self._here)

    def _send(self, worker: Clerk, job: Job, errand: Errand) -> None:
        self._asked[worker] = errand

    def _receive(self) -> tuple[Clerk, Answer | Death]:
        worker, errand = self._asked.popitem()
        return worker, worker.answer(errand)


def test_cells_whose_latents_cannot_be_encoded_fail_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = toy.Sketch.encode

    def blind(self: toy.Sketch, observations: Observations) -> Tensor:
        return usual(self, observations) if len(observations["state"]) != 600 else torch.zeros(1, 1)

    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(toy.Sketch, "encode", blind)
    with pytest.raises(ReachcostError, match=r"heads/sketch-1-trm failed \(`encode` of the world model Sketch"):
        made(tmp_path / "out", TOY, start=Colleagues)
    assert "corridor/control/sketch-1-beyond-raw" in recorded(tmp_path / "out")


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Encoding:
    """Latents of three shards that are wanted."""
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("reachcost.studies.cells.encoding.CHECKED", 1)
    encoding = Encoding(Wanted({"shape": [30, 3]}, 10))
    assert [shard.first for shard in encoding.shards] == [0, 10, 20]
    return encoding


def test_a_shard_that_comes_twice_counts_once(shards: Encoding) -> None:
    first, second, third = (Encoded(shard, np.full((10, 3), shard.first + 1.0)) for shard in shards.shards)
    for made_shard in (second, first, second):
        shards.write(made_shard)
    assert not shards.complete
    assert str(shards) == "latents: 2 of 3 shards encoded"
    shards.write(third)
    assert shards.complete
    shards.close()
    assert not shards.kept.missing()
    assert shards.kept.read()[25].tolist() == [21, 21, 21]


def test_a_shard_that_failed_once_leaves_no_gap_where_cells_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = contents_of_heads(tmp_path / "here")
    monkeypatch.setattr("reachcost.studies.cells.encoding.CHECKED", 1)
    usual, calls = toy.Sketch.encode, list[int]()

    def faltering(self: toy.Sketch, observations: Observations) -> Tensor:
        if len(observations["state"]) > 1:
            calls.append(len(observations["state"]))
        return torch.zeros(1, 1) if len(calls) == 3 else usual(self, observations)

    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(toy.Sketch, "encode", faltering)
    with pytest.raises(ReachcostError, match="failed"):
        made(tmp_path / "out", TOY, start=Colleagues)
    made(tmp_path / "out", TOY, start=Colleagues)
    assert contents(tmp_path / "out") == here


def contents_of_heads(out: Path) -> dict[str, bytes]:
    made(out, TOY)
    return contents(out)


def test_latents_that_cannot_be_kept_fail_the_cells_that_need_them_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ReachcostError, match=r"heads/sketch-1-trm failed \(cannot keep latents in .* make room there"):
        made(tmp_path / "out", TOY, start=Colleagues)
    assert "corridor/control/sketch-1-beyond-raw" in recorded(tmp_path / "out")


def test_latents_that_can_be_written_no_more_do_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, rows: slice, latents: np.ndarray) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("reachcost.data.kept.LatentWriter.write", full)
    with pytest.raises(ReachcostError, match=r"heads/sketch-1-trm failed \(cannot keep latents in .* \(No space left"):
        made(tmp_path / "out", TOY, start=Colleagues)
    assert "corridor/control/sketch-1-beyond-raw" in recorded(tmp_path / "out")


def test_a_cell_that_would_be_another_one_in_a_worker_is_refused(tmp_path: Path) -> None:
    here, order = Surroundings(tmp_path / "out", tmp_path, 1, "cpu"), number_order(tmp_path, "fine")
    answer = Clerk(here).answer(Errand(order, "numbers/base/weights", '{"logs_sha256": "12"}'))
    assert isinstance(answer.outcome, Failure)
    assert "another run in a worker (logs_sha256 is None there and '12' in the driver)" in answer.outcome.reason


def test_what_a_worker_elsewhere_is_sent_is_what_it_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.studies.cells.parcels.PACKED", 10)
    laid_down: list[bytes] = []
    sender = Sender(lambda content: laid_down.append(content) or len(laid_down) - 1)
    for name in ("one", "other"):
        (tmp_path / name).write_bytes(b"the same in three pieces")
    parcel = sender.pack(tmp_path / "one")
    assert parcel == sender.pack(tmp_path / "other")
    assert [*map(len, laid_down)] == [10, 10, 4]
    unpack(parcel, tmp_path / "there" / "one", laid_down.__getitem__)
    assert (tmp_path / "there" / "one").read_bytes() == b"the same in three pieces"
    laid_down[1] = b"somewhat "
    with pytest.raises(ReachcostError, match="a file was changed while it was sent"):
        unpack(parcel, tmp_path / "there" / "other", laid_down.__getitem__)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["one"]


def test_a_directory_of_several_processes_goes_with_the_last(tmp_path: Path) -> None:
    (first, leave), (second, leave_too) = (shared_directory(tmp_path / "node", "0" * 32) for _ in range(2))
    assert first == second
    leave()
    sweep(tmp_path)
    assert first.exists()
    leave_too()
    assert not first.exists()
    (tmp_path / f".node.{'0' * 32}.partial").write_text("in the way")
    with pytest.raises(ReachcostError, match="a file is in the way"):
        shared_directory(tmp_path / "node", "0" * 32)


def test_what_workers_run_is_open_to_nobody_else(tmp_path: Path) -> None:
    place = private_directory(tmp_path / "workers")
    assert place.stat().st_mode & 0o777 == 0o700
    assert private_directory(place) == place
    place.chmod(0o777)
    with pytest.raises(ReachcostError, match="may be another user's: remove it, or set TMPDIR"):
        private_directory(place)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ReachcostError, match="may be another user's"):
        private_directory(tmp_path / "link")


def test_ray_is_asked_for_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["reproduce", "toponav", "--out", str(tmp_path), "--on", "ray"]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r"reachcost: --on ray needs Ray \(.*\): pip install 'reachcost\[ray\]'\n", error)
    assert main(["reproduce", "toponav", "--address", "auto"]) == 1
    assert "--address is that of a Ray cluster: give --on ray beside it" in capsys.readouterr().err


def test_logs_are_drawn_once_for_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, settings = Brief(), {"episodes": 5, "seed": 1}
    own = task.generate_logs(**settings)
    first = shared_logs(tmp_path, task, settings)
    monkeypatch.setattr(Brief, "generate_logs", None)
    again = shared_logs(tmp_path, Brief(), settings)
    assert own.fingerprint == first.fingerprint == again.fingerprint
    assert isinstance(again.columns["state"], np.memmap)
    assert again.observations(slice(0, 2)).keys() == own.observations(slice(0, 2)).keys()
    with pytest.raises(TypeError):
        shared_logs(tmp_path, task, {**settings, "seed": 2})


def test_a_worker_records_nothing_that_its_cell_did_not_name(tmp_path: Path) -> None:
    here = Surroundings(tmp_path / "out", tmp_path, 1, "cpu")
    compute = Clerk(here).find(number_order(tmp_path, "fine"), "numbers/numbers/fine").compute
    with pytest.raises(ReachcostError, match="numbers/base/weights is needed and is not there: let the configuration"):
        compute(tmp_path)
    assert not here.out.exists()
    with pytest.raises(ReachcostError, match="numbers does not ask for numbers/numbers/other in another process"):
        Clerk(here).find(number_order(tmp_path, "fine"), "numbers/numbers/other")


# Failures


def test_a_failing_cell_stops_nothing_but_its_table(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    broken, whole = number_order(seen, "fine", "raises", "errs", "last"), number_order(seen, "fine", "last")
    tables = make_tables([broken, whole], out)
    assert [row.cost for row in next(tables).rows] == ["fine", "last"]
    with pytest.raises(ReachcostError) as failed:
        next(tables)
    assert re.fullmatch(
        r"numbers/numbers/raises failed \(there is no such number: take another\); numbers/numbers/errs failed "
        r"\(ZeroDivisionError: by nothing in \S+cells.py:\d+\): all else is recorded; mend it, and the same command "
        "goes on",
        str(failed.value),
    )
    assert recorded(out) == {"numbers/base/weights", "numbers/numbers/fine", "numbers/numbers/last"}
    made(out, number_order(seen, "fine", "last"))


def test_who_needs_what_failed_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cells.base", lambda _: 1 / 0)
    with pytest.raises(ReachcostError, match=r"weights failed \(ZeroDivisionError: .*\); 2 more need that: all else"):
        made(tmp_path, number_order(tmp_path, "fine", "last"))
    assert not recorded(tmp_path)


def test_a_full_disk_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reachcost.results.records.write_rows", full)
    with pytest.raises(OSError, match="No space left"):
        made(tmp_path, number_order(tmp_path, "fine"))
    assert not recorded(tmp_path)
    assert not [*tmp_path.rglob(".*.partial")]


def test_workers_that_die_are_replaced_and_their_cell_tried_once_more(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = number_order(seen, "fine", "dies", "raises", "dies-once", "warns", "last")
    with (
        pytest.raises(ReachcostError) as failed,
        pytest.warns(ReachcostWarning, match="numbers are old"),
    ):
        made(out, order, start=TWO)
    told = str(failed.value)
    assert re.search(r"dies failed \(its worker process died 2 times \(exit code -9\): memory may have run out", told)
    assert "raises failed (there is no such number: take another)" in told
    assert recorded(out) == {
        "numbers/base/weights",
        *(f"numbers/numbers/{name}" for name in ("fine", "dies-once", "warns", "last")),
    }
    config = read_run(out / "runs" / "numbers" / "numbers" / "last").manifest["config"]
    assert config["evaluation_set_sha256"] == "last"  # which only the worker knew
    assert not [*out.rglob(".*.partial")]


def test_a_study_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match=r"cannot be sent to another process .* at the top of a module"):
        made(tmp_path, Order("keys", lambda: quick_toy()), start=TWO)


# Interrupts

DRIVER = """
import sys
from functools import partial
from pathlib import Path
from reachcost.studies.cells.local import Local
from reachcost.studies.cells.logs import shared_logs
from reachcost.studies.tables import make_tables
from tests.cells import number_order
seen, out = map(Path, sys.argv[1:])
print([*make_tables([number_order(seen, "fine", "sleeps")], out, partial(Local, workers=2))])
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
    made(out, number_order(seen, "fine"))  # nobody holds the directory, and what was left is swept up
    assert not [*out.rglob(".*.partial")]


def test_ctrl_c_ends_workers_and_the_same_call_goes_on(seen: Path, tmp_path: Path) -> None:
    out, workers = tmp_path / "out", []

    def interrupt() -> None:
        workers.append(sleeper(seen))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        made(out, number_order(seen, "fine", "sleeps"), start=TWO)
    assert not alive(workers[0])
    assert recorded(out) == {"numbers/base/weights", "numbers/numbers/fine"}
    assert not [*out.rglob(".*.partial")]
    made(out, number_order(seen, "fine"), start=TWO)


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


def test_a_plan_tells_what_remains_and_writes_nothing(toy_here: Path, tmp_path: Path) -> None:
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
    orders = [number_order(tmp_path, "fine"), number_order(tmp_path, "fine", "last")]
    remaining = [[cell.path.name for cell in part.remaining] for part in plan_of(orders, tmp_path)]
    assert remaining == [["weights"], ["fine"], ["last"]]


def test_only_comparable_runs_tell_what_a_cell_takes(toy_here: Path) -> None:
    def cell(**changes: Any) -> Any:
        experiment = Experiment(quick_toy(), toy_here, episodes=2)
        walk = Desk(toy_here / "nowhere", Progress()).walk(Order("keys", quick_toy, episodes=2))
        found = next(one for one in walk.missing.values() if one.name == "corridor/control/sketch-2-beyond-raw")
        assert experiment.study.name == "corridor"
        return type(found)(found.name, found.path, {**found.config, **changes}, found.compute)

    estimates = Estimates([toy_here])
    took = read_run(toy_here / "runs" / "corridor" / "control" / "sketch-2-beyond-raw").manifest["elapsed_seconds"]
    other = read_run(toy_here / "runs" / "corridor" / "control" / "sketch-1-beyond-raw").manifest["elapsed_seconds"]
    assert estimates.of(cell()) == pytest.approx((took + other) / 2)
    assert estimates.of(cell(cost="new", planner_seed=9)) is not None
    assert estimates.of(cell(budget=7)) is None


def test_the_command_shows_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "toponav-recipes", "--plan", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"toponav-recipes +heads +0 +24 ", shown)
    assert "48 cells remain" in shown
    assert not out.exists()


def test_workers_are_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "toponav", "--workers", "2"]) == 1
    assert "--workers are processes: give --on local" in capsys.readouterr().err
    assert main(["reproduce", "toponav", "--on", "local", "--workers", "0"]) == 1
    assert "--workers 0: give 1 or more" in capsys.readouterr().err


# What is shown


def test_time_left_follows_what_cells_took(tmp_path: Path) -> None:
    cells = [*Desk(tmp_path, Progress()).walk(number_order(tmp_path, "fine", "other", "last")).missing.values()]
    weights, fine, other, last = cells
    watch = Watch(places=2)
    watch.planned(cells)
    assert watch.summary() == "0 of 4 cells done"  # nothing is known
    for cell, seconds in ((weights, 10.0), (fine, 120.0)):
        watch.began(cell)
        watch.ended(cell, seconds)
    assert watch.summary() == "2 of 4 cells done, about 2 min left"
    watch.failed(other, "no")
    assert watch.summary() == "2 of 4 cells done, 1 failed, about 1 min left"
    watch.failed(last, "no")
    assert watch.summary() == "2 of 4 cells done, 2 failed"


def test_a_terminal_shows_a_board_and_files_get_lines(tmp_path: Path) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=100)
    board = watch_on(terminal, 2)
    assert isinstance(board, Board)
    assert isinstance(watch_on(Console(file=io.StringIO()), 2), Lines)
    cells = [*Desk(tmp_path, Progress()).walk(number_order(tmp_path, "fine", "last")).missing.values()]
    board.planned(cells)
    board.began(cells[0])
    terminal.file.truncate(0)
    board._live.refresh()
    board.failed(cells[1], "[red]no")
    board.close()
    shown = terminal.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "0 of 3 cells done" in shown
    assert "numbers/base/weights" in shown
    assert "failed: numbers/numbers/fine: [red]no" in shown


def test_lines_go_on_while_no_cell_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.studies.cells.board.EVERY", 0.01)
    file = io.StringIO()
    lines = watch_on(Console(file=file, width=200), 2)
    cells = [*Desk(tmp_path, Progress()).walk(number_order(tmp_path, "fine")).missing.values()]
    lines.beside = lambda: "latents: 2 of 3 shards encoded"
    lines.planned(cells)
    lines.began(cells[0])
    told = "0 of 2 cells done, latents: 2 of 3 shards encoded; numbers/base/weights for 0 s\n"
    wait_for(lambda: told in file.getvalue())
    lines.close()


def test_what_is_shown_may_change_meanwhile(tmp_path: Path) -> None:
    """Another thread shows the board: cells appear there when all is known of them."""
    cells = [*Desk(tmp_path, Progress()).walk(number_order(tmp_path, "fine", "last")).missing.values()]
    told = []

    class Slow(Estimates):
        def of(self, cell: Cell) -> float | None:
            told.append(watch.summary())
            return 60.0

    watch = Watch(Slow([]))
    watch.planned(cells)
    assert [*told, watch.summary()] == ["0 of 0 cells done"] * 3 + ["0 of 3 cells done, about 3 min left"]


def test_a_run_that_is_being_written_is_no_damaged_one(toy_here: Path, tmp_path: Path) -> None:
    out = shutil.copytree(toy_here, tmp_path / "out")
    with new_directory(out / "runs" / "corridor" / "heads" / "sketch-9-trm") as partial:
        (partial / "rows.parquet").write_bytes(b"half of th")
        assert sum(len(part.remaining) for part in plan_of([TOY], out)) == 0


def test_one_process_counts_in_titles(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    progress = ConsoleProgress(console)
    made(tmp_path, number_order(tmp_path, "fine"), watch=Titles(progress), progress=progress)
    assert progress._title == "2/2 fine"
    assert console.file.getvalue() == "numbers: 2 to compute\n"  # pyright: ignore[reportAttributeAccessIssue]


def test_orders_of_published_tables_can_be_sent(tmp_path: Path) -> None:
    for name in ("high-distance", "verdicts"):
        order = pickle.loads(pickle.dumps(order_of(name)))
        assert order == order_of(name)
        assert name in order.study(*order.given).tables
