"""An error for exhausted memory is one sentence, whichever library raises it."""

import multiprocessing
import resource
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import numpy as np
import pytest
import torch

from reachcost import cli
from reachcost.errors import ReachcostError
from reachcost.results.records import read_parquet, write_rows
from reachcost_command import ran_out


def huge(source: str, repo: str) -> None:
    """Request too much memory.

    Args:
        source: Library that requests it.
        repo: Unused.
    """
    if source == "torch":
        torch.empty(2**60, dtype=torch.uint8)
    elif source == "library":
        raise ImportError("libhdf5.so: failed to map segment from shared object")
    else:
        bytearray(2**62)


@pytest.mark.parametrize("source", ["torch", "python", "library"])
def test_exhausted_memory_is_reported_in_one_sentence(
    source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "push", huge)
    assert cli.main(["push", "--source", source, "--repo", "x"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("reachcost: memory ran out; ")


def test_other_errors_keep_their_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(source: str, repo: str) -> None:
        """Fail.

        Args:
            source: Any.
            repo: Any.
        """
        raise KeyError("a mistake of ours")

    monkeypatch.setitem(cli.COMMANDS, "push", wrong)
    with pytest.raises(KeyError):
        cli.main(["push", "--source", "x", "--repo", "x"])
    assert not ran_out(ImportError("No module named 'stable_worldmodel'"))


def threads_more(path: Path, found: SimpleQueue[int]) -> None:
    """Report the number of additional threads after rows were read."""
    threads = len([*Path("/proc/self/task").iterdir()])
    read_parquet(path, ["episode"])
    found.put(len([*Path("/proc/self/task").iterdir()]) - threads)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no list of threads here")
def test_reading_rows_starts_no_threads(tmp_path: Path) -> None:
    write_rows({"episode": np.arange(3), "value": np.zeros(3)}, tmp_path / "rows.parquet")
    assert read_parquet(tmp_path / "rows.parquet").column_names == ["episode", "value"]
    context = multiprocessing.get_context("fork")  # in which no thread is left
    found = context.SimpleQueue()
    reader = context.Process(target=threads_more, args=(tmp_path / "rows.parquet", found))
    reader.start()
    assert found.get() == 0
    reader.join()


def write_with_little(path: Path, found: SimpleQueue[str]) -> None:
    """Write rows where Arrow would crash."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + 2**20
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    try:
        write_rows({"episode": np.arange(3)}, path)
    except ReachcostError:
        found.put("refused")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no size of processes here")
def test_writing_rows_without_memory_raises_an_error_and_no_crash(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    found = context.SimpleQueue()
    writer = context.Process(target=write_with_little, args=(tmp_path / "rows.parquet", found))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert found.get() == "refused"
