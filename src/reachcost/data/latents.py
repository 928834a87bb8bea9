"""Latents of logs: encoded once, and cached on disk for models that have a fingerprint.

<cache>/latents/<key>/latents.npy      float32 [R, D], read as a memory map
<cache>/latents/<key>/manifest.json    origin of the latents, and the sha256 of each piece on disk by its first row

The key covers the fingerprints of model and logs, and a sample of rows that is encoded each time. The same states with
other frames therefore get other latents.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from reachcost.core.arrays import CHUNK_BYTES, open_memory_map, read_chunks, row_reader
from reachcost.core.files import cache_directory, write_file
from reachcost.core.json_files import read_json
from reachcost.core.parallel import parallel_map
from reachcost.core.progress import Progress, as_progress
from reachcost.data.evaluation import EvaluationSet, EvaluationSets, as_sets
from reachcost.data.logs import Logs, require_logs
from reachcost.data.models import encode_rows, fingerprint_of, name_of, require_model
from reachcost.errors import ReachcostError, ReachcostWarning, require_type
from reachcost.protocols import WorldModel

FORMAT = "reachcost-latents/2"
FRAMES_REMEDY = (
    "let a task render frames for logs of states (--task, or open_logs(path, task.observe)), log frames (--pixels 64), "
    "give logs of the world it was trained in"
)
SAMPLE = 64
"""Rows that are encoded each time, as a sample of the frames."""
PIECE_ROWS, PIECE_BYTES = 2**15, 4 * CHUNK_BYTES
"""Largest piece with one checksum. An interrupted encoding continues after the last complete piece."""


@dataclass(frozen=True)
class Latents:
    """The latents of every log row, with the logs they came from.

    Attributes:
        values: float32 [R, D].
        logs: The logs, R rows.
        model: Name and sha256 of the world model, if it has a fingerprint.
        excluded: Evaluation sets that no training pair may overlap with, see `without`.
    """

    values: Tensor
    logs: Logs
    model: dict[str, str] = field(default_factory=dict)
    excluded: tuple[EvaluationSet, ...] = ()

    def __post_init__(self) -> None:
        if len(self.values) != self.logs.rows:
            raise ReachcostError(f"{len(self.values)} latents for {self.logs.rows} log rows: encode exactly these rows")
        require_finite(self.values, "log row")

    def __repr__(self) -> str:
        model = f", of {self.model['name']}" if self.model else ""
        return f"Latents({len(self.values)} rows of {self.values[:1].numel()} numbers{model}, {self.logs})"

    def read(self, rows: np.ndarray) -> Tensor:
        """The latents of some rows [N] -> [N, D]."""
        return row_reader(self.values)(torch.from_numpy(rows))

    def keep(self, rows: np.ndarray) -> Latents:
        """The latents of some rows, ascending, with the logs of these rows."""
        return Latents(self.read(rows), self.logs.keep(rows), self.model, self.excluded)

    def without(self, exclude: EvaluationSets) -> Latents:
        """The same latents, of which evaluation sets are excluded from all training pairs, in addition to earlier ones.

        No pair then has the start and goal state of an evaluation episode, in either order. No pair is from a logged
        episode that provided a start or goal. Records of pairs have the measured overlap.
        """
        sets = {chosen.fingerprint: chosen for chosen in as_sets(exclude)}
        earlier = (chosen for chosen in self.excluded if chosen.fingerprint not in sets)
        return replace(self, excluded=(*earlier, *sets.values())) if sets else self


def require_finite(latents: Tensor, row_name: str, numbers: np.ndarray | None = None) -> None:
    """Raise an error for latents [N, D] with NaN or infinity; it names the first such row, by its number if given."""
    chunks = read_chunks(latents.detach().cpu().numpy())
    finite = np.concatenate([np.isfinite(chunk.reshape(len(chunk), -1)).all(1) for chunk in chunks] or [[]])
    if finite.all():
        return
    row = int(np.argmin(finite))
    raise ReachcostError(
        f"the latent of {row_name} {row if numbers is None else int(numbers[row])} is not finite "
        f"({int((~finite).sum())} of {len(latents)} are not): "
        "check that observation and the encoder's weights with reachcost.check_world_model"
    )


def model_identity(model: WorldModel) -> dict[str, str]:
    """Name and sha256 of a world model; empty for a model without a fingerprint."""
    fingerprint = fingerprint_of(model)
    return {} if fingerprint is None else {"name": name_of(model), "sha256": fingerprint}


def require_latents_of(model: WorldModel, latents: Latents) -> None:
    """Raise an error for latents of another world model."""
    known, given = latents.model.get("sha256"), model_identity(model).get("sha256")
    if latents.values.shape[1] != model.latent_dim or (known and given and known != given):
        made_by = latents.model.get("name", "another model")
        raise ReachcostError(f"the latents are of {made_by}, not of {name_of(model)}: call encode_logs(model, logs)")


def encode_logs(
    model: WorldModel,
    logs: Logs,
    batch: int = 1024,
    cache: str | Path | Literal[False] | None = None,
    progress: Progress | bool | None = None,
) -> Latents:
    """Encode every row of the logs, `batch` rows at a time.

    Args:
        model: The world model. If it has a `fingerprint`, or weights to compute one, its latents are kept on disk, and
            an interrupted encoding continues where it stopped.
        logs: The logs.
        batch: Rows encoded together.
        cache: Directory to keep latents in, instead of the default; they are read from there as they are needed.
            False keeps nothing on disk, and all latents in memory: 4 R D bytes.
        progress: True shows progress.

    >>> from reachcost import make_task
    >>> from reachcost.tasks.toponav.features import ExactTopoNav
    >>> encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=10)).values.shape[1]
    10
    """
    require_model(model, "latent_dim", "encode")
    require_logs(logs)
    require_type(batch, int, "batch", "give a whole number of rows")
    if batch < 1:
        raise ReachcostError(f"batch is {batch}: give 1 or more rows")
    progress = as_progress(progress)
    progress.step("latents")

    @torch.no_grad()
    def encode(rows: slice | np.ndarray) -> np.ndarray:
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        return encode_rows(model, logs.observations(rows), count, FRAMES_REMEDY).cpu().numpy()

    shape = (logs.rows, model.latent_dim)
    identity = model_identity(model)
    if not identity and cache is not False:
        warnings.warn(
            f"{name_of(model)} has no `fingerprint` and no weights to compute one, so latents are not kept and heads "
            "cannot be matched with it: give it one, such as 'my-model-1', and change it whenever the encoder changes",
            ReachcostWarning,
            stacklevel=1,  # this line, so that it is shown once
        )
    if cache is False or not identity or not logs.rows:
        values = np.empty(shape, np.float32)
        for rows in progress.track(_batches(slice(0, logs.rows), batch), "batches"):
            values[rows] = encode(rows)
        return Latents(torch.from_numpy(values), logs, identity)
    sample = encode(np.linspace(0, logs.rows - 1, SAMPLE).astype(np.int64))
    origin = {
        "format": FORMAT,
        "model": identity["sha256"],
        "logs": logs.fingerprint,
        "sample": hashlib.sha256(sample.tobytes()).hexdigest(),
        "shape": list(shape),
    }
    kept = LatentCache(cache_directory(cache) / "latents", origin)
    kept.fill(encode, batch, progress)
    return Latents(torch.from_numpy(kept.read()), logs, identity)


def _batches(rows: slice, size: int) -> list[slice]:
    """Rows in consecutive slices of that size; the last one may be smaller."""
    return [slice(row, min(row + size, rows.stop)) for row in range(rows.start, rows.stop, size)]


class LatentCache:
    """Latents [R, D] of one origin on disk: an array, and a manifest with the checksum of each piece of rows."""

    def __init__(self, cache: Path, origin: dict[str, Any]) -> None:
        self.origin = origin
        rows, width = origin["shape"]
        self._row_bytes = 4 * width
        self._pieces = _batches(slice(0, rows), max(1, min(PIECE_ROWS, PIECE_BYTES // self._row_bytes)))
        self._directory = cache / hashlib.sha256(json.dumps(origin).encode()).hexdigest()[:32]
        self._array, self._manifest = self._directory / "latents.npy", self._directory / "manifest.json"

    def read(self) -> np.memmap:
        """The latents as a memory map; what is written into it stays in memory."""
        values = open_memory_map(self._array)
        if values.shape != tuple(self.origin["shape"]) or values.dtype != np.float32 or not values.flags.c_contiguous:
            raise ValueError(f"{self._array} is {values.dtype} {values.shape}")
        return values

    def fill(self, encode: Callable[[slice], np.ndarray], batch: int, progress: Progress) -> None:
        """Encode the rows that are missing or damaged; a warning reports damage."""
        recorded = self._recorded()
        intact = self._intact(recorded or {})
        if recorded is None or recorded != intact:
            known = [piece for piece in self._pieces if str(piece.start) in (recorded or {})]
            damaged = sum(piece.stop - piece.start for piece in known if str(piece.start) not in intact)
            what = f"{damaged} of {self.origin['shape'][0]} rows are" if recorded else "their manifest is"
            warnings.warn(
                f"kept latents in {self._directory} cannot be trusted, as {what} damaged or without checksum: they are "
                "encoded again",
                ReachcostWarning,
                stacklevel=1,
            )
        if len(intact) == len(self._pieces):
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with FileLock(self._directory / ".lock"):
                intact = self._intact(self._recorded() or {})  # another process may have encoded them in the meantime
                if not intact:
                    self._create()
                self._write(intact, encode, batch, progress)
        except OSError as error:
            raise ReachcostError(
                f"cannot keep latents in {self._directory} ({error.strerror or error}): make room there, name another "
                "directory in REACHCOST_CACHE, or pass cache=False"
            ) from error

    def _recorded(self) -> dict[str, str] | None:
        """Checksums in the manifest, by the first row of each piece; None if the manifest is damaged."""
        try:
            manifest = read_json(self._manifest)
            checksums = manifest.pop("sha256")
            return checksums if manifest == self.origin and isinstance(checksums, dict) else None
        except OSError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _intact(self, recorded: dict[str, str]) -> dict[str, str]:
        """The recorded checksums of pieces that have them."""
        try:
            values = self.read()
        except (OSError, ValueError):  # the array is missing, cut short, or of another shape
            return {}

        def checksum(piece: slice) -> str:
            digest = hashlib.sha256()
            for chunk in read_chunks(values[piece]):
                digest.update(chunk.data)
            return digest.hexdigest()

        pieces = [piece for piece in self._pieces if str(piece.start) in recorded]
        found = {str(piece.start): sha for piece, sha in zip(pieces, parallel_map(checksum, pieces), strict=True)}
        return {first: sha for first, sha in found.items() if sha == recorded[first]}

    def _create(self) -> None:
        """A new file with all its space reserved, so that a full disk is an error now and not a crash later."""
        self._manifest.unlink(missing_ok=True)
        self._array.unlink(missing_ok=True)
        np.lib.format.open_memmap(self._array, mode="w+", dtype=np.float32, shape=tuple(self.origin["shape"]))
        with self._array.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, self._array.stat().st_size)

    def _write(
        self, intact: dict[str, str], encode: Callable[[slice], np.ndarray], batch: int, progress: Progress
    ) -> None:
        """Write all other pieces. A memory map is avoided: all written pages would stay in memory."""
        missing = [piece for piece in self._pieces if str(piece.start) not in intact]
        steps = [(piece, rows) for piece in missing for rows in _batches(piece, batch)]
        begin, digest = self.read().offset, hashlib.sha256()
        with self._array.open("r+b") as file:
            for piece, rows in progress.track(steps, "batches"):
                if rows.start == piece.start:
                    digest = hashlib.sha256()
                    file.seek(begin + rows.start * self._row_bytes)
                data = np.ascontiguousarray(encode(rows), np.float32).data
                file.write(data)
                digest.update(data)
                if rows.stop == piece.stop:
                    file.flush()
                    os.fsync(file.fileno())
                    intact[str(piece.start)] = digest.hexdigest()
                    write_file(self._manifest, json.dumps({**self.origin, "sha256": intact}) + "\n")
