"""Encode logs once; everything after that works on latents.

Latents of a model that has a fingerprint (see `fingerprint.py`) are kept on disk (see `kept.py`), in the directory that
the environment variable `REACHCOST_CACHE` names, by default `~/.cache/reachcost`. Their key covers the fingerprints of
model and logs and a sample of rows encoded anew, so that the same states under other frames are other latents.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import read_chunks, row_reader
from reachcost.core.files import cache_directory
from reachcost.core.progress import Progress, as_progress
from reachcost.data.fingerprint import fingerprint_of, name_of
from reachcost.data.latent_cache import KeptLatents
from reachcost.data.logs import Logs
from reachcost.data.logs.episodes import require_logs
from reachcost.data.rollouts import encoded, require_model
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
    kept = KeptLatents(cache_directory(cache) / "latents", origin)
    if kept.missing():
        _write(kept, partial(_encode, model, logs), batch, progress)
    return Latents(torch.from_numpy(kept.read()), logs, model_identity(model))


def _write(kept: KeptLatents, encode: Callable[[slice], np.ndarray], batch: int, progress: Progress) -> None:
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
    return encoded(model, logs.observations(rows), count, DRAWN).cpu().numpy()


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
