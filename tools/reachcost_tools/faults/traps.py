"""Hostile files, each with who would read it."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from reachcost.commands.sweep import read_file, study_of_sweep
from reachcost.core.atomic import write_with_checksum
from reachcost.core.machine import available_memory
from reachcost.core.modules import _checksum
from reachcost.data.logs_hdf5 import open_logs
from reachcost.experiments.cells.cell import StudyRef
from reachcost.experiments.cells.schedule import TableRequest, plan_of
from reachcost.experiments.sweep import read_sweep
from reachcost.explorer.requests import Asked
from reachcost.heads.storage import load_head
from reachcost.worldmodels.loading import load_world_model
from reachcost_tools.faults.formats import models, records
from reachcost_tools.faults.formats.logs import ACTIONS, ENDS, LENGTHS, ROWS, STATES

Write = Callable[[Path], Any]


@dataclass(frozen=True)
class Trap:
    """A hostile file."""

    write: Write
    read: Write
    harmless: bool = False
    """Whether reading it is right as well, as long as no code runs."""


class Pickled:
    """Writes the canary when it is unpickled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        """What unpickling would call."""
        return os.system, (f"touch '{self.directory}/canary'",)


def logs(directory: Path) -> Any:
    """Open the logs in a directory, and read them."""
    found = open_logs(next(path for path in directory.iterdir() if path.name.startswith("logs")))
    return {name: np.asarray(column[:]).shape for name, column in found.columns.items()}


def head(directory: Path) -> Any:
    """Load the head."""
    return load_head(directory / "head")


def checkpoint(directory: Path) -> Any:
    """Load the checkpoint."""
    return load_world_model(directory / "public", actions=models.BLOCKS)


def page(name: str) -> Write:
    """What makes a report of a record."""
    return lambda directory: len(records.page(directory / name))


def sweep(directory: Path) -> Any:
    """Plan the sweep of an author whom nobody trusts."""
    text = read_file(directory / "sweep.toml")
    study = StudyRef(study_of_sweep, ("sweep.toml", text))
    request = TableRequest(read_sweep("sweep.toml", text).name, study)
    return [part.kind for part in plan_of([request], directory / "out")]


def after(base: Write, name: str, change: Callable[[Path], Any]) -> Write:
    """What writes something whole and then changes one file of it."""

    def write(directory: Path) -> None:
        base(directory)
        change(directory / name)

    return write


def content(data: bytes | Callable[[Path], bytes]) -> Callable[[Path], Any]:
    """What puts bytes into a file."""
    return lambda path: path.write_bytes(data if isinstance(data, bytes) else data(path))


def pickled(path: Path) -> bytes:
    """A pickle that would write the canary."""
    return pickle.dumps(Pickled(path.parent))


