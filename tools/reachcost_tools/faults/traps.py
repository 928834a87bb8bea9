"""Hostile files, each with the function that reads it."""

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from reachcost.commands.sweep import read_file, study_of_sweep
from reachcost.core.files import write_with_checksum
from reachcost.core.modules import _checksum
from reachcost.data.logs_files import open_logs
from reachcost.experiments.cells import StudyRef
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.sweep import read_sweep
from reachcost.experiments.tables import plan_of
from reachcost.explorer.engine import PlanRequest
from reachcost.heads.storage import load_head
from reachcost.worldmodels.loading import load_world_model
from reachcost_tools.faults.formats import models, records
from reachcost_tools.faults.formats.logs import ACTIONS, LENGTHS, STATES

OnPath = Callable[[Path], Any]
"""Function of a file or directory: a reader, a writer, or a change."""


class Trap(NamedTuple):
    """Writes a hostile file into a directory, and reads it there."""

    write: OnPath
    read: OnPath
    harmless: bool = False
    """Whether reading it is right, too, if no code runs."""


# Readers


def _logs(directory: Path) -> Any:
    found = open_logs(next(path for path in directory.iterdir() if path.name.startswith("logs")))
    return {name: np.asarray(column[:]).shape for name, column in found.columns.items()}


def _head(directory: Path) -> Any:
    return load_head(directory / "head")


def _checkpoint(name: str) -> OnPath:
    return lambda directory: load_world_model(directory / name, actions=models.BLOCKS)


def _page(name: str) -> OnPath:
    """A function that makes a report of a record."""
    return lambda directory: len(records.page(directory / name))


def _sweep(directory: Path) -> Any:
    """Plan the sweep of an untrusted author."""
    text = read_file(directory / "sweep.toml")
    study = StudyRef(study_of_sweep, ("sweep.toml", text))
    request = TableRequest(read_sweep("sweep.toml", text).name, study)
    return [part.kind for part in plan_of([request], directory / "out")]


# Writers and changes of files


