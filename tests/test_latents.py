"""Encoding logs once: the cache on disk, what it refuses to confuse, and where it continues."""

from __future__ import annotations

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
def test_another_model_or_other_frames_are_encoded_anew(
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


def mended(logs: Logs, cache: Path, said: str) -> int:
    """How many rows are encoded again, once a warning has said so; what is kept is then whole."""
    model, whole = Counting(), encode_logs(Counting(), logs, cache=False).values
    with pytest.warns(ReachcostWarning, match=said):
        assert torch.equal(encode_logs(model, logs, batch=100, cache=cache).values, whole)
    again = Counting()
    assert torch.equal(encode_logs(again, logs, cache=cache).values, whole)
    assert again.rows == 64
    return model.rows - 64


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_flipped_bit_is_found_and_its_piece_is_encoded_again(logs: Logs, kept: Path, share: float) -> None:
    (array,) = kept.rglob("latents.npy")
    data = bytearray(array.read_bytes())
    data[128 + int(share * (len(data) - 128))] ^= 1
    array.write_bytes(data)
    rows = mended(logs, kept, rf"cannot be trusted, as \d+ of {logs.rows} rows are damaged or without checksum")
    assert rows == (100 if share < 0.9 else logs.rows % 100)


def test_damage_in_two_places_is_mended_in_both(logs: Logs, kept: Path) -> None:
    (array,) = kept.rglob("latents.npy")
    data = bytearray(array.read_bytes())
    for row in (120, 330):
        data[128 + 12 * row] ^= 128
    array.write_bytes(data)
    assert mended(logs, kept, "as 200 of") == 200


def without_checksums(manifest: dict[str, Any]) -> dict[str, Any]:
    """As an older version wrote it."""
    del manifest["pieces"]
    return {**manifest, "rows": manifest["shape"][0]}


MANIFESTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "without checksums": without_checksums,
    "no list": lambda manifest: {**manifest, "pieces": 7},
    "odd piece": lambda manifest: {**manifest, "pieces": [[0, "all", []]]},
    "odd checksum": lambda manifest: {**manifest, "pieces": [[0, 100, []]]},
    "behind the end": lambda manifest: {**manifest, "pieces": [[0, 10**9, "0" * 64]]},
    "overlapping": lambda manifest: {**manifest, "pieces": [*manifest["pieces"], [50, 100, "0" * 64]]},
    "of another origin": lambda manifest: {**manifest, "model": "other"},
    "no object": lambda manifest: [],
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_vouches_for_nothing_is_made_again(logs: Logs, kept: Path, name: str) -> None:
    (manifest,) = kept.rglob("manifest.json")
    manifest.write_text(json.dumps(MANIFESTS[name](json.loads(manifest.read_text()))))
    assert mended(logs, kept, "cannot be trusted") == logs.rows


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, "\x00"])
def test_a_manifest_that_is_no_json_is_made_again(logs: Logs, kept: Path, text: str) -> None:
    (manifest,) = kept.rglob("manifest.json")
    manifest.write_text(text)
    assert mended(logs, kept, "their manifest is damaged") == logs.rows


@pytest.mark.parametrize("change", [lambda data: data[:200], lambda data: b"x" + data[1:], lambda data: b""])
def test_an_array_that_is_none_is_made_again(logs: Logs, kept: Path, change: Callable[[bytes], bytes]) -> None:
    (array,) = kept.rglob("latents.npy")
    array.write_bytes(change(array.read_bytes()))
    assert mended(logs, kept, "rows are damaged") == logs.rows


def test_another_order_in_the_head_of_the_array_is_damage(logs: Logs, kept: Path) -> None:
    (array,) = kept.rglob("latents.npy")
    array.write_bytes(array.read_bytes().replace(b"'fortran_order': False", b"'fortran_order': True "))
    assert mended(logs, kept, "rows are damaged") == logs.rows


def test_a_cache_that_cannot_be_written_is_named(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReachcostError, match="REACHCOST_CACHE"):
        encode_logs(Counting(), logs, cache=tmp_path / "file")
    monkeypatch.delenv("REACHCOST_CACHE")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # nobody knows of a home
    with pytest.raises(ReachcostError, match="no home directory to keep latents in: name another in REACHCOST_CACHE"):
        encode_logs(Counting(), logs)


@pytest.mark.parametrize("batch", [-1, 0, 1.5, "all", True])
def test_a_batch_is_one_row_or_more(logs: Logs, batch: Any) -> None:
    with pytest.raises(ReachcostError, match=r"batch"):
        encode_logs(Counting(), logs, batch=batch, cache=False)


def test_the_default_place_is_an_environment_variable(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACHCOST_CACHE", str(tmp_path / "here"))
    encode_logs(Counting(), logs)
    assert list((tmp_path / "here" / "latents").iterdir())
