"""Formats of logs, and of their cached latents."""

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
from reachcost.data.logs_files import open_logs, write_logs
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


def _read(path: Path) -> str:
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


def _file(name: str) -> Any:
    return lambda directory: _read(directory / name)


def _ours(directory: Path) -> None:
    names = np.array(["walk", "run", "rest"])[NUMBERS]
    columns = {"state": STATES, "action": ACTIONS, "episode_idx": NUMBERS, "policy": names, "pixels": FRAMES}
    write_logs(Logs(columns, LENGTHS), directory / FILE)


def _stable_worldmodel(directory: Path) -> None:
    """No checksums, and the oldest layout of HDF5."""
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
        file["note"] = np.array(["a", "b", "c"], dtype=object)[NUMBERS]  # variable-length text


def _d4rl(directory: Path) -> None:
    with h5py.File(directory / FILE, "w") as file:
        file["observations"], file["actions"], file["rewards"] = STATES, ACTIONS, np.arange(ROWS, dtype=np.float32)
        file["terminals"], file["timeouts"] = np.zeros(ROWS, bool), ENDS
        file["infos/qpos"] = STATES[:, :1]


def _minari(directory: Path) -> None:
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


def _npz(compressed: bool) -> Any:
    def write(directory: Path) -> None:
        save = np.savez_compressed if compressed else np.savez
        save(directory / "logs.npz", observations=STATES, actions=ACTIONS, lengths=LENGTHS, images=FRAMES)

    return write


def _npz_of_episodes(directory: Path) -> None:
    stops = np.cumsum(LENGTHS).tolist()
    parts = {number: slice(stop - LENGTHS[number], stop) for number, stop in enumerate(stops)}
    named: dict[str, Any] = {f"episode_{number}/state": STATES[rows] for number, rows in parts.items()}
    np.savez(directory / "logs.npz", **named)


def _lance(directory: Path) -> None:
    import lance

    lance.write_dataset(
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


def _encode(cache: Path) -> str:
    """Encode logs with a cache; a second call reads it, and encodes damaged parts again."""
    task = TopoNav()
    latents = encode_logs(ExactTopoNav(task), task.generate_logs(episodes=20), batch=16, cache=cache)
    return digest({"latents": latents.values.numpy()})


LOGS = (
    Format("logs (HDF5)", _ours, _file(FILE), sealed=True),
    Format("logs of stable-worldmodel (HDF5)", _stable_worldmodel, _file(FILE)),
    Format("logs of D4RL (HDF5)", _d4rl, _file(FILE)),
    Format("logs of Minari (HDF5)", _minari, _read),
    Format("logs (npz)", _npz(compressed=False), _file("logs.npz")),
    Format("logs (npz, compressed)", _npz(compressed=True), _file("logs.npz")),
    Format("logs (npz, by episode)", _npz_of_episodes, _file("logs.npz")),
    *([Format("logs (Lance)", _lance, _file("logs.lance"))] if importlib.util.find_spec("lance") else []),
    Format("kept latents", _encode, _encode, sealed=True, ignored=(".lock",)),
)