def zipped(name: str, data: Callable[[Path], bytes], declared: int | None = None) -> Callable[[Path], Any]:
    """What writes a zip file of one member."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(name, data(path))

    return write


def arrays(*members: tuple[str, np.ndarray]) -> Write:
    """What writes logs of arrays as npz, also several of one name."""

    def write(directory: Path) -> None:
        with warnings.catch_warnings(), zipfile.ZipFile(directory / "logs.npz", "w") as file:
            warnings.simplefilter("ignore")  # a name that comes twice
            for name, values in members:
                with file.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, values)

    return write


def npy(header: str, body: bytes = b"") -> bytes:
    """An array with any header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def objects(path: Path) -> bytes:
    """An array of Python objects."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([Pickled(path.parent)], object), allow_pickle=True)
    return stream.getvalue()


def saved(thing: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """What writes anything as torch does."""
    return lambda path: torch.save(thing(path), path)


def resealed(change: Callable[[dict[str, Any]], Any], weights: bytes | None = None) -> Callable[[Path], Any]:
    """What changes the configuration of a head or the bytes of its weights, and makes the checksum fit."""

    def write(path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        change(config)
        data = (path / "weights.safetensors").read_bytes() if weights is None else weights
        (path / "weights.safetensors").write_bytes(data)
        (path / "config.json").write_text(json.dumps({**config, "sha256": _checksum(config, data)}))

    return write


def safetensors(header: bytes, length: int | None = None, body: bytes = b"") -> bytes:
    """Weights with any header."""
    return struct.pack("<Q", len(header) if length is None else length) + header + body


def hdf5(change: Callable[[h5py.File, Path], Any]) -> Write:
    """What writes logs of states, changed."""

    def write(directory: Path) -> None:
        with h5py.File(directory / "logs.h5", "w") as file:
            file["state"], file["action"] = STATES, ACTIONS
            file["ep_len"], file["ep_offset"] = LENGTHS, np.cumsum(LENGTHS) - LENGTHS
            change(file, directory)

    return write


def elsewhere(file: h5py.File, directory: Path) -> None:
    """A column that is a link to another file."""
    del file["state"]
    file["state"] = h5py.ExternalLink("/etc/hostname", "/state")


def outside(file: h5py.File, directory: Path) -> None:
    """A column whose rows are bytes of another file."""
    del file["state"]
    file.create_dataset("state", (STATES.shape), "f4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


def virtual(file: h5py.File, directory: Path) -> None:
    """A column put together from another file."""
    del file["state"]
    layout = h5py.VirtualLayout(STATES.shape, "f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "state", STATES.shape)
    file.create_virtual_dataset("state", layout)


def absurd(file: h5py.File, directory: Path) -> None:
    """A column of a petabyte."""
    file.create_dataset("pixels", (10**9, 1000, 1000, 3), "u1", chunks=(1, 1000, 1000, 3))


def remarked(file: h5py.File, directory: Path) -> None:
    """A checksum that is a huge array."""
    file["state"].attrs.create("sha256", np.zeros(8000))
    file["state"].attrs["rows"] = "many"


def loop(file: h5py.File, directory: Path) -> None:
    """Groups within themselves."""
    group = file.create_group("episode_0")
    group["observations"] = group
    group["actions"] = ACTIONS
    del file["ep_len"], file["ep_offset"]


def lattice(file: h5py.File, directory: Path) -> None:
    """Groups with a million ways to what is in them."""
    group = file.create_group("episode_0/observations")
    file["episode_0/actions"] = ACTIONS
    for _ in range(20):
        below = group.create_group("left")
        group["right"] = below
        group = below
    group["state"] = STATES
    del file["ep_len"], file["ep_offset"]


def unfilled(file: h5py.File, directory: Path) -> None:
    """A column without rows behind it, larger than memory."""
    rows = available_memory() // 80 + 2**24
    for name in [*file]:
        del file[name]
    file["unused"] = np.zeros(available_memory() // 5000, np.uint8)  # so that the file is large enough to be believed
    file.create_dataset("state", (rows, 20), "f4", chunks=(1000, 20))
    file["ep_len"], file["ep_offset"] = np.array([rows]), np.array([0])


def columns(**found: np.ndarray) -> Write:
    """What writes columns at the root of a file of HDF5."""

    def write(directory: Path) -> None:
        with h5py.File(directory / "logs.h5", "w") as file:
            for name, values in found.items():
                file[name] = values

    return write


def minari(*names: str, changed: dict[str, np.ndarray] | None = None, metadata: Any = None) -> Write:
    """What writes a dataset of Minari: groups of any names, all with the same parts."""
    parts = {"observations/state": STATES, "actions": ACTIONS[:-1], **(changed or {})}

    def write(directory: Path) -> None:
        (directory / "logs").mkdir()
        with h5py.File(directory / "logs" / "main_data.hdf5", "w") as file:
            for name in names:
                for part, values in parts.items():
                    file[f"{name}/{part}"] = values
        if metadata is not None:
            (directory / "logs" / "metadata.json").write_text(json.dumps(metadata))

    return write


def fifo(path: Path) -> None:
    """A pipe that nobody writes to, in place of a file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def itself(path: Path) -> None:
    """A link to itself, in place of a file."""
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def folder(path: Path) -> None:
    """A directory in place of a file."""
    path.unlink(missing_ok=True)
    path.mkdir()


