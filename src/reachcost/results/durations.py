"""Estimates of how long runs take, from recorded runs of the same size."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from operator import ne
from pathlib import Path
from statistics import median
from typing import Any

from reachcost.errors import ReachcostError
from reachcost.results.records import as_json, differences, read_run, run_paths

NAMES = ("model", "cost", "evaluation_set")  # settings in which comparable runs may differ


class Durations:
    """Estimated seconds of runs, from the records below some output directories."""

    def __init__(self, outs: Iterable[Path]) -> None:
        self._outs = [*dict.fromkeys(out.absolute() for out in outs)]
        self._recorded = cache(self._read)

    def of(self, run: str, config: Mapping[str, Any]) -> float | None:
        """Median seconds of the most similar recorded runs, or None if none is comparable.

        Comparable runs have the same study, kind and settings, except for seeds, fingerprints and `NAMES`.

        Args:
            run: `<study>/<kind>/<name>`.
            config: The configuration of the run.
        """
        names, sizes = _split(config)
        by_distance: dict[int, list[float]] = defaultdict(list)
        for settings, runs in self._recorded(run.rpartition("/")[0]):
            if all(_identifies(where) for where, _, _ in differences(settings, sizes)):
                for others, seconds in runs:
                    by_distance[sum(map(ne, names, others))].append(seconds)
        return median(by_distance[min(by_distance)]) if by_distance else None

    def _read(self, kind: str) -> list[tuple[dict[str, Any], list[tuple[list[Any], float]]]]:
        """The distinct settings of recorded runs of a kind, with the `NAMES` and seconds of these runs."""
        found: dict[str, tuple[dict[str, Any], list[tuple[list[Any], float]]]] = {}
        for path in (path for out in self._outs for path in run_paths(out / "runs" / kind)):
            try:
                manifest = read_run(path).manifest
            except ReachcostError:  # the command that uses the run will report that
                continue
            names, sizes = _split(manifest["config"])
            _, runs = found.setdefault(json.dumps(sizes, sort_keys=True), (sizes, []))
            runs.append((names, manifest["elapsed_seconds"]))
        return [*found.values()]


def _split(config: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The `NAMES` of a configuration, and the settings that determine the amount of work."""
    names = [as_json(config.get(name)) for name in NAMES]
    return names, {key: value for key, value in config.items() if key not in NAMES and not _identifies(key)}


def _identifies(where: str) -> bool:
    """Whether a setting is a seed or a fingerprint."""
    return any(part.endswith(("seed", "seeds", "sha256")) for part in where.split("."))
