"""The figures of the paper about TwoRoom: success, ranks and labels by cost, world model, part of a latent, layout."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Arc

from reachcost.results.figures import Dot, draw_metric
from reachcost_paper.charts import (
    BLUE,
    LOOKS,
    PAPER,
    SKY,
    VERMILLION,
    Look,
    Wanted,
    bar_of,
    bar_panel,
    draw_bars,
    draw_share,
    log_axes,
    tidy,
)
from reachcost_paper.panels import PanelPlan, Records
from reachcost_paper.tworoom.drawings import (
    draw_audit,
    draw_control,
    draw_latent_trace,
    draw_method,
    draw_routes,
    draw_trace,
)
from reachcost_paper.tworoom.labels import GAPS, SAMPLED
from reachcost_paper.tworoom.settings import ABLATION, LEWM, SEEDS, SET

FIRST = LEWM[0]
NAMES = {"lewm": "LeWM", "pldm": "PLDM"}
COSTS = {"raw": "raw", "trm-complete": "TRM,\npaper's", "trm": "TRM,\nours", "shuffled": "shuffled\nlabels"}
"""For single world models, and for PLDM, the paper prints its recipe on all logs."""
RANKED = ("raw", "shuffled", "trm-complete", "trm", "decoded-xy")
OUTCOMES = {
    "success": "success",
    "same": "same room",
    "cross": "cross wall",
    "wrong_room": "wrong room",
    "stuck": "stuck",
}
SUCCESS, RANK = "success, % of {} episodes", "rank of best candidate, % (n = {})"
BARS = f"bars: world models {', '.join(map(str, SEEDS))}"
SHARES = {"near": "near set", "far": "far set", "high-distance": "high-distance set"}
CONTROLLED = {
    "near set, 60–120 px": "distance-controlled set",
    "far set, 160–190 px": "distance-controlled set, far set",
}
"""The two readings of the paper's set, whose distances it does not print."""
SUBSPACE = {
    "raw": "raw",
    "rowspace": "2 directions\nof position",
    "residual": "the other\n190",
    "decoded-xy": "decoded\nposition",
}
HORIZON = {"raw": "raw", "trm-paper": "TRM, full\nepisodes", "trm-gap50": "TRM, gaps\nup to 50", "trm": "TRM,\nours"}
PARTS = {"full": "full\ndifference", "rowspace": "its part in 2\ndirections", "residual": "its part in\nthe other 190"}
ISOTROPIC = (100 * 2 / 192, "all directions alike: 1.04 %")
COVERED: dict[str, list[Wanted]] = {
    name: [{"cost": "geodesic-mlp", "setting": setting}]
    for setting, name in {
        "limited": "none near\nthe door",
        "balanced": "half near\nthe door",
        "mixed": "half across\nthe wall",
        "random": "random",
    }.items()
}
MOVED: dict[str, list[Wanted]] = {
    name: [{"cost": cost, "setting": setting} for cost in ("raw", "geodesic-mlp", "hybrid", "trm")]
    for setting, name in {
        "door 88": "door moved\nto 88 px",
        "door 150": "door moved\nto 150 px",
        "horizontal 88": "wall\nturned",
    }.items()
}


def each(costs: Mapping[str, str], **wanted: object) -> dict[str, list[Wanted]]:
    return {name: [{"cost": cost, **wanted}] for cost, name in costs.items()}


def by_seed(costs: Mapping[str, str], **wanted: object) -> dict[str, list[Wanted]]:
    return {name: [{"cost": cost, "seed": seed, **wanted} for seed in SEEDS] for cost, name in costs.items()}


def draw_ranks(axes: Axes, records: Records) -> None:
    """Rank of the truly best candidate of an episode by cost, one world model."""
    for cost in RANKED:
        ranks = records.run("sasc", f"*/sasc/{FIRST.label}-{SET}-{cost}").table()["rank"].to_numpy()
        row, look = records.row("sasc", cost=cost, seed=FIRST.seed), LOOKS[cost]
        paper = f", paper {row.paper['rank']:.1f}" if row.paper else ""
        draw_share(axes, ranks, f"{look.name}: mean {row.ours['rank']:.1f}{paper}", look.colour, look.dash)
    log_axes(axes, "candidates ranked before the truly best one, %")
    axes.set_ylabel(f"% of {records.row('sasc', cost='raw', seed=FIRST.seed).n} episodes, cumulative")


def draw_outcome(axes: Axes, records: Records, metric: str) -> None:
    """An outcome of every world model separately, with each cost."""
    rows = [row for kind in NAMES for cost in COSTS for row in records.rows("per-seed", model=kind, cost=cost)]
    dots = [
        Dot(
            f"{NAMES[row.model]} {row.seed}, {COSTS[row.cost]}".replace("\n", " "),
            row.model + row.cost,
            row.ours,
            row.interval,
            row.paper or {},
        )
        for row in rows
    ]
    draw_metric(axes, dots, metric, labelled=metric == "success")
    axes.set(
        xlim=(-8, 108), xticks=(0, 50, 100), xlabel=f"% of {rows[0].n // (2 if metric in ('same', 'cross') else 1)}"
    )


