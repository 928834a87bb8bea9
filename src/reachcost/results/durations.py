"""Estimates of how long runs take, from recorded runs like them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from reachcost.errors import ReachcostError
from reachcost.results.records import as_json, differences, read_run, run_paths

NAMES = ("model", "cost", "evaluation_set")
"""Settings that do not change the amount of work: runs that differ there are comparable."""
Seconds = dict[tuple[Any, ...], list[float]]
"""Seconds of runs, by their `NAMES`."""


class Durations:
    """Estimated seconds of runs, from the records below some output directories."""

    def __init__(self, outs: Iterable[Path]) -> None:
        self._outs = [*dict.fromkeys(out.absolute() for out in outs)]
        self._recorded = cache(self._read)

    def of(self, run: str, config: Mapping[str, Any]) -> float | None:
        """Return the median seconds of the most similar recorded runs, or None if none is comparable.

        Comparable runs have the same study, kind and settings, except for seeds, fingerprints and `NAMES`.

        Args:
            run: `<study>/<kind>/<name>`.
            config: The configuration of the run.
        """
        names, sizes = _split(config)
        by_distance: dict[int, list[float]] = {}
        for settings, runs in self._recorded(run.rpartition("/")[0]):
            if all(_identifies(where) for where, _, _ in differences(settings, sizes)):
                for others, seconds in runs.items():
                    apart = sum(one != other for one, other in zip(names, others, strict=True))
                    by_distance.setdefault(apart, []).extend(seconds)
        return median(by_distance[min(by_distance)]) if by_distance else None

    def _read(self, kind: str) -> list[tuple[dict[str, Any], Seconds]]:
        """Return the distinct settings of recorded runs, with the seconds of these runs."""
        found: dict[str, tuple[dict[str, Any], Seconds]] = {}
        for path in (path for out in self._outs for path in run_paths(out / "runs" / kind)):
            try:
                manifest = read_run(path).manifest
            except ReachcostError:  # whoever uses it will report that
                continue
            names, sizes = _split(manifest["config"])
            _, seconds = found.setdefault(json.dumps(sizes, sort_keys=True), (sizes, {}))
            seconds.setdefault(names, []).append(manifest["elapsed_seconds"])
        return [*found.values()]


def _split(config: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the `NAMES` of a configuration, and the settings that determine the amount of work."""
    names = tuple(as_json(config.get(name)) for name in NAMES)
    return names, {key: value for key, value in config.items() if key not in NAMES and not _identifies(key)}


def _identifies(where: str) -> bool:
    """Whether a setting is a seed or a fingerprint."""
    return any(part.endswith(("seed", "seeds", "sha256")) for part in where.split("."))
