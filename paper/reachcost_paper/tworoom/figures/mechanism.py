"""Why the repair works on TwoRoom: two of 192 directions carry the decision, and times must reach far enough."""

from __future__ import annotations

from reachcost.results.figures import LOOKS
from reachcost_paper.figures.bars import Wanted, bar_panel
from reachcost_paper.tworoom.figures.control import BARS, SUCCESS, by_seed, each
from reachcost_paper.tworoom.settings import SEEDS

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
HORIZON = {"raw": "raw", "trm-paper": "TRM, whole\nepisodes", "trm-gap50": "TRM, gaps\nup to 50", "trm": "TRM,\nours"}
PARTS = {"full": "whole\ndifference", "rowspace": "its part in 2\ndirections", "residual": "its part in\nthe other 190"}
ISOTROPIC = (100 * 2 / 192, "all directions alike: 1.04 %")


def _shares(setting: str) -> list[Wanted]:
    return [{"cost": "rowspace", "setting": f"share of latent MSE, {setting}", "seed": seed} for seed in SEEDS]


def _parts(cost: str, part: str) -> list[Wanted]:
    return [{"cost": cost, "setting": f"{part} difference", "seed": seed} for seed in SEEDS]


FIGURES = {
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
}