def device(path: Path) -> None:
    """A device without end, in place of a file."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def parquet(table: dict[str, Any]) -> Callable[[Path], Any]:
    """What writes any columns."""
    return lambda path: pq.write_table(pa.table(table), path)


def manifest(change: Callable[[dict[str, Any]], Any]) -> Write:
    """What changes the manifest of a run."""

    def write(path: Path) -> None:
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))

    return after(records.run, "run/manifest.json", write)


def text(name: str, words: str) -> Write:
    """What writes a file of text."""
    return lambda directory: (directory / name).write_text(words)


def stranger(task: str, model: str) -> Write:
    """What writes a module that writes the canary, and a sweep that names it."""

    def write(directory: Path) -> None:
        (directory / "stranger.py").write_text(f"open({str(directory / 'canary')!r}, 'w')")
        named = f"{directory}/stranger.py:World"
        text("sweep.toml", f"task = '{task or named}'\nmodels = ['{model or named}']")(directory)

    return write


NUL = "a\\u0000b"
SMALL = "task = 'tworoom'\nmodels = ['lewm-tworoom-3072']\nlogs = {episodes = 5}\n"
DEEP = b"[" * 100_000
NUMBER = b'{"format": 1e400}'
HEADER = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
CONFIG, WEIGHTS = "head/config.json", "head/weights.safetensors"
SHAPE = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
BOMB = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (200000000,), }", bytes(200_000_000))
REPLACED = {"a pipe": fifo, "a link to itself": itself, "a directory": folder, "an endless device": device}
READ: dict[str, tuple[Write, str, Write]] = {
    "config.json of a head": (models.head, CONFIG, head),
    "weights of a head": (models.head, WEIGHTS, head),
    "config.json of a checkpoint": (models.checkpoint, "public/config.json", checkpoint),
    "weights of a checkpoint": (models.checkpoint, "public/weights.pt", checkpoint),
    "logs": (hdf5(lambda *_: None), "logs.h5", logs),
    "an audit": (records.audit, "audit.json", page("audit.json")),
    "rows of an audit": (records.audit, "audit.parquet", page("audit.json")),
    "a scene": (records.scene, "scene.json", page("scene.json")),
    "a manifest": (records.run, "run/manifest.json", page("run")),
    "rows of a run": (records.run, "run/rows.parquet", page("run")),
    "the manifest of a pack": (records.packed, "runs/study/pack.json", page("runs/study/control/run")),
    "rows of a pack": (records.packed, "runs/study/control.parquet", page("runs/study/control/run")),
    "a table": (records.table, "tables/made.json", page("tables/made.json")),
    "a sweep": (records.sweep, "sweep.toml", sweep),
}
STARTS = np.cumsum(LENGTHS) - LENGTHS
ODD_LOGS: dict[str, Write] = {
    "npz: two arrays of one name": arrays(("state", STATES), ("state", -STATES), ("lengths", LENGTHS)),
    "npz: lengths twice": arrays(("state", STATES), ("lengths", LENGTHS[::-1]), ("lengths", LENGTHS)),
    "npz: lengths under two names": arrays(("state", STATES), ("lengths", LENGTHS[::-1]), ("ep_len", LENGTHS)),
    "npz: states under two names": arrays(("state", STATES), ("obs", -STATES), ("lengths", LENGTHS)),
    "npz: one episode under two names": arrays(("episode_1/state", STATES), ("episode_01/state", -STATES)),
    "npz: an episode of 5000 digits": arrays(("episode_1/state", STATES), (f"episode_{'9' * 5000}/state", STATES)),
    "npz: states without numbers": arrays(("state", STATES[:, :0]), ("lengths", LENGTHS)),
    "npz: actions without numbers": arrays(("state", STATES), ("action", ACTIONS[:, :0]), ("lengths", LENGTHS)),
    "npz: an axis of episodes without numbers": arrays(("state", STATES[None, :, :0])),
    "npz: an episode without numbers": arrays(("episode_0/state", STATES[:, :0])),
    "HDF5: states without numbers": columns(state=STATES[:, :0], ep_len=LENGTHS, ep_offset=STARTS),
    "HDF5: actions without numbers": columns(state=STATES, action=ACTIONS[:, :0], ep_len=LENGTHS, ep_offset=STARTS),
    "D4RL: states without numbers": columns(observations=STATES[:, :0], actions=ACTIONS, timeouts=ENDS),
    "D4RL: actions without numbers": columns(observations=STATES, actions=ACTIONS[:, :0], timeouts=ENDS),
    "Minari: states without numbers": minari("episode_0", changed={"observations/state": STATES[:, :0]}),
    "Minari: actions without numbers": minari("episode_0", changed={"actions": ACTIONS[:-1, :0]}),
    "Minari: states under two names": minari("episode_0", changed={"observations/observation": -STATES}),
    "Minari: a group that is no episode": minari("episode_0", "episode_1_copy"),
    "Minari: an episode twice": minari("episode_0", "episode_1", "episode_01"),
    "Minari: an episode missing": minari("episode_0", "episode_2"),
    "Minari: an episode of 5000 digits": minari("episode_0", f"episode_{'9' * 5000}"),
    "Minari: a line break in a name": minari("episode_0", "episode\n1"),
    "Minari: more episodes in its metadata": minari("episode_0", metadata={"total_episodes": 2}),
    "Minari: more steps in its metadata": minari("episode_0", metadata={"total_steps": ROWS}),
    "Minari: text for a number in its metadata": minari("episode_0", metadata={"total_episodes": "1" * 5000}),
}
"""Logs that could be read in part, or have nothing in their rows."""
TRAPS: dict[str, Trap] = {
    **{
        f"{what} in place of {name}": Trap(after(base, file, change), read)
        for name, (base, file, read) in READ.items()
        for what, change in REPLACED.items()
    },
    **{
        f"{what} in place of {name}": Trap(after(base, file, content(data)), read)
        for name, (base, file, read) in READ.items()
        for what, data in {"a pickle": pickled, "JSON without bottom": DEEP, "a number without end": NUMBER}.items()
    },
    "checkpoint: a pickle as torch saves it": Trap(
        after(models.checkpoint, "public/weights.pt", saved(lambda path: {"a": Pickled(path.parent)})), checkpoint
    ),
    "checkpoint: a pickled model": Trap(
        lambda directory: saved(lambda path: Pickled(path.parent))(directory / "public_object.ckpt"),
        lambda directory: load_world_model(directory / "public_object.ckpt", actions=models.BLOCKS),
    ),
    "state of a training: a pickle behind a checksum": Trap(
        lambda directory: write_with_checksum(directory / "training.pt", pickle.dumps(Pickled(directory))),
        models.read_state,
    ),
    "npz: Python objects": Trap(lambda place: zipped("state.npy", objects)(place / "logs.npz"), logs),
    "npz: a pickle": Trap(lambda place: zipped("state.npy", pickled)(place / "logs.npz"), logs),
    "npz: a petabyte": Trap(lambda place: zipped("state.npy", lambda _: npy(SHAPE))(place / "logs.npz"), logs),
    "npz: a bomb": Trap(lambda place: zipped("state.npy", lambda _: BOMB)(place / "logs.npz"), logs),
    "npz: a name that leads away": Trap(
        lambda place: zipped("../canary.npy", lambda _: npy(SHAPE))(place / "logs.npz"), logs
    ),
    **{name: Trap(write, logs) for name, write in ODD_LOGS.items()},
    **{
        f"HDF5: {change.__doc__}": Trap(hdf5(change), logs)
        for change in (elsewhere, outside, virtual, absurd, remarked, loop, lattice, unfilled)
    },
    "head: a header of 2^63 bytes": Trap(
        after(models.head, "head", resealed(lambda _: None, safetensors(b"{}", 2**63))), head
    ),
    "head: overlapping weights": Trap(
        after(models.head, "head", resealed(lambda _: None, safetensors(HEADER, body=bytes(12)))), head
    ),
    "head: no header": Trap(after(models.head, "head", resealed(lambda _: None, b"")), head),
    "head: a petabyte of weights": Trap(
        after(models.head, "head", resealed(lambda config: config["arguments"].update(hidden=10**9))), head
    ),
    "head: a scale that overflows": Trap(
        after(models.head, "head", resealed(lambda config: config["arguments"].update(scale=1e308))), head
    ),
    "run: rows elsewhere": Trap(
        manifest(lambda found: found["files"].update({"../../etc/passwd": "0" * 64})), page("run")
    ),
    "run: rows of odd types": Trap(
        after(records.run, "run/rows.parquet", parquet({"success": [{"a": 1}]})), page("run")
    ),
    "run: a file with NUL in its name": Trap(
        manifest(lambda found: found["files"].update({"a\0b": "0" * 64})), page("run")
    ),
    "run: markup and code in its names": Trap(
        manifest(lambda found: found["config"].update(cost="[/red]<script>alert(1)</script>\x1b[2J")), page("run"), True
    ),
    "audit: rows of odd types": Trap(
        after(records.audit, "audit.parquet", parquet({"measurement": [[1]], "episode": ["a"], "value": [{"b": 2}]})),
        page("audit.json"),
    ),
    "sweep: dots without end": Trap(text("sweep.toml", f"{'a.' * 50_000}b = 1"), sweep),
    "sweep: brackets without end": Trap(text("sweep.toml", f"task = {'[' * 50_000}"), sweep),
    "sweep: a name without end": Trap(text("sweep.toml", "a" * 65_000), sweep),
    "sweep: a number without end": Trap(text("sweep.toml", f"seeds = [{'9' * 5000}]"), sweep),
    "sweep: a number without end, in hexadecimal": Trap(
        text("sweep.toml", f"task = 'tworoom'\nmodels = ['m']\nseeds = [0x{'f' * 60_000}]"), sweep
    ),
    "sweep: a billion planners": Trap(
        text("sweep.toml", f"{records.SWEEP}warmup = {[*range(999)]}\nx = {[*range(999)]}\ny = {[*range(999)]}"), sweep
    ),
    "sweep: a number that is none": Trap(text("sweep.toml", "task = 'tworoom'\nmodels = ['m']\nseeds = [nan]"), sweep),
    **{
        f"sweep: {what}": Trap(text("sweep.toml", SMALL + words), sweep)
        for what, words in {
            "a weight without end": "hybrids = [inf]\n[heads.trm]",
            "an episode without end": "budgets = [9_000_000_000_000_000_000]",
            "a training without end": "[heads.trm]\nrecipe = {epochs = 9_000_000_000_000_000_000}",
            "a million closed loops": f"seeds = {[*range(1000)]}\nbudgets = {[*range(1, 1000)]}",
            "a name that leads away": "name = '..'",
            "a head's name that leads away": "[heads.'../../canary']",
            "a hidden name": "name = '.git'",
            "a name longer than any file's": f"name = '{'a' * 300}'",
            "NUL in its name": f'name = "{NUL}"',
            "NUL in the name of a head": f'[heads."{NUL}"]',
            "NUL in the name of a planner": f'[planners."{NUL}"]',
        }.items()
    },
    **{
        f"sweep: NUL in the name of {what}": Trap(text("sweep.toml", SMALL.replace(whole, f'"{NUL}"')), sweep)
        for what, whole in {"its task": "'tworoom'", "a model": "'lewm-tworoom-3072'", "logs": "{episodes = 5}"}.items()
    },
    "sweep: a stranger's world": Trap(stranger("", "lewm-tworoom-3072"), sweep),
    "sweep: a stranger's model": Trap(stranger("tworoom", ""), sweep),
    "explore: a number without end": Trap(lambda _: None, lambda _: Asked.of(b'{"seed": ' + b"9" * 5000 + b"}")),
    "explore: brackets without end": Trap(lambda _: None, lambda _: Asked.of(DEEP)),
}
