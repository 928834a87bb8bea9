"""How long cells will take, by what recorded runs like them took; of others nothing is said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from reachcost.errors import ReachcostError
from reachcost.results.records import as_json, differences, read_run, run_paths
from reachcost.studies.cells.cell import Cell

NAMES = ("model", "cost", "evaluation_set")
"""Settings that say on whom something is done, not how much of it: runs that differ there are comparable."""
Took = dict[tuple[Any, ...], list[float]]
"""Seconds of runs, by their `NAMES`."""


class Estimates:
    """What cells will take, in seconds.

    Args:
        outs: Output directories whose records are looked at.
    """

    def __init__(self, outs: Iterable[Path]) -> None:
        self._outs = [*dict.fromkeys(out.absolute() for out in outs)]
        self._known = cache(self._read)
        self._comparable: dict[tuple[str, str], Took] = {}

    def of(self, cell: Cell) -> float | None:
        """Median of the recorded runs that are most alike; None if nothing comparable is on record.

        Runs are comparable if they are of one study and kind and all settings agree, but for seeds, fingerprints and
        `NAMES`.
        """
        kind, names, how = cell.name.rpartition("/")[0], _names(cell.config), _how(cell.config)
        key = kind, json.dumps(as_json(how), sort_keys=True)
        if key not in self._comparable:
            took: Took = self._comparable.setdefault(key, {})
            for settings, runs in self._known(kind):
                if all(_says_which(where) for where, _, _ in differences(settings, how)):
                    for others, seconds in runs.items():
                        took.setdefault(others, []).extend(seconds)
        found: dict[int, list[float]] = {}
        for others, seconds in self._comparable[key].items():
            apart = sum(one != other for one, other in zip(names, others, strict=True))
            found.setdefault(apart, []).extend(seconds)
        return median(found[min(found)]) if found else None

    def _read(self, kind: str) -> list[tuple[dict[str, Any], Took]]:
        """How runs on record were made, each way once, and what they took."""
        ways: dict[str, tuple[dict[str, Any], Took]] = {}
        for path in (path for out in self._outs for path in run_paths(out / "runs" / kind)):
            try:
                manifest = read_run(path).manifest
            except ReachcostError:  # whoever uses it will say so
                continue
            how = _how(manifest["config"])
            _, took = ways.setdefault(json.dumps(how, sort_keys=True), (how, {}))
            took.setdefault(_names(manifest["config"]), []).append(manifest["elapsed_seconds"])
        return [*ways.values()]


def _names(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(as_json(config.get(name)) for name in NAMES)


def _how(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say how much is done."""
    return {key: value for key, value in config.items() if key not in NAMES and not _says_which(key)}


def _says_which(where: str) -> bool:
    """Whether a setting tells one thing from others of its kind: a seed, or a fingerprint."""
    return any(part.endswith(("seed", "seeds", "sha256")) for part in where.split("."))