def _shares(setting: str) -> list[Wanted]:
    return [{"cost": "rowspace", "setting": f"share of latent MSE, {setting}", "seed": seed} for seed in SEEDS]


def _parts(cost: str, part: str) -> list[Wanted]:
    return [{"cost": cost, "setting": f"{part} difference", "seed": seed} for seed in SEEDS]


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
    "figure-overview": (
        PanelPlan("the failure, and the repair", draw_trace, ("trace",), width=3.5, height=3.5),
        PanelPlan("logged pairs train a head; all else stays", draw_method, width=6.0, height=3.5),
        bar_panel("control: mean of three LeWM", "high-distance", "success", SUCCESS, each(COSTS, model="lewm")),
        bar_panel(f"ranking: LeWM {FIRST.seed}", "sasc", "rank", RANK, each(COSTS, seed=FIRST.seed), None, digits=1),
    ),
    "figure-control-ranking": (
        bar_panel("success, LeWM", "per-seed", "success", SUCCESS, by_seed(COSTS, model="lewm"), note=BARS, height=3.7),
        PanelPlan(f"SASC, LeWM {FIRST.seed}", draw_ranks, ("sasc",), height=3.7),
    ),
    "figure-per-seed": tuple(
        PanelPlan(title, partial(draw_outcome, metric=metric), ("per-seed",), 3.1 if metric == "success" else 1.6, 5.2)
        for metric, title in OUTCOMES.items()
    ),
    "figure-evidence": tuple(
        bar_panel(f"TwoRoom, {name}", "high-distance", "success", SUCCESS, each(COSTS, model=kind), width=3.1)
        for kind, name in NAMES.items()
    ),
    "figure-mechanism": (
        bar_panel(
            "share of position's 2 directions",
            "subspace",
            "mse_share",
            "% of latent MSE (n = {})",
            {name: _shares(setting) for name, setting in SHARES.items()},
            None,
            reference=ISOTROPIC,
            note=BARS,
        ),
        *(
            bar_panel(name, "subspace", "success", SUCCESS, by_seed(SUBSPACE, setting=setting), note=BARS)
            for name, setting in CONTROLLED.items()
        ),
        bar_panel(
            "high-distance set, means", "subspace", "success", SUCCESS, each(SUBSPACE, setting="high-distance set")
        ),
    ),
    "figure-horizon": tuple(
        bar_panel(name, "horizon", "success", SUCCESS, by_seed(HORIZON, setting=setting), note=BARS)
        for name, setting in CONTROLLED.items()
    ),
    "figure-attribution": (
        bar_panel(
            "order of candidates, TRM, paper's",
            "attribution",
            "rho_geo",
            "ρ with true distance (n = {})",
            {name: _parts("trm-paper", part) for part, name in PARTS.items()},
            1,
            looks={PARTS[part]: LOOKS[part] for part in ("rowspace", "residual")},
            note=BARS,
        ),
        bar_panel(
            "gradient in position's 2 directions",
            "attribution",
            "gradient_share",
            "% of squared gradient (n = {})",
            {"TRM,\npaper's": _parts("trm-paper", "full"), "TRM,\nours": _parts("trm", "full")},
            None,
            reference=ISOTROPIC,
            note=BARS,
        ),
    ),
    "figure-coverage-layout": (
        bar_panel("states of training pairs: success", "coverage", "success", SUCCESS, COVERED),
        bar_panel("states of training pairs: ranking", "coverage", "rank", RANK, COVERED, None, digits=2),
        bar_panel("changed layouts: success", "layout", "success", SUCCESS, MOVED),
        bar_panel("changed layouts: ranking", "layout", "rank", RANK, MOVED),
    ),
    "figure-trace": (
        PanelPlan("one episode in the world", draw_trace, ("trace",), width=4.2, height=4.0),
        PanelPlan("the same in latent space, shared PCA", draw_latent_trace, ("trace",), height=4.0),
    ),
    "figure-task-suite": (PanelPlan("TwoRoom: by the door", draw_routes, ("trace",), width=3.1, height=3.5),),
    "figure-task-execution": (PanelPlan("TwoRoom: around the wall", draw_trace, ("trace",), width=4.2, height=4.0),),
    "figure-temporal-labels": (
        PanelPlan("every training pair", draw_labels, ("temporal-geodesic",), width=4.4, height=3.4),
        PanelPlan("correlation by kind of pair", draw_correlations, ("temporal-geodesic",), width=5.1, height=3.4),
    ),
    "figure-pair-sampling": (
        PanelPlan("pairs of one episode (scheme)", draw_pairs, width=4.2),
        PanelPlan("how far apart training pairs lie", draw_gaps, ("pair-sampling",)),
    ),
    "figure-interfaces": (
        PanelPlan("control: only the cost changes", draw_control, height=3.1),
        PanelPlan("SASC: all rank the same candidates", draw_audit, height=3.1),
    ),
}
