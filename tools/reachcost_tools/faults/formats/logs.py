"""Logs: ours, those of others, and latents that are kept of them."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
from PIL import Image

from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.data.logs_hdf5 import open_logs, write_logs
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost_tools.faults.formats import Format, Wrong, digest, require_finite

LENGTHS = np.array([5, 9, 7])
ROWS = int(LENGTHS.sum())
_RNG = np.random.default_rng(0)
STATES = _RNG.normal(size=(ROWS, 3)).astype(np.float32)
ACTIONS = _RNG.normal(size=(ROWS, 2)).astype(np.float32)
FRAMES = np.repeat(np.repeat(_RNG.integers(0, 256, (ROWS, 4, 4, 3), dtype=np.uint8), 4, 1), 4, 2)
ENDS = np.isin(np.arange(ROWS), np.cumsum(LENGTHS) - 1)
NUMBERS = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
FILE = "logs.h5"


def read(path: Path) -> str:
    """Everything that logs hold."""
    logs = open_logs(path)
    content: dict[str, Any] = {"lengths": logs.lengths}
    for name, column in logs.columns.items():
        values = np.asarray(column[:])
        if len(values) != logs.rows or values.shape != tuple(column.shape):
            raise Wrong(f"{name} is {values.shape} for {logs.rows} rows")
        if name in ("state", "proprio"):
            require_finite(name, values)
        if name == "action":
            require_finite(name, np.delete(values, np.cumsum(logs.lengths) - 1, axis=0))
        content[name] = values
    if "pixels" in logs.columns:
        content["one"] = np.asarray(logs.columns["pixels"][np.array([logs.rows - 1, 0])])
    return digest(content)


def in_file(name: str) -> Any:
    """What reads a file of that name in a directory."""
    return lambda directory: read(directory / name)


def ours(directory: Path) -> None:
    """States, text and frames, as `write_logs` writes them."""
    names = np.array(["walk", "run", "rest"])[NUMBERS]
    columns = {"state": STATES, "action": ACTIONS, "episode_idx": NUMBERS, "policy": names, "pixels": FRAMES}
    write_logs(Logs(columns, LENGTHS), directory / FILE)


def public(directory: Path) -> None:
    """As stable-worldmodel releases them: no checksum anywhere, and the oldest layout of HDF5."""
    columns = {
        "pos_agent": STATES,
        "action": ACTIONS,
        "ep_idx": NUMBERS,
        "ep_len": LENGTHS.astype(np.int32),
        "ep_offset": np.cumsum(LENGTHS) - LENGTHS,
    }
    with h5py.File(directory / FILE, "w") as file:
        for name, values in columns.items():
            file[name] = values
        file.create_dataset("pixels", data=FRAMES, chunks=(4, *FRAMES.shape[1:]), compression="gzip")
        file["note"] = np.array(["a", "b", "c"], dtype=object)[NUMBERS]  # in a heap


def d4rl(directory: Path) -> None:
    """Flags at the ends of episodes."""
    with h5py.File(directory / FILE, "w") as file:
        file["observations"], file["actions"], file["rewards"] = STATES, ACTIONS, np.arange(ROWS, dtype=np.float32)
        file["terminals"], file["timeouts"] = np.zeros(ROWS, bool), ENDS
        file["infos/qpos"] = STATES[:, :1]


def minari(directory: Path) -> None:
    """A group for each episode, with frames as JPEG of several lengths, and metadata that count them."""
    counts = {"total_episodes": len(LENGTHS), "total_steps": ROWS - len(LENGTHS), "data_format": "hdf5"}
    (directory / "metadata.json").write_text(json.dumps(counts))
    with h5py.File(directory / "main_data.hdf5", "w") as file:
        for number, stop in enumerate(np.cumsum(LENGTHS).tolist()):
            rows, group = slice(stop - LENGTHS[number], stop), file.create_group(f"episode_{number}")
            group["observations/state"], group["actions"] = STATES[rows], ACTIONS[rows][:-1]
            kind = h5py.vlen_dtype(np.uint8)
            frames = group.create_dataset("observations/image", (LENGTHS[number],), kind)
            for row, frame in enumerate(FRAMES[rows]):
                frames[row] = np.frombuffer(_jpeg(frame), np.uint8)
            group["rewards"] = np.zeros(LENGTHS[number] - 1)


def npz(compressed: bool) -> Any:
    """What writes arrays of all episodes."""

    def write(directory: Path) -> None:
        save = np.savez_compressed if compressed else np.savez
        save(directory / "logs.npz", observations=STATES, actions=ACTIONS, lengths=LENGTHS, images=FRAMES)

    return write


def npz_of_episodes(directory: Path) -> None:
    """A name for each episode."""
    stops = np.cumsum(LENGTHS).tolist()
    parts = {number: slice(stop - LENGTHS[number], stop) for number, stop in enumerate(stops)}
    named: dict[str, Any] = {f"episode_{number}/state": STATES[rows] for number, rows in parts.items()}
    np.savez(directory / "logs.npz", **named)


def lance(directory: Path) -> None:
    """A table of stable-worldmodel."""
    import lance as package

    package.write_dataset(
        pa.table(
            {
                "episode_idx": NUMBERS,
                "step_idx": np.concatenate([np.arange(length) for length in LENGTHS]),
                "state": pa.FixedSizeListArray.from_arrays(pa.array(STATES.ravel()), 3),
                "action": pa.FixedSizeListArray.from_arrays(pa.array(ACTIONS.ravel()), 2),
                "pixels": pa.array([_jpeg(frame) for frame in FRAMES], pa.large_binary()),
            }
        ),
        str(directory / "logs.lance"),
    )


def _jpeg(frame: np.ndarray) -> bytes:
    encoded = io.BytesIO()
    Image.fromarray(frame).save(encoded, "JPEG")
    return encoded.getvalue()


def kept(directory: Path) -> None:
    """Latents of logs, in pieces, as `encode_logs` keeps them."""
    _encode(directory)


def read_kept(directory: Path) -> str:
    """What a second encoding gives: damage is encoded again."""
    return _encode(directory)


def _encode(cache: Path) -> str:
    task = TopoNav()
    latents = encode_logs(ExactTopoNav(task), task.generate_logs(episodes=20), batch=16, cache=cache)
    return digest({"latents": latents.values.numpy()})


LOGS = (
    Format("logs (HDF5)", ours, in_file(FILE), sealed=True),
    Format("logs of stable-worldmodel (HDF5)", public, in_file(FILE)),
    Format("logs of D4RL (HDF5)", d4rl, in_file(FILE)),
    Format("logs of Minari (HDF5)", minari, read),
    Format("logs (npz)", npz(compressed=False), in_file("logs.npz")),
    Format("logs (npz, compressed)", npz(compressed=True), in_file("logs.npz")),
    Format("logs (npz, by episode)", npz_of_episodes, in_file("logs.npz")),
    *([Format("logs (Lance)", lance, in_file("logs.lance"))] if importlib.util.find_spec("lance") else []),
    Format("kept latents", kept, read_kept, sealed=True, ignored=(".lock",)),
)
