"""How long cells will take, by what recorded runs like them took; of others nothing is said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from reachcost.errors import ReachcostError
from reachcost.results.records import differences, read_run
from reachcost.studies.cells.cell import Cell

NAMES = ("model", "cost", "evaluation_set")
"""Settings that say on whom something is done, not how much of it: runs that differ there are comparable."""


class Estimates:
    """What cells will take, in seconds.

    Args:
        outs: Output directories whose records are looked at.
    """

    def __init__(self, outs: Iterable[Path]) -> None:
        self._outs = [*dict.fromkeys(out.absolute() for out in outs)]
        self._known = cache(self._read)

    def of(self, cell: Cell) -> float | None:
        """Median of the recorded runs that are most alike; None if nothing comparable is on record.

        Runs are comparable if they are of one study and kind and all settings agree, but for seeds, fingerprints and
        `NAMES`.
        """
        found: dict[int, list[float]] = {}
        for config, seconds in self._known(*cell.name.split("/")[:-1]):
            differ = [where for where, _, _ in differences(config, cell.config) if not _says_which(where)]
            if all(where in NAMES for where in differ):
                found.setdefault(len(differ), []).extend(seconds)
        return median(found[min(found)]) if found else None

    def _read(self, *parts: str) -> list[tuple[dict[str, Any], list[float]]]:
        """Configurations on record, each once, and what their runs took."""
        runs: dict[str, tuple[dict[str, Any], list[float]]] = {}
        for path in (path for out in self._outs for path in out.joinpath("runs", *parts).glob("*/manifest.json")):
            try:
                manifest = read_run(path.parent).manifest
            except ReachcostError:  # whoever uses it will say so
                continue
            said = json.dumps(_kept(manifest["config"]), sort_keys=True)
            runs.setdefault(said, (manifest["config"], []))[1].append(manifest["elapsed_seconds"])
        return [*runs.values()]


def _says_which(where: str) -> bool:
    """Whether a setting tells one thing from others of its kind: a seed, or a fingerprint."""
    return any(part.endswith(("seed", "seeds", "sha256")) for part in where.split("."))


def _kept(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if not _says_which(key)}
