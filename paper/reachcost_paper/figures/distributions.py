"""How values are distributed, one line per cost; dashes tell the lines apart, so colour is not needed to read it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from reachcost.results.figures import COLOURS, new_figure, write_picture

STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))
TICKS = (0, 1, 3, 10, 30, 100)


def draw_distributions(values: Mapping[str, np.ndarray], path: Path, heading: str, unit: str) -> None:
    """Write a PNG of the share of values [N] of each name that are at most so large."""
    figure = new_figure(8.0, 5.2, heading)
    axes = figure.add_subplot()
    order = sorted(values, key=lambda name: values[name].mean())
    for name, shade, style in zip(order, cycle(COLOURS), cycle(STYLES), strict=False):
        draw_share(axes, values[name], f"{name} (mean {values[name].mean():.1f})", shade, style)
    finish(axes, unit)
    figure.legend(loc="outside right center", frameon=False)
    write_picture(figure, path)


def draw_share(axes: Axes, values: np.ndarray, label: str, colour: str, style: object) -> None:
    """The share of values [N] that are at most so large, in percent."""
    x = np.sort(values)
    share = 100 * np.arange(1, len(x) + 1) / len(x)
    axes.step([0, *x], [0, *share], where="post", color=colour, linestyle=style, linewidth=2, label=label)


def finish(axes: Axes, unit: str) -> None:
    """Axes for values from 0 to 100: good costs differ near zero, bad ones far from it."""
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    axes.set(xlabel=unit, ylabel="% of episodes with so few or fewer", ylim=(0, 101), xlim=(0, 100))
    axes.grid(color="0.9")
