"""What the paper prints for the audits of TwoRoom, by table."""

from __future__ import annotations


def _named(metrics: tuple[str, ...], values: tuple[float, ...]) -> dict[str, float]:
    return dict(zip(metrics, values, strict=True))


SASC = {
    cost: _named(("rho_euclid", "rho_geo", "rank"), values)
    for cost, values in {
        "raw": (0.021, 0.018, 31.71),
        "decoded-xy": (0.876, 0.860, 0.59),
        "trm-complete": (0.720, 0.729, 3.86),
        "shuffled": (0.105, 0.119, 34.00),
    }.items()
}
"""Seed 3072; the temporal head is that of the complete cache."""
STATISTICS = {
    "rho_geo": {"raw": (0.018, -0.053, 0.088), "trm": (0.729, 0.695, 0.759), "difference": (0.711, 0.644, 0.779)},
    "rank": {"raw": (31.71, 26.49, 37.11), "trm": (3.86, 2.37, 5.62), "difference": (-27.85, -33.63, -22.16)},
    "selected": {
        "raw": (168.81, 163.02, 174.64),
        "trm": (134.79, 130.41, 139.40),
        "difference": (-34.02, -39.40, -28.69),
    },
}
"""Mean and interval."""
SUCCESS_DIFFERENCES = (83.0, 91.0, 95.0)
"""TRM minus raw by seed, evaluation episodes excluded."""
SIGN_FLIP = 0.25
PROBE = {
    3072: {"rmse": 1.776, "r2": 0.99818},
    3073: {"rmse": 1.870, "r2": 0.99802},
    3074: {"rmse": 1.855, "r2": 0.99801},
}
"""Of rows that were held out."""
SUBSPACE = {
    "raw": (2.5, 2.5, 0.0),
    "decoded-xy": (95.0, 95.0, 92.5),
    "rowspace": (97.5, 92.5, 82.5),
    "residual": (2.5, 2.5, 0.0),
}
"""Success by seed on the distance-controlled set."""
MSE_SHARE = (0.006, 0.0069, 0.005)
"""Share of the squared latent difference in the rowspace, by seed, on the distance-controlled set."""
ATTRIBUTION: tuple[dict[str, dict[str, float]], ...] = (
    {
        "full": {"rho_geo": 0.615, "rank": 9.44, "gradient_share": 3.49},
        "rowspace": {"rho_geo": 0.569, "rank": 14.90},
        "residual": {"rho_geo": 0.587, "rank": 9.14},
    },
    {
        "full": {"rho_geo": 0.539, "rank": 5.23, "gradient_share": 4.64},
        "rowspace": {"rho_geo": 0.228, "rank": 43.04},
        "residual": {"rho_geo": 0.511, "rank": 6.15},
    },
    {
        "full": {"rho_geo": 0.583, "rank": 5.59, "gradient_share": 3.70},
        "rowspace": {"rho_geo": 0.325, "rank": 32.76},
        "residual": {"rho_geo": 0.559, "rank": 5.65},
    },
)
"""By seed."""
FEATURES = (
    ({"rho_geo": 0.006, "rank": 27.47}, {"rho_geo": -0.028, "rank": 36.80}, {"rho_geo": 0.074, "rank": 45.93}),
    ({"rho_geo": 0.037, "rank": 42.45}, {"rho_geo": 0.555, "rank": 8.27}, {"rho_geo": 0.086, "rank": 19.07}),
    ({"rho_geo": 0.615, "rank": 9.44}, {"rho_geo": 0.539, "rank": 5.23}, {"rho_geo": 0.583, "rank": 5.59}),
    ({"rho_geo": 0.738, "rank": 3.40}, {"rho_geo": 0.592, "rank": 3.33}, {"rho_geo": 0.686, "rank": 3.24}),
)
"""Absolute differences, both differences, all features, both orders averaged; by seed."""
SWAP = (
    {"swap_steps": 4.92, "swap_percent": 6.4},
    {"swap_steps": 6.13, "swap_percent": 7.7},
    {"swap_steps": 5.35, "swap_percent": 6.9},
)
"""Mean absolute difference between the two orders, in steps and in percent of the mean cost, by seed."""
TEMPORAL_GEODESIC = {
    "all": (100_000, 0.855, 0.883),
    "same room": (70_976, 0.829, 0.854),
    "across the wall": (29_024, 0.772, 0.779),
    "gap 1-10": (28_067, 0.653, 0.670),
    "gap 11-25": (23_777, 0.398, 0.388),
    "gap 26-50": (24_346, 0.387, 0.380),
    "gap 51-75": (14_774, 0.271, 0.266),
    "gap 76-100": (9_036, 0.203, 0.203),
}
"""Pairs, Pearson and Spearman correlation of logged gaps with the geodesic distance.

What it calls "doorway required" is every pair that is not "same room": the two add up to all pairs.
"""
COVERAGE: dict[str, dict[str, float]] = {
    "limited": {"success": 0.0, "rank": 34.62, "distance": 124.36, "cross_pairs": 49.8, "near_pairs": 0.0},
    "balanced": {"success": 100.0, "rank": 0.49, "distance": 9.61, "cross_pairs": 50.0, "near_pairs": 50.0},
    "mixed": {"success": 100.0, "rank": 0.43, "cross_pairs": 50.0},
    "random": {"success": 100.0, "rank": 0.45, "cross_pairs": 50.0},
}
"""Geodesic heads, seed 3072."""
LAYOUT = {
    key: _named(("success", "rho_geo", "rank", "distance"), values)
    for key, values in {
        ("door 88", "raw"): (7.0, 0.130, 40.46, 128.04),
        ("door 88", "geodesic-mlp"): (70.0, 0.777, 10.11, 26.08),
        ("door 88", "geodesic-hybrid"): (20.0, 0.571, 13.81, 79.60),
        ("door 150", "raw"): (4.0, 0.016, 51.28, 109.94),
        ("door 150", "geodesic-mlp"): (44.0, 0.461, 27.11, 41.11),
        ("door 150", "geodesic-hybrid"): (20.0, 0.317, 30.95, 73.07),
        ("horizontal 88", "raw"): (0.0, 0.052, 47.96, 124.53),
        ("horizontal 88", "geodesic-mlp"): (0.0, 0.124, 70.32, 126.64),
        ("horizontal 88", "geodesic-hybrid"): (0.0, 0.108, 60.90, 123.04),
    }.items()
}
"""By layout and cost, seed 3072."""
