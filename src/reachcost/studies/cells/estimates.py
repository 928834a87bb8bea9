"""How long cells will take, from recorded runs like them, and what of some tables remains."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.results.records import as_json, differences, read_run, require_intact_runs
from reachcost.studies.cells.cell import Cell, missing_of
from reachcost.studies.cells.schedule import TableRequest
from reachcost.studies.cells.worker import Recordings

NAMES = ("model", "cost", "evaluation_set")
"""Settings that say on whom something is done, not how much of it: runs that differ there are comparable."""
Seconds = dict[tuple[Any, ...], list[float]]
"""Seconds of runs, by their `NAMES`."""


class Estimates:
    """Estimated seconds of cells.

    Args:
        outs: Output directories whose records are read.
    """

    def __init__(self, outs: Iterable[Path]) -> None:
        self._outs = [*dict.fromkeys(out.absolute() for out in outs)]
        self._recorded = cache(self._read)
        self._comparable: dict[tuple[str, str], Seconds] = {}

    def of(self, cell: Cell) -> float | None:
        """Median of the recorded runs that are most alike; None if nothing comparable is on record.

        Runs are comparable if they are of one study and kind and all settings agree, but for seeds, fingerprints and
        `NAMES`.
        """
        config, kind = cell.config, cell.name.rpartition("/")[0]
        names, sizes = _names(config), _sizes(config)
        key = kind, json.dumps(as_json(sizes), sort_keys=True)
        if key not in self._comparable:
            found = self._comparable.setdefault(key, {})
            for settings, runs in self._recorded(kind):
                if all(_identifies(where) for where, _, _ in differences(settings, sizes)):
                    for others, seconds in runs.items():
                        found.setdefault(others, []).extend(seconds)
        by_distance: dict[int, list[float]] = {}
        for others, seconds in self._comparable[key].items():
            apart = sum(one != other for one, other in zip(names, others, strict=True))
            by_distance.setdefault(apart, []).extend(seconds)
        return median(by_distance[min(by_distance)]) if by_distance else None

    def _read(self, kind: str) -> list[tuple[dict[str, Any], Seconds]]:
        """The settings of recorded runs, each once, and what they took."""
        found: dict[str, tuple[dict[str, Any], Seconds]] = {}
        for path in (path for out in self._outs for path in (out / "runs" / kind).glob("*/manifest.json")):
            try:
                manifest = read_run(path.parent).manifest
            except ReachcostError:  # whoever uses it will say so
                continue
            sizes = _sizes(manifest["config"])
            _, seconds = found.setdefault(json.dumps(sizes, sort_keys=True), (sizes, {}))
            seconds.setdefault(_names(manifest["config"]), []).append(manifest["elapsed_seconds"])
        return [*found.values()]


def _names(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(as_json(config.get(name)) for name in NAMES)


def _sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say how much is done."""
    return {key: value for key, value in config.items() if key not in NAMES and not _identifies(key)}


def _identifies(where: str) -> bool:
    """Whether a setting only tells one thing from others of its kind: a seed, or a fingerprint."""
    return any(part.endswith(("seed", "seeds", "sha256")) for part in where.split("."))


class Part(NamedTuple):
    """The cells of one kind in a table."""

    table: str
    kind: str
    """What they are runs of."""
    done: int
    """Number of recorded cells."""
    remaining: tuple[Cell, ...]
    """Cells to compute."""
    seconds: float
    """Estimate for those of them to which something comparable is on record."""
    unknown: int
    """Number of the others."""


def plan_of(requests: Sequence[TableRequest], out: Path, elsewhere: Sequence[Path] = ()) -> Iterator[Part]:
    """What of every table is done and what remains, by kind of cell; nothing is computed or written.

    Args:
        requests: The tables; what several of them share remains in the first alone.
        out: Their output directory, which need not exist.
        elsewhere: Further output directories whose records tell what cells take.
    """
    require_intact_runs(out)
    recordings, estimates, counted = Recordings(out, Progress()), Estimates([out, *elsewhere]), set[Path]()
    for request in requests:
        cells = request.cells(recordings)
        missing = missing_of(cells)
        done = Counter(cell.spec.kind for path, cell in cells.items() if path not in missing)
        new = [cell for path, cell in missing.items() if path not in counted]
        counted |= {*missing}
        for kind in dict.fromkeys([*done, *(cell.spec.kind for cell in new)]):
            remaining = tuple(cell for cell in new if cell.spec.kind == kind)
            known = [seconds for cell in remaining if (seconds := estimates.of(cell)) is not None]
            yield Part(request.table, kind, done[kind], remaining, sum(known), len(remaining) - len(known))
