"""Encode logs once; everything after that works on latents.

Latents of a model that has a `fingerprint` are kept on disk, in the directory that the environment variable
`REACHCOST_CACHE` names, by default `~/.cache/reachcost`:

    <cache>/latents/<key>/latents.npy      float32 [R, D], read as a memory map
    <cache>/latents/<key>/manifest.json    fingerprints of model and logs; `rows` tells how many rows are encoded
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from reachcost.atomic import write_file
from reachcost.errors import ReachcostError
from reachcost.logs import Logs
from reachcost.progress import Progress
from reachcost.protocols import WorldModel
from reachcost.records import exclusive

FORMAT = "reachcost-latents/1"
SAVE_EVERY = 32
"""Batches between two points from which an interrupted encoding continues."""


@dataclass(frozen=True)
class Latents:
    """The latents of every log row, with the logs they came from.

    Attributes:
        values: float32 [R, D].
        logs: The logs, R rows.
    """

    values: Tensor
    logs: Logs

    def __post_init__(self) -> None:
        if len(self.values) != self.logs.rows:
            raise ReachcostError(
                f"there are {len(self.values)} latents for {self.logs.rows} log rows: encode exactly these rows"
            )
        require_finite(self.values, "log row")


def encode_logs(
    model: WorldModel,
    logs: Logs,
    batch: int = 1024,
    cache: str | Path | Literal[False] | None = None,
    progress: Progress | None = None,
) -> Latents:
    """Encode every row of the logs, `batch` rows at a time.

    Args:
        model: The world model. If it has a `fingerprint`, its latents are kept on disk, and an interrupted encoding
            continues where it stopped.
        logs: The logs.
        batch: Rows encoded together.
        cache: Directory to keep latents in, instead of the default; False keeps nothing.
        progress: Shows how far it is.

    >>> from reachcost.tasks import make_task
    >>> from reachcost.worldmodels.toponav import ExactTopoNav
    >>> encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(episodes=10)).values.shape[1]
    10
    """
    progress = progress or Progress()
    fingerprint = getattr(model, "fingerprint", None)
    shape = (logs.rows, model.latent_dim)
    if cache is False or fingerprint is None:
        values = np.empty(shape, np.float32)
        _encode(model, logs, values, range(0, logs.rows, batch), progress)
        return Latents(torch.from_numpy(values), logs)
    origin = {"format": FORMAT, "model": fingerprint, "logs": logs.fingerprint, "shape": list(shape)}
    key = hashlib.sha256(json.dumps(origin).encode()).hexdigest()[:32]
    directory = Path(cache or _default_cache()) / "latents" / key
    with exclusive(directory):
        stored = _Stored(directory, origin)
        if stored.rows and not stored.agrees(model, logs):
            stored.forget()  # the same states under other frames
        done = stored.rows
        starts = range(done, logs.rows, batch)
        for first in progress.track(range(0, len(starts), SAVE_EVERY), "parts") if starts else ():
            part = starts[first : first + SAVE_EVERY]
            _encode(model, logs, stored.values, part, Progress())
            stored.keep(min(part[-1] + batch, logs.rows))
    return Latents(torch.from_numpy(stored.values), logs)


@torch.no_grad()
def _encode(model: WorldModel, logs: Logs, values: np.ndarray, starts: range, progress: Progress) -> None:
    """Fill rows of `values`, in batches that begin at `starts`."""
    for start in progress.track(starts, "batches"):
        rows = slice(start, min(start + starts.step, logs.rows))
        values[rows] = _encode_rows(model, logs, rows)


def _encode_rows(model: WorldModel, logs: Logs, rows: slice | np.ndarray) -> np.ndarray:
    observations = logs.observations(rows)
    try:
        return model.encode(observations).cpu().numpy()
    except KeyError as error:
        raise ReachcostError(
            f"the model reads a column {error} that these logs do not have (they have {', '.join(observations)}): "
            "logs of states alone offer pixels when opened with the task's `observe`"
        ) from error


class _Stored:
    """Latents on disk, complete up to `rows`."""

    def __init__(self, directory: Path, origin: dict[str, Any]) -> None:
        self._directory, self._origin = directory, origin
        self._manifest, array = directory / "manifest.json", directory / "latents.npy"
        shape = tuple(origin["shape"])
        self.rows = self._recorded_rows() if array.exists() else 0
        if self.rows == 0:
            self._manifest.unlink(missing_ok=True)
            np.lib.format.open_memmap(array, mode="w+", dtype=np.float32, shape=shape)
        mode = "c" if self.rows == shape[0] else "r+"
        try:
            self.values: np.ndarray = np.lib.format.open_memmap(array, mode=mode)
        except ValueError as error:
            raise ReachcostError(f"{array} is damaged ({error}): remove {directory}") from error
        if self.values.shape != shape or self.values.dtype != np.float32:
            raise ReachcostError(f"{array} is {self.values.dtype} {self.values.shape}: remove {directory}")

    def _recorded_rows(self) -> int:
        try:
            manifest = json.loads(self._manifest.read_text(encoding="utf-8"))
            known = {key: manifest[key] for key in self._origin} == self._origin
            return int(manifest["rows"]) if known else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0  # nothing that can be trusted: encode again

    def agrees(self, model: WorldModel, logs: Logs) -> bool:
        """Whether some rows, encoded again, give what is stored."""
        rows = np.unique(np.linspace(0, self.rows - 1, 64).astype(np.int64))
        with torch.no_grad():
            again = _encode_rows(model, logs, rows)
        return bool(np.allclose(self.values[rows], again, rtol=1e-3, atol=1e-3))

    def forget(self) -> None:
        """Start again."""
        self._manifest.unlink()
        self.__init__(self._directory, self._origin)

    def keep(self, rows: int) -> None:
        """Make sure that the first `rows` are on disk, then say so."""
        assert isinstance(self.values, np.memmap)
        self.values.flush()
        write_file(self._manifest, json.dumps({**self._origin, "rows": rows}, indent=2) + "\n")
        self.rows = rows


def _default_cache() -> Path:
    return Path(os.environ.get("REACHCOST_CACHE") or Path.home() / ".cache" / "reachcost")


def require_finite(latents: Tensor, row_name: str, numbers: np.ndarray | None = None) -> None:
    """Refuse latents [N, D] with NaN or infinity, and say which row (by its number, if rows have any) is the first."""
    finite = torch.isfinite(latents.reshape(len(latents), -1)).all(1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        row = row if numbers is None else int(numbers[row])
        raise ReachcostError(
            f"the latent of {row_name} {row} is not finite ({int((~finite).sum())} of {len(latents)} are not): "
            "check that observation and the encoder's weights with reachcost.check_world_model"
        )
