"""The record of `reachcost bench --growth`: every curve, the machine, and whether promises are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reachcost.core.atomic import write_file
from reachcost.core.machine import machine, versions
from reachcost.core.progress import Progress
from reachcost_tools.bench.growth.curve import Curve, exponent
from reachcost_tools.bench.growth.picture import Growth, draw_growth
from reachcost_tools.bench.growth.point import Point, in_new_process
from reachcost_tools.bench.growth.registry import idle
from reachcost_tools.bench.record import load_per_core, rounded

MOST_MEMORY = 2000
"""Megabytes that no work may exceed, whatever its size."""


def path_in(out: Path) -> Path:
    """Where the record is kept."""
    return out / "benchmarks" / "growth.json"


def picture_in(out: Path) -> Path:
    """Where its picture is kept."""
    return out / "figures" / "growth.png"


def run(curves: Sequence[Curve], progress: Progress) -> dict[str, Any]:
    """Measure all curves and return the record; a size that fails is told in `failed`, and is none of its curve's."""
    load = load_per_core()
    nothing = in_new_process(idle, 0)
    lines: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for curve in curves:
        progress.step(curve.name)
        points: dict[int, Point] = {}
        for size in progress.track(curve.sizes, "sizes"):
            try:
                points[size] = in_new_process(curve.prepare, size)
            except Exception as error:  # whatever it is, the other sizes can be measured
                failed[f"{curve.name}, {size:,} {curve.unit}"] = f"{type(error).__name__}: {error}"
        lines[curve.name] = line_of(curve, points)
    return {
        "machine": machine(),
        "load_per_core_before": round(load, 2),
        "versions": versions(),
        "threads": 1,
        "idle_memory_mb": round(nothing.memory),
        "most_memory_mb": MOST_MEMORY,
        "curves": lines,
        "failed": failed,
    }


def line_of(curve: Curve, points: dict[int, Point]) -> dict[str, Any]:
    """What the record says of a curve."""
    seconds = [point.seconds for point in points.values()]
    slope = exponent([*points], seconds)
    return {
        "says": curve.says,
        "unit": curve.unit,
        "sizes": [*points],
        "seconds": [rounded(time) for time in seconds],
        "peak_memory_mb": [round(point.memory) for point in points.values()],
        "slope": None if slope is None else round(slope, 2),
        "slope_promised": curve.most,
    }


def broken_promises(record: dict[str, Any]) -> list[str]:
    """What grows faster than promised, holds more memory, or failed."""
    broken = []
    for name, line in record["curves"].items():
        if line["slope"] is not None and line["slope"] > line["slope_promised"]:
            broken.append(f"{name} grows with exponent {line['slope']:g}, promised {line['slope_promised']:g}")
        if max(line["peak_memory_mb"], default=0) > record["most_memory_mb"]:
            held = max(line["peak_memory_mb"])
            broken.append(f"{name} holds {held:,} MB, promised {record['most_memory_mb']:,}")
    return [*broken, *(f"{where} failed ({why})" for where, why in record["failed"].items())]


def table(record: dict[str, Any]) -> list[str]:
    """The record as lines of a table, one a curve: what docs/speed.md shows."""
    heading = ["| work | size | seconds | exponent | promised | MB |", "| --- | --- | --- | ---: | ---: | ---: |"]
    return heading + [
        f"| {name} | {_ends(line['sizes'])} {line['unit']} | {_ends(line['seconds'])} | {line['slope']:.2f} "
        f"| {line['slope_promised']:g} | {_ends(line['peak_memory_mb'])} |"
        for name, line in record["curves"].items()
        if line["slope"] is not None
    ]


def _ends(numbers: Sequence[float]) -> str:
    return " to ".join(f"{number:,.0f}" if number >= 100 else f"{number:.3g}" for number in (numbers[0], numbers[-1]))


def write(record: dict[str, Any], out: Path) -> list[Path]:
    """Keep the record and, unless everything failed, its picture in a directory."""
    write_file(path_in(out), json.dumps(record, indent=2) + "\n")
    drawn = [
        Growth(name, line["unit"], line["sizes"], line["seconds"], line["peak_memory_mb"])
        for name, line in record["curves"].items()
        if line["sizes"]
    ]
    if not drawn:
        return [path_in(out)]
    draw_growth(drawn, record["idle_memory_mb"], record["most_memory_mb"], picture_in(out))
    return [path_in(out), picture_in(out)]
