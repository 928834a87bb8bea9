"""Hostile HDF5 files and bad disks: refused or read correctly; no crash, no lost interrupt."""

import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from reachcost.core import machine
from reachcost.core.hdf5 import require_heaps_that_end
from reachcost.core.machine import defer_interrupts
from reachcost.data.logs import Logs
from reachcost.data.logs_files import open_logs, write_logs
from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom import TwoRoom

TASK = TwoRoom(pixels=16)


@pytest.fixture(scope="module")
def logs() -> Logs:
    return TASK.generate_logs(episodes=3)


def link_elsewhere(file: h5py.File, other: Path) -> None:
    del file["state"]
    file["state"] = h5py.ExternalLink(str(other), "state")


def link_within(file: h5py.File, _: Path) -> None:
    file.move("state", "elsewhere")
    file["state"] = h5py.SoftLink("/elsewhere")


def store_elsewhere(file: h5py.File, other: Path) -> None:
    shape = file.pop("state").shape
    file.create_dataset("state", shape, np.float32, external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def compose_elsewhere(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout(shape := file.pop("state").shape, np.float32)
    layout[:] = h5py.VirtualSource(str(other), "state", shape)
    file.create_virtual_dataset("state", layout)


def claim_much(file: h5py.File, _: Path) -> None:
    file.create_dataset("pixels", (10**13, 8, 8, 3), np.uint8, chunks=(1, 8, 8, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (link_elsewhere, "state is a link"),
        (link_within, "state is a link"),
        (store_elsewhere, "state"),
        (compose_elsewhere, "state"),
        (claim_much, r"pixels is uint8 \(10000000000000, 8, 8, 3\)"),
    ],
)
def test_links_and_absurd_shapes_are_refused(
    logs: Logs, tmp_path: Path, change: Callable[[h5py.File, Path], None], message: str
) -> None:
    write_logs(logs, tmp_path / "other.h5")
    write_logs(logs, tmp_path / "logs.h5")
    with h5py.File(tmp_path / "logs.h5", "r+") as file:
        change(file, tmp_path / "other.h5")
    with pytest.raises(ReachcostError, match=message):
        open_logs(tmp_path / "logs.h5")


@pytest.mark.parametrize("text", [False, True])
def test_a_shape_without_stored_rows_is_refused_before_memory_is_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bool
) -> None:
    rows = 2**20
    with h5py.File(tmp_path / "logs.h5", "w") as file:
        file.create_dataset("state", (rows, 1 if text else 20), np.float32, chunks=(1000, 1))
        if text:
            file.create_dataset("note", (rows,), h5py.string_dtype(), chunks=(1000,))[0] = "long" * 10
        file["ep_len"], file["ep_offset"] = np.array([rows]), np.array([0])
    monkeypatch.setattr(machine, "available_memory", lambda: 2**26)
    with pytest.raises(ReachcostError, match=r"0\.[12] GB"):
        open_logs(tmp_path / "logs.h5")


def test_a_damaged_heap_is_one_sentence(logs: Logs, tmp_path: Path) -> None:
    path = tmp_path / "logs.h5"
    write_logs(logs, path)
    with h5py.File(path, "r+") as file:
        file.create_dataset("note", data=["text"] * logs.rows, dtype=h5py.string_dtype())
    path.write_bytes(path.read_bytes().replace(b"GCOL", b"gone"))
    with pytest.raises(ReachcostError, match=r"logs\.h5: note"):
        open_logs(path)


def test_nested_heaps_are_refused_at_once(tmp_path: Path) -> None:
    heap = b"GCOL\x01\0\0\0" + struct.pack("<Q", 2**40)
    holds_one = struct.pack("<HHIQ", 1, 1, 0, len(heap)) + heap
    (tmp_path / "heaps").write_bytes(heap + 20_000 * holds_one)
    begun = time.monotonic()
    with pytest.raises(ReachcostError, match="heap at byte"):
        require_heaps_that_end(tmp_path / "heaps", sizes=8)
    assert time.monotonic() - begun < 10  # one by one, they would take minutes


@pytest.mark.parametrize("frames", [False, True])
def test_flipped_bits_in_own_logs_are_noticed_or_harmless(logs: Logs, tmp_path: Path, frames: bool) -> None:
    few = logs.keep(np.arange(12))
    named = Logs({**few.columns, "note": np.array(["text", "Wände"] * 6)}, few.lengths)
    path = tmp_path / "logs.h5"
    write_logs(named, path, render=TASK.render if frames else None)
    values, intact = {name: column[:] for name, column in open_logs(path).columns.items()}, path.read_bytes()
    noticed = 0
    for place in range(0, len(intact), len(intact) // 70):
        data = bytearray(intact)
        data[place] ^= 16
        path.write_bytes(data)
        try:
            found = {name: column[:] for name, column in open_logs(path).columns.items()}
        except ReachcostError:
            noticed += 1
            continue
        assert found.keys() == values.keys(), place
        assert all(np.array_equal(found[name], values[name]) for name in values), place
    assert noticed > 15


def test_a_changed_column_is_refused_unless_its_checksum_is_removed(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5")
    with h5py.File(tmp_path / "logs.h5", "r+") as file:
        state: Any = file["state"]
        state[0] = 7
    with pytest.raises(ReachcostError, match="checksum"):
        open_logs(tmp_path / "logs.h5")
    with h5py.File(tmp_path / "logs.h5", "r+") as file:
        del file["state"].attrs["sha256"]
    assert open_logs(tmp_path / "logs.h5").columns["state"][0].tolist() == [7, 7]


@pytest.mark.parametrize("pixels", [0, 64])
def test_equal_logs_give_equal_files(pixels: int, tmp_path: Path) -> None:
    task = TwoRoom(pixels=pixels or 16)
    logs, files = task.generate_logs(episodes=10), set[bytes]()
    for _ in range(5):
        write_logs(logs, tmp_path / "logs.h5", render=task.render if pixels else None, overwrite=True)
        files.add((tmp_path / "logs.h5").read_bytes())
    assert len(files) == 1


def test_a_full_disk_gives_one_sentence_and_leaves_no_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reachcost", *("logs", "generate", "tworoom", "--episodes", "100")]
    ended = subprocess.run(
        [*command, "--pixels", "64", "--out", "logs.h5"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)),
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("reachcost: cannot write logs.h5 (File too large): ")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("reads", [False, True])
def test_interrupts_during_reading_and_writing_are_not_lost(logs: Logs, tmp_path: Path, reads: bool) -> None:
    many = TASK.generate_logs(episodes=150)
    write_logs(many, tmp_path / "logs.h5", render=TASK.render)
    stored = open_logs(tmp_path / "logs.h5").columns["pixels"]

    def work() -> None:
        deadline = time.monotonic() + 60  # longer than any interrupt takes
        while time.monotonic() < deadline:
            if reads:
                stored[np.arange(0, many.rows)]
            else:
                write_logs(many, tmp_path / "copy.h5", render=TASK.render, overwrite=True)

    for number in range(6):
        late = threading.Timer(0.02 + 0.013 * number, os.kill, (os.getpid(), signal.SIGINT))
        late.start()
        with pytest.raises(KeyboardInterrupt):
            work()
    assert not [*tmp_path.glob(".*")]


def test_interrupts_are_deferred_to_the_end_of_a_block() -> None:
    done, before = [], signal.getsignal(signal.SIGINT)

    def work() -> None:
        with defer_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")
        done.append("more")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before