class _Pickled:
    """Writes the canary when it is unpickled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.directory}/canary'",)


def _pickle(path: Path) -> bytes:
    return pickle.dumps(_Pickled(path.parent))


def _changed(base: OnPath, name: str, change: OnPath) -> OnPath:
    """A function that writes an example and changes one of its files."""

    def write(directory: Path) -> None:
        base(directory)
        change(directory / name)

    return write


def _text(words: str) -> OnPath:
    return lambda directory: (directory / "sweep.toml").write_text(words)


def _replaced(make: OnPath) -> OnPath:
    """A function that replaces a file."""

    def write(path: Path) -> None:
        path.unlink(missing_ok=True)
        make(path)

    return write


def _zip(name: str, data: bytes | Callable[[Path], bytes]) -> OnPath:
    """A function that writes logs as a zip file of one member."""

    def write(directory: Path) -> None:
        with zipfile.ZipFile(directory / "logs.npz", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(name, data if isinstance(data, bytes) else data(directory / "logs.npz"))

    return write


def _npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def resealed(change: Callable[[dict[str, Any]], Any], weights: bytes | None = None) -> OnPath:
    """A function that changes the configuration or the weights of a module, and updates the checksum."""

    def write(path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        change(config)
        data = (path / "weights.safetensors").read_bytes() if weights is None else weights
        (path / "weights.safetensors").write_bytes(data)
        (path / "config.json").write_text(json.dumps({**config, "sha256": _checksum(config, data)}))

    return write


def _resealed_head(weights: bytes | None = None, **arguments: float) -> Trap:
    change = resealed(lambda config: config["arguments"].update(arguments), weights)
    return Trap(_changed(models.head, "head", change), _head)


def _safetensors(header: bytes, length: int | None = None, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + body


def _hdf5(change: Callable[[h5py.File], Any]) -> OnPath:
    """A function that writes changed logs of states."""

    def write(directory: Path) -> None:
        with h5py.File(directory / "logs.h5", "w") as file:
            file["state"], file["action"] = STATES, ACTIONS
            file["ep_len"], file["ep_offset"] = LENGTHS, STARTS
            change(file)

    return write


def _attributes(file: h5py.File) -> None:
    file["state"].attrs.create("sha256", np.zeros(8000))
    file["state"].attrs["rows"] = "many"


def _loop(file: h5py.File) -> None:
    group = file.create_group("episode_0")
    group["observations"] = group
    group["actions"] = ACTIONS
    del file["ep_len"], file["ep_offset"]


def _lattice(file: h5py.File) -> None:
    group = file.create_group("episode_0/observations")
    file["episode_0/actions"] = ACTIONS
    for _ in range(20):
        below = group.create_group("left")
        group["right"] = below
        group = below
    group["state"] = STATES
    del file["ep_len"], file["ep_offset"]


def _with_rows(base: OnPath, name: str, table: dict[str, Any]) -> OnPath:
    return _changed(base, name, lambda path: pq.write_table(pa.table(table), path))


def _with_manifest(entry: str, **values: str) -> OnPath:
    """A function that changes an entry of the manifest of a run."""

    def write(path: Path) -> None:
        found = json.loads(path.read_text())
        found[entry].update(values)
        path.write_text(json.dumps(found))

    return _changed(records.run, "run/manifest.json", write)


def _stranger(text: str) -> OnPath:
    """A function that writes a module that writes the canary, and a sweep that names it in place of STRANGER."""

    def write(directory: Path) -> None:
        (directory / "stranger.py").write_text(f"open({str(directory / 'canary')!r}, 'w')")
        _text(text.replace("STRANGER", f"{directory}/stranger.py:World"))(directory)

    return write


# Traps

STARTS = np.cumsum(LENGTHS) - LENGTHS
DEEP = b"[" * 100_000
REPLACED: dict[str, OnPath] = {
    "a pipe": _replaced(os.mkfifo),
    "a link to itself": _replaced(lambda path: path.symlink_to(path)),
    "a directory": _replaced(Path.mkdir),
    "an endless device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "a pickle": lambda path: path.write_bytes(_pickle(path)),
    "JSON without end": lambda path: path.write_bytes(DEEP),
    "a number without end": lambda path: path.write_bytes(b'{"format": 1e400}'),
}
READ: dict[str, tuple[OnPath, str, OnPath]] = {
    "config.json of a head": (models.head, "head/config.json", _head),
    "weights of a head": (models.head, "head/weights.safetensors", _head),
    "config.json of a checkpoint": (models.checkpoint, "public/config.json", _checkpoint("public")),
    "weights of a checkpoint": (models.checkpoint, "public/weights.pt", _checkpoint("public")),
    "logs": (_hdf5(lambda _: None), "logs.h5", _logs),
    "an audit": (records.audit, "audit.json", _page("audit.json")),
    "rows of an audit": (records.audit, "audit.parquet", _page("audit.json")),
    "a scene": (records.scene, "scene.json", _page("scene.json")),
    "a manifest": (records.run, "run/manifest.json", _page("run")),
    "rows of a run": (records.run, "run/rows.parquet", _page("run")),
    "the manifest of a pack": (records.packed, "runs/study/pack.json", _page("runs/study/control/run")),
    "rows of a pack": (records.packed, "runs/study/control.parquet", _page("runs/study/control/run")),
    "a table": (records.table, "tables/made.json", _page("tables/made.json")),
    "a sweep": (records.sweep, "sweep.toml", _sweep),
}
"""The writer of an example, the file that is replaced, and the reader."""
SHAPE = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
BOMB = _npy("{'descr': '|u1', 'fortran_order': False, 'shape': (200000000,), }", bytes(200_000_000))
LOGS: dict[str, OnPath] = {  # tests/test_hdf5.py has links, virtual columns and absurd shapes
    "npz: a pickle": _zip("state.npy", _pickle),
    "npz: a petabyte": _zip("state.npy", _npy(SHAPE)),
    "npz: a bomb": _zip("state.npy", BOMB),
    "npz: a name outside the file": _zip("../canary.npy", _npy(SHAPE)),
    "HDF5: a checksum that is a huge array": _hdf5(_attributes),
    "HDF5: groups within themselves": _hdf5(_loop),
    "HDF5: groups with a million paths to their content": _hdf5(_lattice),
}
OVERLAPPING = (
    b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
)
MARKUP = "[/red]<script>alert(1)</script>\x1b[2J"
ODD_AUDIT = {"measurement": [[1]], "episode": ["a"], "value": [{"b": 2}]}
NUL = "a\\u0000b"
NAMED = "task = 'tworoom'\nmodels = ['m']\n"
SMALL = "task = 'tworoom'\nmodels = ['lewm-tworoom-3072']\nlogs = {episodes = 5}\n"
SWEEPS: dict[str, str] = {
    "dots without end": f"{'a.' * 50_000}b = 1",
    "brackets without end": f"task = {'[' * 50_000}",
    "a name without end": "a" * 65_000,
    "a number without end": f"seeds = [{'9' * 5000}]",
    "a number without end, in hexadecimal": f"{NAMED}seeds = [0x{'f' * 60_000}]",
    "a billion planners": f"{records.SWEEP}warmup = {[*range(999)]}\nx = {[*range(999)]}\ny = {[*range(999)]}",
    "not a number": f"{NAMED}seeds = [nan]",
    "a weight without end": f"{SMALL}hybrids = [inf]\n[heads.trm]",
    "an episode without end": f"{SMALL}budgets = [9_000_000_000_000_000_000]",
    "a training without end": f"{SMALL}[heads.trm]\nrecipe = {{epochs = 9_000_000_000_000_000_000}}",
    "a million closed loops": f"{SMALL}seeds = {[*range(1000)]}\nbudgets = {[*range(1, 1000)]}",
    "a name outside its directory": f"{SMALL}name = '..'",
    "a head's name outside its directory": f"{SMALL}[heads.'../../canary']",
    "a hidden name": f"{SMALL}name = '.git'",
    "a name longer than the name of any file": f"{SMALL}name = '{'a' * 300}'",
    "NUL in its name": f'{SMALL}name = "{NUL}"',
    "NUL in the name of a head": f'{SMALL}[heads."{NUL}"]',
    "NUL in the name of a planner": f'{SMALL}[planners."{NUL}"]',
    "NUL in the name of its task": SMALL.replace("'tworoom'", f'"{NUL}"'),
    "NUL in the name of a model": SMALL.replace("'lewm-tworoom-3072'", f'"{NUL}"'),
    "NUL in the name of logs": SMALL.replace("{episodes = 5}", f'"{NUL}"'),
}
TRAPS: dict[str, Trap] = {
    **{
        f"{what} in place of {name}": Trap(_changed(base, file, change), read)
        for name, (base, file, read) in READ.items()
        for what, change in REPLACED.items()
    },
    "checkpoint: a pickle as torch saves it": Trap(
        _changed(models.checkpoint, "public/weights.pt", lambda path: torch.save({"a": _Pickled(path.parent)}, path)),
        _checkpoint("public"),
    ),
    "checkpoint: a pickled model": Trap(
        lambda directory: torch.save(_Pickled(directory), directory / "public_object.ckpt"),
        _checkpoint("public_object.ckpt"),
    ),
    "state of a training: a pickle behind a checksum": Trap(
        lambda directory: write_with_checksum(directory / "training.pt", pickle.dumps(_Pickled(directory))),
        models.read_state,
    ),
    **{name: Trap(write, _logs) for name, write in LOGS.items()},
    "head: a header of 2^63 bytes": _resealed_head(_safetensors(b"{}", 2**63)),
    "head: overlapping weights": _resealed_head(_safetensors(OVERLAPPING, body=bytes(12))),
    "head: no header": _resealed_head(b""),
    "head: a petabyte of weights": _resealed_head(hidden=10**9),
    "head: a scale that overflows": _resealed_head(scale=1e308),
    "run: rows elsewhere": Trap(_with_manifest("files", **{"../../etc/passwd": "0" * 64}), _page("run")),
    "run: rows of odd types": Trap(_with_rows(records.run, "run/rows.parquet", {"success": [{"a": 1}]}), _page("run")),
    "run: a file with NUL in its name": Trap(_with_manifest("files", **{"a\0b": "0" * 64}), _page("run")),
    "run: markup and code in its names": Trap(_with_manifest("config", cost=MARKUP), _page("run"), harmless=True),
    "audit: rows of odd types": Trap(_with_rows(records.audit, "audit.parquet", ODD_AUDIT), _page("audit.json")),
    **{f"sweep: {what}": Trap(_text(words), _sweep) for what, words in SWEEPS.items()},
    "sweep: a stranger's world": Trap(_stranger("task = 'STRANGER'\nmodels = ['lewm-tworoom-3072']"), _sweep),
    "sweep: a stranger's model": Trap(_stranger("task = 'tworoom'\nmodels = ['STRANGER']"), _sweep),
    "explore: a number without end": Trap(
        lambda _: None, lambda _: PlanRequest.parse(b'{"seed": ' + b"9" * 5000 + b"}")
    ),
    "explore: brackets without end": Trap(lambda _: None, lambda _: PlanRequest.parse(DEEP)),
}
