"""Logged times of recorded pairs: their correlation with true distances, and their range."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Arc

from reachcost_paper.charts import BLUE, LOOKS, PAPER, SKY, VERMILLION, Look, bar_of, draw_bars, tidy
from reachcost_paper.panels import PanelPlan, Records
from reachcost_paper.tworoom.labels import GAPS, SAMPLED
from reachcost_paper.tworoom.settings import ABLATION, LEWM

CORRELATIONS = {"pearson": Look("Pearson", BLUE), "spearman": Look("Spearman", SKY, "xxx")}
EPISODE = 63
"""Steps of a typical episode."""
EXAMPLES = {"trm-paper": ((2, 61), (12, 35), (42, 47)), "trm-gap50": ((7, 51), (18, 31), (54, 58))}
"""Pairs of steps."""


def draw_labels(axes: Axes, records: Records) -> None:
    """Every recorded pair by its gap and its true distance, and the median distance of each gap."""
    table = records.run("temporal-geodesic", "*/labels/*").table()
    gap, distance = table["gap"].to_numpy(), table["distance"].to_numpy()
    cells = axes.hexbin(gap, distance, gridsize=45, bins="log", cmap="cividis", mincnt=1, linewidths=0, rasterized=True)
    axes.figure.colorbar(cells, ax=axes, label=f"pairs in a cell, of {len(gap):,}", pad=0.02)
    steps = np.arange(1, gap.max() + 1)
    median = [np.median(distance[gap == step]) for step in steps]
    axes.plot(steps, median, color="white", linewidth=3.2)
    axes.plot(steps, median, color=VERMILLION, linewidth=1.6, label="median distance")
    axes.set(xlabel="label: steps between the two states", ylabel="true (geodesic) distance, px")
    axes.legend(loc="upper left")


def draw_correlations(axes: Axes, records: Records) -> None:
    groups = {}
    for row in records.rows("temporal-geodesic"):
        name = row.setting.removeprefix("gap ").replace("-", "–").replace("the ", "").replace(" ", "\n")
        groups[name] = [bar_of(row, metric, look) for metric, look in CORRELATIONS.items()]
    draw_bars(axes, groups, "correlation with the true distance", 1)
    axes.set_xlabel("pairs: all, by room, by steps between them")
    axes.tick_params(axis="x", labelsize=8)


def draw_pairs(axes: Axes, records: Records) -> None:
    """Pairs of one episode that may be sampled, as a scheme."""
    for cost, begin in zip(SAMPLED, (0, 180), strict=True):
        look = LOOKS[cost]
        for first, second in EXAMPLES[cost]:
            middle, width = ((first + second) / 2, 0), second - first
            arc = Arc(middle, width, 0.7 * width, theta1=begin, theta2=begin + 180)
            arc.set(edgecolor=look.colour, linestyle=look.dash, linewidth=2)
            axes.add_patch(arc)
            axes.plot((first, second), (0, 0), "o", color=look.colour, markeredgecolor="black", markersize=6, zorder=3)
    axes.plot((0, EPISODE), (0, 0), color="black", linewidth=1.2, zorder=1)
    axes.text(EPISODE / 2, 24, "full episode: any two states", ha="center", fontsize=8.5)
    short = f"short: at most {ABLATION['trm-gap50'].max_gap} steps apart"
    axes.text(EPISODE / 2, -24, short, ha="center", va="top", fontsize=8.5)
    axes.set(xlabel="step of one logged episode", xlim=(-2, EPISODE + 2), ylim=(-30, 30), yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_gaps(axes: Axes, records: Records) -> None:
    """Histogram of the gaps of training pairs; the paper's shares of bands are spread over their steps."""
    for cost in SAMPLED:
        table, look = records.run("pair-sampling", f"*/gaps/{LEWM[0].label}-{cost}").table(), LOOKS[cost]
        gap, pairs = table["gap"].to_numpy()[1:], table["pairs"].to_numpy()[1:]
        style = {"color": look.colour, "linestyle": look.dash, "linewidth": 2}
        axes.step(gap, 100 * pairs / pairs.sum(), where="mid", **style, label=look.name)
    row = records.row("pair-sampling", cost="trm-paper")
    for name, value in (row.paper or {}).items():
        low, high = GAPS[name]
        axes.plot((low + high) / 2, value / (high - low + 1), **PAPER, markersize=6, label="paper, mean of a band")
    axes.set(xlabel="steps between the two states", ylabel=f"% of {row.n:,} pairs", xlim=(0, 101), ylim=(0, None))
    tidy(axes)


FIGURES = {
    "figure-temporal-labels": (
        PanelPlan("every training pair", draw_labels, ("temporal-geodesic",), width=4.4, height=3.4),
        PanelPlan("correlation by kind of pair", draw_correlations, ("temporal-geodesic",), width=5.1, height=3.4),
    ),
    "figure-pair-sampling": (
        PanelPlan("pairs of one episode (scheme)", draw_pairs, width=4.2),
        PanelPlan("how far apart training pairs lie", draw_gaps, ("pair-sampling",)),
    ),
}
