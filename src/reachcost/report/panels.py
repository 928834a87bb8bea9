"""Values that the templates of a report show: the material, statistics of it, and positions in charts.

A position is a percentage of the width or height. The macros in `templates/charts.html.j2` draw the charts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from reachcost.audits.stage import Stage
from reachcost.audits.stages import NOTHING
from reachcost.report.material import Material, Training
from reachcost.report.page import number, plain
from reachcost.report.success import BOUNDS, charts_of, endings, headline, success_rates
from reachcost.results.tables import ResultTable

DOTS, EPOCHS, ROWS = 200, 400, 400  # maximum number of dots of a cost, epochs of a curve, and rows of a table
Scale = Callable[[float], float]  # from a value to percent of the width


def context(material: Material) -> dict[str, Any]:
    """Values for `templates/report.html.j2` and its panels."""
    scene, ended = material.scene, endings(material)
    costs = {*scene.costs} if scene is not None else set()
    categories = sorted({*chain(*ended.values())}, key=lambda category: (category != "success", category))
    made = [table.provenance["command"] for table in material.tables if table.provenance.get("command")]
    return {
        "material": material,
        "scene": scene,
        "other_scenes": sum(1 for other in material.scenes if other.episodes and not {*other.costs} <= costs),
        "headline": headline(material),
        "charts": charts_of(material),
        "sources": len(success_rates(material)),
        "bounds": BOUNDS,
        "endings": ended,
        "categories": categories,
        "ending_headings": [("cost", ""), *((plain(name), "number") for name in (*categories, "episodes"))],
        "scale": linear(0, 100),
        "no_fault": NOTHING,
        "stage_scale": stage_scale,
        "rank_scale": logarithmic(100),
        "rankings": {name: _ranking(ranks) for name, ranks in material.ranks.items()},
        "learning_curve": learning_curve,
        "tables": [_table(table) for table in material.tables],
        "commands": [*dict.fromkeys([*material.commands, *map(str, made)])],
        "summary": _summary(material),
    }


def linear(low: float, high: float) -> Scale:
    """A linear scale; values outside of it are clipped.

    >>> linear(0, 50)(20), linear(0, 50)(70)
    (40.0, 100.0)
    """
    return lambda value: float(np.clip(100 * (value - low) / ((high - low) or 1), 0, 100))


def logarithmic(high: float) -> Scale:
    """A logarithmic scale from 0, which gives most room to small values. Both ends leave room for a dot.

    >>> [round(logarithmic(100)(value)) for value in (0, 1, 10, 100)]
    [1, 16, 52, 99]
    """
    return lambda value: float(1 + 98 * np.log1p(np.clip(value, 0, high)) / np.log1p(high))


def stage_scale(stage: Stage) -> Scale:
    """A scale that shows the value, interval and threshold of a stage."""
    values = [stage.threshold, stage.value or 0.0, *(stage.interval or ())]
    top = 100.0 if stage.measured.startswith("%") else 1.0
    return linear(min(0.0, *(1.2 * value for value in values)), max(top, *values))  # room for a line below 0


def learning_curve(record: Training) -> dict[str, Any] | None:
    """Points of the validation loss in a chart, and its reference line; None without two epochs.

    >>> learning_curve(Training(curve=({"validation_loss": 4.0}, {"validation_loss": 2.0})))["best"]
    2.0
    """
    losses, reference = record.losses[:EPOCHS], record.constant_loss
    if len(losses) < 2:
        return None
    values = losses if reference is None else [*losses, reference]
    height = linear(max(values), min(0.0, *values))  # y points down
    last = len(losses) - 1
    return {
        "points": " ".join(f"{100 * epoch / last:.2f},{height(loss):.2f}" for epoch, loss in enumerate(losses)),
        "reference": None if reference is None else height(reference),
        "first": losses[0],
        "best": min(losses),
        "epochs": len(losses),
    }


def _ranking(ranks: np.ndarray) -> dict[str, Any]:
    some = ranks if len(ranks) <= DOTS else np.sort(ranks)[np.linspace(0, len(ranks) - 1, DOTS).astype(int)]
    scale = logarithmic(100)
    low, median, high = map(scale, np.percentile(some, (25, 50, 75)))
    return {
        "swarm": {"low": low, "median": median, "high": high, "dots": [scale(rank) for rank in np.sort(some)]},
        "mean": float(ranks.mean()),
        "median": float(np.median(ranks)),
        "n": len(ranks),
        "perfect": int((ranks == 0).sum()),  # their dots hide each other
    }


def _table(table: ResultTable) -> dict[str, Any]:
    columns = table.columns()
    kinds = [kind for _, kind, _ in columns]
    rows = [*zip(*(texts[:ROWS] for *_, texts in columns), strict=True)]
    return {
        "name": table.name,
        "note": table.note,
        "headings": [(heading, kind) for heading, kind, _ in columns],
        "rows": [[*zip(cells, kinds, strict=True)] for cells in rows],
        "more": max(0, len(table.rows) - ROWS),
    }


def _summary(material: Material) -> dict[str, object]:
    """What all runs have in common."""
    manifests = [record.manifest for record in material.records]
    versions = {f"{name} {version}" for manifest in manifests for name, version in manifest["versions"].items()}
    return {
        "runs": len(manifests),
        "seconds in total": number(sum(manifest["elapsed_seconds"] for manifest in manifests)),
        "machine": "; ".join(sorted({manifest["machine"] for manifest in manifests})),
        "versions": ", ".join(sorted(versions)),
    }
