"""The cache of latents: when it is used, what counts as damage, and where encoding continues."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import Tensor

from reachcost.data import latents as module
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.protocols import Observations
from reachcost.tasks.tworoom import Layout, TwoRoom


class Counting:
    """A model of mean colour and position; counts the rows it encodes and can fail at one."""

    latent_dim, action_dim, fingerprint = 3, 10, "counting-1"

    def __init__(self, fail_at: int | None = None) -> None:
        self.rows, self.fail_at = 0, fail_at

    def encode(self, observations: Observations) -> Tensor:
        pixels = observations["pixels_64"].astype(np.float32)
        self.rows += len(pixels)
        if self.fail_at is not None and self.rows > self.fail_at:
            raise KeyboardInterrupt
        features = [pixels[..., 1].mean((1, 2)), *np.asarray(observations["state"], np.float32).T]
        return torch.from_numpy(np.stack(features, axis=1))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        raise NotImplementedError


@pytest.fixture(scope="module")
def logs() -> Logs:
    return TwoRoom().generate_logs(episodes=12, seed=2)


def test_latents_are_read_from_the_cache(logs: Logs, tmp_path: Path) -> None:
    full = encode_logs(Counting(), logs, cache=False).values
    for rows in (64 + logs.rows, 64, 64):  # the sample of frames is encoded every time
        model = Counting()
        values = encode_logs(model, logs, cache=tmp_path).values
        assert model.rows == rows
        assert torch.equal(values, full)
        values[:] = 0  # a private copy: the file stays as it is


def test_readers_need_no_lock(logs: Logs, tmp_path: Path) -> None:
    first = encode_logs(Counting(), logs, cache=tmp_path)
    (lock,) = tmp_path.rglob(".lock")
    with FileLock(lock):
        assert torch.equal(encode_logs(Counting(), logs, cache=tmp_path).values, first.values)
    encode_logs(*_other_frames(logs), cache=tmp_path)
    assert torch.equal(first.values, encode_logs(Counting(), logs, cache=False).values)


def test_an_interrupted_encoding_continues(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 100)
    with pytest.raises(KeyboardInterrupt):
        encode_logs(Counting(fail_at=350), logs, batch=50, cache=tmp_path)
    rest = Counting()
    values = encode_logs(rest, logs, batch=50, cache=tmp_path).values
    assert rest.rows == 64 + logs.rows - 200
    assert torch.equal(values, encode_logs(Counting(), logs, cache=False).values)


def _other_model(logs: Logs) -> tuple[Counting, Logs]:
    other = Counting()
    other.fingerprint = "counting-2"
    return other, logs


def _other_frames(logs: Logs) -> tuple[Counting, Logs]:
    return Counting(), Logs(logs.columns, logs.lengths, TwoRoom(Layout(doors=((150.0, 14.0),))).observe)


@pytest.mark.parametrize("change", [_other_model, _other_frames])
def test_another_model_or_other_frames_are_encoded(
    logs: Logs, tmp_path: Path, change: Callable[[Logs], tuple[Counting, Logs]]
) -> None:
    encode_logs(Counting(), logs, cache=tmp_path)
    other, others = change(logs)
    values = encode_logs(other, others, cache=tmp_path).values
    assert other.rows >= logs.rows
    assert torch.equal(values, encode_logs(Counting(), others, cache=False).values)


@pytest.fixture
def kept(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which these latents are kept in several pieces, of 100 rows each."""
    monkeypatch.setattr(module, "PIECE_ROWS", 100)
    encode_logs(Counting(), logs, batch=100, cache=tmp_path)
    return tmp_path


def repaired(logs: Logs, cache: Path, warning: str) -> int:
    """Number of rows that are encoded again, with a warning; the cache is complete afterwards."""
    model, full = Counting(), encode_logs(Counting(), logs, cache=False).values
    with pytest.warns(ReachcostWarning, match=warning):
        assert torch.equal(encode_logs(model, logs, batch=100, cache=cache).values, full)
    again = Counting()
    assert torch.equal(encode_logs(again, logs, cache=cache).values, full)
    assert again.rows == 64
    return model.rows - 64


@pytest.mark.parametrize(("damaged", "encoded"), [([0], 100), ([120, 330], 200), ([-1], None)])
def test_only_damaged_pieces_are_encoded_again(logs: Logs, kept: Path, damaged: list[int], encoded: int | None) -> None:
    (array,) = kept.rglob("latents.npy")
    data = bytearray(array.read_bytes())
    for row in damaged:
        data[128 + 12 * (row % logs.rows)] ^= 128
    array.write_bytes(data)
    rows = encoded or logs.rows % 100  # the last piece is shorter
    assert repaired(logs, kept, f"{rows} of {logs.rows} rows are damaged") == rows


def changed(**values: Any) -> Callable[[bytes], bytes]:
    return lambda manifest: json.dumps({**json.loads(manifest), **values}).encode()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("manifest.json", changed(sha256=7)),
        ("manifest.json", changed(sha256={"0": [], "all": 7})),
        ("manifest.json", changed(model="other")),
        ("manifest.json", lambda data: b"[]"),
        ("manifest.json", lambda data: b"[" * 100_000),
        ("latents.npy", lambda data: b""),
        ("latents.npy", lambda data: data[:200]),
        ("latents.npy", lambda data: data.replace(b"'fortran_order': False", b"'fortran_order': True ")),
    ],
)
def test_damaged_files_are_rebuilt(logs: Logs, kept: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    (file,) = kept.rglob(name)
    file.write_bytes(change(file.read_bytes()))
    assert repaired(logs, kept, "cannot be trusted") == logs.rows


def test_a_cache_that_cannot_be_written_is_named(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReachcostError, match="REACHCOST_CACHE"):
        encode_logs(Counting(), logs, cache=tmp_path / "file")
    monkeypatch.delenv("REACHCOST_CACHE")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # nobody knows of a home
    with pytest.raises(ReachcostError, match="REACHCOST_CACHE"):
        encode_logs(Counting(), logs)


@pytest.mark.parametrize("batch", [-1, 0, 1.5, "all", True])
def test_a_batch_is_one_row_or_more(logs: Logs, batch: Any) -> None:
    with pytest.raises(ReachcostError, match=r"batch"):
        encode_logs(Counting(), logs, batch=batch, cache=False)


def test_the_environment_variable_sets_the_cache(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "here"))
    encode_logs(Counting(), logs)
    assert list((tmp_path / "here" / "latents").iterdir())
