"""Latents of logs: encoded once, and cached on disk for models that have a fingerprint.

<cache>/latents/<key>/latents.npy      float32 [R, D], read as a memory map
<cache>/latents/<key>/manifest.json    origin of the latents, and the pieces on disk: [first row, stop row, sha256]

The key covers the fingerprints of model and logs, and a sample of rows that is encoded each time, so the same states
with other frames get other latents.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from reachcost.core.arrays import CHUNK_BYTES, open_memory_map, read_chunks, row_reader
from reachcost.core.atomic import write_file
from reachcost.core.files import cache_directory
from reachcost.core.json_files import read_json
from reachcost.core.parallel import parallel_map
from reachcost.core.progress import Progress, as_progress
from reachcost.data.logs import Logs, require_logs
from reachcost.data.models import encode_rows, fingerprint_of, name_of, require_model
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.protocols import WorldModel

FORMAT = "reachcost-latents/1"
DRAWN = (
    "let a task draw what logs of states lack (--task, or open_logs(path, task.observe)), log it (--pixels 64), give "
    "logs of the world it was trained in"
)
SAMPLE = 64
"""Rows that are encoded anew to tell frames apart."""
SAVE_EVERY = 32
"""Batches between two points from which an interrupted encoding continues."""


@dataclass(frozen=True)
class Latents:
    """The latents of every log row, with the logs they came from.

    Attributes:
        values: float32 [R, D].
        logs: The logs, R rows.
        model: Name and sha256 of the world model, if it tells them.
    """

    values: Tensor
    logs: Logs
    model: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.values) != self.logs.rows:
            raise ReachcostError(
                f"there are {len(self.values)} latents for {self.logs.rows} log rows: encode exactly these rows"
            )
        require_finite(self.values, "log row")

    def __repr__(self) -> str:
        made_by = f", of {self.model['name']}" if self.model else ""
        return f"Latents({len(self.values)} rows of {self.values[:1].numel()} numbers{made_by}, {self.logs})"

    def keep(self, rows: np.ndarray) -> Latents:
        """Some rows, ascending, with their part of the logs."""
        return Latents(row_reader(self.values)(torch.from_numpy(rows)), self.logs.keep(rows), self.model)


def require_latents_of(model: WorldModel, latents: Latents) -> None:
    """Refuse latents of another world model."""
    known, given = latents.model.get("sha256"), model_identity(model).get("sha256")
    if latents.values.shape[1] != model.latent_dim or (known and given and known != given):
        made_by = latents.model.get("name", "another model")
        raise ReachcostError(
            f"the latents are of {made_by}, not of {name_of(model)}: encode the logs with this model, "
            "encode_logs(model, logs)"
        )


def encode_logs(
    model: WorldModel,
    logs: Logs,
    batch: int = 1024,
    cache: str | Path | Literal[False] | None = None,
    progress: Progress | bool | None = None,
) -> Latents:
    """Encode every row of the logs, `batch` rows at a time.

    Args:
        model: The world model. If it has a `fingerprint`, or weights to make one of, its latents are kept on disk, and
            an interrupted encoding continues where it stopped.
        logs: The logs.
        batch: Rows encoded together.
        cache: Directory to keep latents in, instead of the default. They are read from there as they are needed, so
            that memory does not grow with the logs. False keeps nothing on disk, and all latents in memory:
            4 R D bytes.
        progress: True shows how far it is.

    >>> from reachcost import make_task
    >>> from reachcost.tasks.toponav.features import ExactTopoNav
    >>> encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=10)).values.shape[1]
    10
    """
    require_model(model, "latent_dim", "encode")
    require_logs(logs)
    require_type(batch, int, "batch", "give how many rows to encode together")
    if batch < 1:
        raise ReachcostError(f"a batch of {batch} rows encodes nothing: give 1 or more")
    progress = as_progress(progress)
    progress.step("latents")
    shape = (logs.rows, model.latent_dim)
    fingerprint = fingerprint_of(model)
    if fingerprint is None and cache is not False:
        warnings.warn(
            f"{name_of(model)} has no `fingerprint` and no weights to make one of, so latents are not kept and heads "
            "cannot be matched with it: give it one, say fingerprint = 'my-model-1', another whenever it encodes anew",
            ReachcostWarning,
            stacklevel=1,  # this line, so that it is said once
        )
    if cache is False or fingerprint is None or not logs.rows:
        values = np.empty(shape, np.float32)
        for rows in progress.track(batches(slice(0, logs.rows), batch), "batches"):
            values[rows] = _encode(model, logs, rows)
        return Latents(torch.from_numpy(values), logs, model_identity(model))
    sample = _encode(model, logs, np.linspace(0, logs.rows - 1, SAMPLE).astype(np.int64))
    origin = {
        "format": FORMAT,
        "model": fingerprint,
        "logs": logs.fingerprint,
        "sample": hashlib.sha256(sample.tobytes()).hexdigest(),
        "shape": list(shape),
    }
    kept = CachedLatents(cache_directory(cache) / "latents", origin)
    if kept.missing():
        _write(kept, partial(_encode, model, logs), batch, progress)
    return Latents(torch.from_numpy(kept.read()), logs, model_identity(model))


def _write(kept: CachedLatents, encode: Callable[[slice], np.ndarray], batch: int, progress: Progress) -> None:
    with kept.writing() as writer:
        todo = [rows for gap in writer.missing for rows in batches(gap, batch)]
        for number, rows in enumerate(progress.track(todo, "batches"), start=1):
            writer.write(rows, encode(rows))
            if number % SAVE_EVERY == 0 or number == len(todo):
                writer.keep()


def model_identity(model: WorldModel) -> dict[str, str]:
    """Name and sha256 of a world model that has a fingerprint; nothing of others."""
    fingerprint = fingerprint_of(model)
    return {} if fingerprint is None else {"name": name_of(model), "sha256": fingerprint}


def batches(rows: slice, size: int) -> list[slice]:
    """Rows in consecutive slices of that size, the last one perhaps smaller.

    >>> batches(slice(2, 7), 3)
    [slice(2, 5, None), slice(5, 7, None)]
    """
    return [slice(row, min(row + size, rows.stop)) for row in range(rows.start, rows.stop, size)]


@torch.no_grad()
def _encode(model: WorldModel, logs: Logs, rows: slice | np.ndarray) -> np.ndarray:
    count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    return encode_rows(model, logs.observations(rows), count, DRAWN).cpu().numpy()


def require_finite(latents: Tensor, row_name: str, numbers: np.ndarray | None = None) -> None:
    """Refuse latents [N, D] with NaN or infinity, and say which row (by its number, if rows have any) is the first."""
    values = latents.detach().cpu().numpy()
    if all(np.isfinite(piece).all() for piece in read_chunks(values)):
        return
    finite = np.concatenate([np.isfinite(piece.reshape(len(piece), -1)).all(1) for piece in read_chunks(values)])
    row = int(np.flatnonzero(~finite)[0])
    row = row if numbers is None else int(numbers[row])
    raise ReachcostError(
        f"the latent of {row_name} {row} is not finite ({int((~finite).sum())} of {len(latents)} are not): "
        "check that observation and the encoder's weights with reachcost.check_world_model"
    )


CHECKED = 4 * CHUNK_BYTES
"""Bytes after which another piece begins."""


class _Piece(NamedTuple):
    first: int
    stop: int
    sha256: str


class CachedLatents:
    """Latents [R, D] on disk, of a certain origin.

    Args:
        cache: Where those of every origin are.
        origin: What they are made of, and their `shape`; JSON values.
    """

    def __init__(self, cache: Path, origin: dict[str, Any]) -> None:
        self.origin = origin
        self._rows, self._row_bytes = origin["shape"][0], 4 * origin["shape"][1]
        self._directory = cache / hashlib.sha256(json.dumps(origin).encode()).hexdigest()[:32]
        self._array, self._manifest = self._directory / "latents.npy", self._directory / "manifest.json"
        self._sound: list[_Piece] = []

    @property
    def key(self) -> str:
        """What tells these latents from others."""
        return self._directory.name

    def missing(self) -> list[slice]:
        """Rows that are not there, or not as they were written; a warning tells of the latter.

        All others are read, a few at a time, and found sound.
        """
        noted = self._look()
        damaged = sum(piece.stop - piece.first for piece in noted or [] if piece not in self._sound)
        if noted is None or damaged:
            what = "their manifest is" if noted is None else f"{damaged} of {self._rows} rows are"
            warnings.warn(
                f"kept latents in {self._directory} cannot be trusted, as {what} damaged or without checksum: they are "
                "encoded again",
                ReachcostWarning,
                stacklevel=1,
            )
        return self._gaps()

    def read(self) -> np.memmap:
        """The latents, as far as they are there; what is written into them stays in memory."""
        values = open_memory_map(self._array)
        if values.shape != tuple(self.origin["shape"]) or values.dtype != np.float32 or not values.flags.c_contiguous:
            raise ValueError(f"{self._array} is {values.dtype} {values.shape}")
        return values

    @contextmanager
    def writing(self) -> Iterator[LatentWriter]:
        """What writes missing rows, once no other process does so."""
        with self.or_refuse():
            self._directory.mkdir(parents=True, exist_ok=True)
            with FileLock(self._directory / ".lock"):
                self._look()
                if not self._sound:
                    self._create()
                with self._array.open("r+b") as file:
                    yield LatentWriter(file, self.read().offset, self._row_bytes, self._gaps(), self._keep)

    @contextmanager
    def or_refuse(self) -> Iterator[None]:
        """Say in a sentence that something cannot be written."""
        try:
            yield
        except OSError as error:
            raise ReachcostError(
                f"cannot keep latents in {self._directory} ({error.strerror or error}): make room there, name another "
                "directory in REACHCOST_CACHE, or pass cache=False"
            ) from error

    def _noted(self) -> list[_Piece] | None:
        """The pieces that the manifest tells of, in order; None if there is one that tells nothing of use."""
        try:
            manifest = read_json(self._manifest)
            noted = [_Piece(*piece) for piece in sorted(manifest.pop("pieces"))]
            edges = [0, *(edge for piece in noted for edge in piece[:2]), self._rows]
            known = manifest == self.origin and edges == sorted(edges) and all(type(edge) is int for edge in edges)
        except OSError:
            return []
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return noted if known else None

    def _look(self) -> list[_Piece] | None:
        """Read all pieces that the manifest tells of, remember those that are sound, and return what it tells."""
        noted = self._noted()
        try:
            begin = self.read().offset
            sound = parallel_map(lambda piece: self._is_sound(piece, begin), noted or [])
            self._sound = [piece for piece, good in zip(noted or [], sound, strict=True) if good]
        except (OSError, ValueError):  # it is not there, cut short, or another array
            self._sound = []
        return noted

    def _is_sound(self, piece: _Piece, begin: int) -> bool:
        """Whether a piece on disk has the checksum of what was written."""
        digest, left = hashlib.sha256(), (piece.stop - piece.first) * self._row_bytes
        with self._array.open("rb") as file:
            file.seek(begin + piece.first * self._row_bytes)
            while left and (some := file.read(min(left, CHUNK_BYTES))):
                digest.update(some)
                left -= len(some)
        return not left and digest.hexdigest() == piece.sha256

    def _gaps(self) -> list[slice]:
        """Rows between sound pieces."""
        ends = [0, *(piece.stop for piece in self._sound)]
        starts = [*(piece.first for piece in self._sound), self._rows]
        return [slice(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    def _keep(self, piece: _Piece) -> None:
        """Say that a piece is on disk, in place of a shorter one of the same beginning."""
        self._sound = sorted([piece, *(other for other in self._sound if other.first != piece.first)])
        manifest = {**self.origin, "pieces": self._sound}
        write_file(self._manifest, json.dumps(manifest) + "\n")

    def _create(self) -> None:
        """A new file with all its room reserved, so that a full disk is an error now and not a crash later."""
        self._manifest.unlink(missing_ok=True)
        self._array.unlink(missing_ok=True)
        np.lib.format.open_memmap(self._array, mode="w+", dtype=np.float32, shape=tuple(self.origin["shape"]))
        with self._array.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, self._array.stat().st_size)


class LatentWriter:
    """Writes rows behind each other; not through a memory map, of which all that was written would stay in memory."""

    def __init__(
        self, file: BinaryIO, begin: int, row_bytes: int, missing: list[slice], keep: Callable[[_Piece], None]
    ) -> None:
        self._file, self._begin, self._row_bytes, self._keep = file, begin, row_bytes, keep
        self.missing = missing
        self._begin_piece(0)

    def write(self, rows: slice, latents: np.ndarray) -> None:
        """Write the latents of some rows."""
        if rows.start != self._stop or (self._stop - self._first) * self._row_bytes >= CHECKED:
            self.keep()
            self._begin_piece(rows.start)
        data = np.ascontiguousarray(latents, np.float32).data
        self._file.write(data)
        self._digest.update(data)
        self._stop = rows.stop

    def keep(self) -> None:
        """Make sure that what was written is found again."""
        if self._stop > self._first:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._keep(_Piece(self._first, self._stop, self._digest.hexdigest()))

    def _begin_piece(self, row: int) -> None:
        self._first = self._stop = row
        self._digest = hashlib.sha256()
        self._file.seek(self._begin + row * self._row_bytes)
