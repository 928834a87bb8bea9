"""Files appear complete and replace only files; temporary files of dead writers are removed."""

import multiprocessing
import os
import stat
import threading
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from reachcost.cli import main
from reachcost.core.files import lock_directory, new_directory, new_file, remove_leftovers, write_file
from reachcost.errors import ReachcostError
from reachcost.results.records import exclusive


def _write_half(out: Path, started: Event, end: Event) -> None:
    with new_directory(out / "deep" / "head") as partial, new_file(out / "logs.h5") as file:
        (partial / "half.txt").write_text("half")
        file.write_text("half")
        started.set()
        end.wait(30)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[tuple[BaseProcess, Event]]:
    """A process in the middle of writing, and the event that lets it end."""
    context = multiprocessing.get_context("fork")
    started, end = context.Event(), context.Event()
    process = context.Process(target=_write_half, args=(tmp_path, started, end))
    process.start()
    assert started.wait(30)
    yield process, end
    process.kill()
    process.join()


def test_cleanup_keeps_files_of_living_writers_and_of_other_programs(
    tmp_path: Path, writer: tuple[BaseProcess, Event]
) -> None:
    process, end = writer
    (tmp_path / ".download.partial").write_text("of another program")
    (tmp_path / ".mine.0123abcd.partial").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with exclusive(tmp_path):
        assert sorted({*tmp_path.rglob("*")} - {tmp_path / ".lock"}) == before
    end.set()
    process.join()
    assert (tmp_path / "logs.h5").read_text() == "half"
    assert (tmp_path / "deep" / "head" / "half.txt").exists()


def test_cleanup_removes_files_of_killed_writers(tmp_path: Path, writer: tuple[BaseProcess, Event]) -> None:
    process, _ = writer
    process.kill()
    process.join()
    assert len([*tmp_path.rglob(".*.partial")]) == 2
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["deep"]


def test_writing_again_removes_files_of_killed_writers(tmp_path: Path, writer: tuple[BaseProcess, Event]) -> None:
    process, _ = writer
    with new_file(tmp_path / "logs.h5"):
        assert len([*tmp_path.glob(".logs.h5.*.partial")]) == 2
    process.kill()
    process.join()
    (tmp_path / f".logs.h5.more.{'0' * 32}.partial").touch()
    write_file(tmp_path / "logs.h5", "complete")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".logs.h5.more.{'0' * 32}.partial", "deep", "logs.h5"]


def test_a_locked_directory_has_one_writer(tmp_path: Path) -> None:
    def write(name: str) -> None:
        with lock_directory(tmp_path):
            for file in ("rows", "record"):
                write_file(tmp_path / file, name)
                time.sleep(0.02)

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "rows").read_text() == (tmp_path / "record").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["record", "rows"]


def test_the_second_writer_of_a_new_file_is_refused(tmp_path: Path) -> None:
    def write_late() -> None:
        with new_file(tmp_path / "logs.h5", overwrite=False) as late:
            late.write_text("late")
            with new_file(tmp_path / "logs.h5", overwrite=False) as early:
                early.write_text("early")

    with pytest.raises(ReachcostError, match=r"logs\.h5"):
        write_late()
    assert [path.name for path in tmp_path.iterdir()] == ["logs.h5"]
    assert (tmp_path / "logs.h5").read_text() == "early"


def test_devices_and_pipes_are_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for name in ("pipe", "link"):
        place = tmp_path / name
        with pytest.raises(ReachcostError, match=name):
            write_file(place, "mine")
        assert main(["logs", "generate", "tworoom", "--episodes", "2", "--overwrite", "--out", str(place)]) == 1
        assert name in capsys.readouterr().err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "link").is_symlink()
    write_file(tmp_path / "file", "old")
    write_file(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"
