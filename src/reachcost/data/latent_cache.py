"""Latents that are kept on disk, in pieces: what is read is what was written, or it is encoded again.

<cache>/latents/<key>/latents.npy      float32 [R, D], read as a memory map
<cache>/latents/<key>/manifest.json    what they were made of, and the pieces that are there: [first row, row to stop
                                       before, sha256]
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from filelock import FileLock

from reachcost.core.arrays import CHUNK_BYTES, open_memory_map
from reachcost.core.atomic import write_file
from reachcost.core.json_files import read_json
from reachcost.core.parallel import parallel_map
from reachcost.errors import ReachcostError, ReachcostWarning

CHECKED = 4 * CHUNK_BYTES
"""Bytes after which another piece begins."""


class _Piece(NamedTuple):
    first: int
    stop: int
    sha256: str


class KeptLatents:
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
