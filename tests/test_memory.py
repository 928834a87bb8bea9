"""Work on long logs needs memory for a part of them, not for all: measured on shorter logs."""

import hashlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reachcost.core import arrays as module
from reachcost.core.arrays import fingerprint_arrays, open_memory_map, read_chunks, row_reader
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.protocols import Observations

ROWS, SIZE = 200_000, 96
ALL_LATENTS = ROWS * SIZE * 4
"""Bytes of all latents: 77 MB."""
ALLOWED = 40 * 2**20
"""Additional memory that work on them may need."""
STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Waves:
    """A model whose latents cost little."""

    latent_dim, action_dim, fingerprint = SIZE, 2, "waves-1"

    def encode(self, observations: Observations) -> Tensor:
        return torch.sin(torch.from_numpy(observations["state"]) * torch.arange(1, SIZE + 1))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        raise NotImplementedError


@pytest.fixture(scope="module")
def long_logs() -> Logs:
    return Logs({"state": np.linspace(0, 1, ROWS, dtype=np.float32)[:, None]}, np.full(ROWS // 50, 50))


def resident(kind: str) -> int:
    """Bytes of this process that are in memory now (`VmRSS`), or were at most (`VmHWM`)."""
    return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith(kind))


def growth(work: Callable[[], Any]) -> int:
    """Maximum growth of the process in bytes while it works, pages of memory maps included."""
    try:
        FORGET.write_text("5")  # the peak so far
    except OSError:
        pytest.skip("the system does not measure peaks of memory")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def test_encoding_sampling_and_fitting_do_not_load_all_latents(
    long_logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", 0)

    def fit_logs(logs: Logs) -> None:
        latents = encode_logs(Waves(), logs, cache=tmp_path)
        fit(TemporalPairs(latents, count=2000, validation=200), Recipe(hidden=16, epochs=1))

    fit_logs(Logs({"state": long_logs.columns["state"][:1000]}, long_logs.lengths[:20]))  # what is needed once
    assert growth(lambda: fit_logs(long_logs)) < ALLOWED
    assert growth(lambda: encode_logs(Waves(), long_logs, cache=tmp_path)) < ALLOWED  # read again


def test_latents_without_a_cache_are_in_memory_once(long_logs: Logs) -> None:
    assert growth(lambda: encode_logs(Waves(), long_logs, cache=False)) < ALL_LATENTS + ALLOWED


def test_wide_rows_are_hashed_in_chunks() -> None:
    frames = np.zeros((600, 224, 224, 3), np.uint8)
    tracemalloc.start()
    try:
        fingerprint_arrays(frames)
        assert tracemalloc.get_traced_memory()[1] < 3 * module.CHUNK_BYTES < frames.nbytes / 5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(0, 3), (7,), (5, 2, 3), (3000, 700)])
def test_chunks_do_not_change_a_fingerprint(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).random(shape)[::-1]
    assert fingerprint_arrays(array) == hashlib.sha256(f"<f8{shape}".encode() + array.tobytes()).hexdigest()


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 9 MB whose array is long enough to be read from it."""
    monkeypatch.setattr(module, "SMALL", 0)
    np.save(tmp_path / "array.npy", np.random.default_rng(0).random((30_000, 80), np.float32))
    return tmp_path / "array.npy"


def test_rows_read_from_the_file_equal_those_of_the_map(stored: Path) -> None:
    values, rows = torch.from_numpy(open_memory_map(stored)), torch.tensor([29_999, 0, 17, 17])
    assert torch.equal(row_reader(values)(rows), torch.from_numpy(np.load(stored))[rows])
    assert torch.equal(row_reader(values[10:, :])(rows[1:]), values[rows[1:] + 10])
    assert torch.equal(row_reader(values[:, 3:])(rows), values[rows, 3:])  # not contiguous
    assert row_reader(values)(rows[:0]).shape == (0, 80)
    assert np.array_equal(np.concatenate([*read_chunks(values.numpy())]), np.load(stored))


def test_values_written_into_a_map_are_read(stored: Path) -> None:
    values, untouched = (torch.from_numpy(open_memory_map(stored)) for _ in range(2))
    rows = torch.tensor([5, 20_000])
    values.numpy()[20_000] = 3
    assert torch.equal(row_reader(values)(rows)[1], torch.full((80,), 3.0))
    assert fingerprint_arrays(values.numpy()) == fingerprint_arrays(values.clone().numpy())
    assert fingerprint_arrays(untouched.numpy()) == fingerprint_arrays(np.load(stored))
    values[20_000, 7] = torch.nan
    with pytest.raises(ReachcostError, match="20000"):
        Latents(values, Logs({"state": np.zeros((30_000, 1))}, np.array([30_000])))


def test_a_truncated_file_is_an_error(stored: Path) -> None:
    read = row_reader(torch.from_numpy(open_memory_map(stored)))
    with stored.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ReachcostError, match="truncated"):
        read(torch.tensor([20_000]))
