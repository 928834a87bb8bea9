"""Control and ranking on TwoRoom: success and ranks by cost, by world model, by part of the latent and by layout."""

from collections.abc import Mapping
from functools import partial

from matplotlib.axes import Axes

from reachcost.results.figures import Dot, draw_metric
from reachcost_paper.charts import LOOKS, Wanted, bar_panel, draw_share, log_axes
from reachcost_paper.panels import PanelPlan, Records
from reachcost_paper.tworoom.figures.diagrams import draw_method
from reachcost_paper.tworoom.figures.maps import draw_trace
from reachcost_paper.tworoom.settings import LEWM, SEEDS, SET

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
}
