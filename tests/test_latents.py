"""Encoding logs once: the cache on disk, what it refuses to confuse, and where it continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import Tensor

from reachcost.data import latents as module
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
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


def test_a_second_encoding_is_read_from_disk_as_a_memory_map(logs: Logs, tmp_path: Path) -> None:
    whole = encode_logs(Counting(), logs, cache=False).values
    for rows in (64 + logs.rows, 64, 64):  # the sample that tells frames apart is encoded every time
        model = Counting()
        values = encode_logs(model, logs, cache=tmp_path).values
        assert model.rows == rows
        assert torch.equal(values, whole)
        values[:] = 0  # a private copy: the file stays as it is


def test_readers_do_not_disturb_each_other_and_need_not_write(logs: Logs, tmp_path: Path) -> None:
    first = encode_logs(Counting(), logs, cache=tmp_path)
    (lock,) = tmp_path.rglob(".lock")
    with FileLock(lock):
        assert torch.equal(encode_logs(Counting(), logs, cache=tmp_path).values, first.values)
    encode_logs(*_other_frames(logs), cache=tmp_path)
    assert torch.equal(first.values, encode_logs(Counting(), logs, cache=False).values)


def test_an_interrupted_encoding_continues(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVE_EVERY", 2)
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
def test_another_model_or_other_frames_are_encoded_anew(
    logs: Logs, tmp_path: Path, change: Callable[[Logs], tuple[Counting, Logs]]
) -> None:
    encode_logs(Counting(), logs, cache=tmp_path)
    other, others = change(logs)
    values = encode_logs(other, others, cache=tmp_path).values
    assert other.rows >= logs.rows
    assert torch.equal(values, encode_logs(Counting(), others, cache=False).values)


def test_damage_is_noticed(logs: Logs, tmp_path: Path) -> None:
    whole = encode_logs(Counting(), logs, cache=tmp_path).values.clone()
    (manifest,) = tmp_path.rglob("manifest.json")
    manifest.write_text("{")
    assert torch.equal(encode_logs(Counting(), logs, cache=tmp_path).values, whole)
    assert json.loads(manifest.read_text())["rows"] == logs.rows
    for rows in (-3, logs.rows + 5, "all", None):
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "rows": rows}))
        assert torch.equal(encode_logs(Counting(), logs, cache=tmp_path).values, whole)
    (array,) = tmp_path.rglob("latents.npy")
    array.write_bytes(array.read_bytes()[:200])
    with pytest.raises(ReachcostError, match="damaged"):
        encode_logs(Counting(), logs, cache=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReachcostError, match="REACHCOST_CACHE"):
        encode_logs(Counting(), logs, cache=tmp_path / "file")


def test_the_default_place_is_an_environment_variable(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "here"))
    encode_logs(Counting(), logs)
    assert list((tmp_path / "here" / "latents").iterdir())
