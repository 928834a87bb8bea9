"""What the paper prints for TwoRoom control, by table.

It excludes evaluation episodes in one audit, of LeWM on the high-distance set. Its PLDM heads stand in the table of the
complete cache, so they stand beside ours of the complete cache here.
"""

from __future__ import annotations

OUTCOMES = ("success", "same", "cross", "wrong_room", "stuck")
RANKING = ("success", "rho_geo", "rank", "distance")


def _named(metrics: tuple[str, ...], *values: float) -> dict[str, float]:
    return dict(zip(metrics, values, strict=True))


HIGH_DISTANCE = {
    ("lewm", "raw"): _named(OUTCOMES, 7.0, 10.0, 4.0, 45.3, 10.3),
    ("lewm", "trm-complete"): _named(OUTCOMES, 97.0, 95.3, 98.7, 0.0, 0.3),
    ("lewm", "trm-paper"): _named(OUTCOMES, 96.7, 98.7, 94.7, 2.0, 0.3),
    ("lewm", "shuffled"): _named(OUTCOMES, 0.0, 0.0, 0.0, 46.0, 8.7),
    ("pldm", "raw"): _named(OUTCOMES, 32.7, 4.0, 61.3, 12.7, 14.0),
    ("pldm", "trm-complete"): _named(OUTCOMES, 84.0, 79.3, 88.7, 3.0, 2.0),
    ("pldm", "shuffled"): _named(OUTCOMES, 0.0, 0.0, 0.0, 50.0, 2.7),
}
PER_SEED = {
    ("lewm", "raw"): (
        _named(OUTCOMES, 16.0, 26.0, 6.0, 44.0, 14.0),
        _named(OUTCOMES, 5.0, 4.0, 6.0, 45.0, 12.0),
        _named(OUTCOMES, 0.0, 0.0, 0.0, 47.0, 5.0),
    ),
    ("lewm", "trm-complete"): (
        _named(OUTCOMES, 99.0, 100.0, 98.0, 0.0, 1.0),
        _named(OUTCOMES, 99.0, 100.0, 98.0, 0.0, 0.0),
        _named(OUTCOMES, 93.0, 86.0, 100.0, 0.0, 0.0),
    ),
    ("lewm", "shuffled"): (
        _named(OUTCOMES, 0.0, 0.0, 0.0, 39.0, 15.0),
        _named(OUTCOMES, 0.0, 0.0, 0.0, 49.0, 11.0),
        _named(OUTCOMES, 0.0, 0.0, 0.0, 50.0, 0.0),
    ),
    ("pldm", "raw"): (
        _named(OUTCOMES, 29.0, 4.0, 54.0, 17.0, 2.0),
        _named(OUTCOMES, 34.0, 0.0, 68.0, 12.0, 15.0),
        _named(OUTCOMES, 35.0, 8.0, 62.0, 9.0, 25.0),
    ),
    ("pldm", "trm-complete"): (
        _named(OUTCOMES, 74.0, 58.0, 90.0, 1.0, 2.0),
        _named(OUTCOMES, 85.0, 90.0, 80.0, 8.0, 2.0),
        _named(OUTCOMES, 93.0, 90.0, 96.0, 0.0, 2.0),
    ),
    ("pldm", "shuffled"): (
        _named(OUTCOMES, 0.0, 0.0, 0.0, 50.0, 0.0),
        _named(OUTCOMES, 0.0, 0.0, 0.0, 50.0, 0.0),
        _named(OUTCOMES, 0.0, 0.0, 0.0, 50.0, 8.0),
    ),
}
EXCLUSION = {
    "raw": _named(RANKING, 7.0, 0.007, 38.95, 139.72),
    "trm-paper": _named(RANKING, 96.7, 0.577, 5.53, 10.68),
    "shuffled": _named(RANKING, 0.0, 0.003, 56.63, 150.55),
}
EXCLUSION_CHECK = {
    "trm-paper": ((164783, 0, 0, 13.50), (164895, 0, 0, 13.43), (164675, 0, 0, 13.38)),
    "shuffled": ((164783, 0, 0, 26.47), (164895, 0, 0, 26.52), (164675, 0, 0, 26.24)),
}
"""Rows that pairs use, row and episode overlap, validation RMSE, by seed."""
BASELINES = {
    "raw": _named(RANKING, 7.0, 0.007, 38.95, 139.72),
    "standardized-l2": _named(RANKING, 3.3, 0.007, 40.34, 147.59),
    "linear": _named(RANKING, 15.3, 0.354, 17.81, 88.75),
    "mahalanobis": _named(RANKING, 21.3, 0.279, 18.93, 99.37),
    "decoded-geodesic": _named(RANKING, 93.3, 0.857, 0.56, 10.90),
    "trm-complete": _named(RANKING, 97.0, 0.678, 3.79, 7.85),
    "geodesic-mlp": _named(RANKING, 99.3, 0.908, 0.45, 7.61),
    "geodesic-ranking": _named(RANKING, 95.7, 0.839, 0.70, 9.22),
    "shuffled": _named(RANKING, 0.0, 0.053, 44.10, 138.86),
    "oracle": _named(RANKING, 100.0, 1.000, 0.00, 5.74),
}
HORIZON = {"raw": (2.5, 2.5, 0.0), "trm-paper": (97.5, 100.0, 95.0), "trm-gap50": (35.0, 42.5, 32.5)}
"""Success by seed on the distance-controlled set."""
TEMPORAL_ABLATION = {
    "random, 5k rows, 20k pairs": 17.5,
    "random, 10k rows, 20k pairs": 25.0,
    "random, 20k rows, 20k pairs": 35.0,
    "random, 20k rows, 100k pairs": 42.5,
    "random, 100k rows, 20k pairs": 62.5,
    "random, 100k rows, 100k pairs": 90.0,
    "balanced, 20k pairs": 80.0,
    "balanced, 100k pairs": 97.5,
    "balanced, 20k pairs, gaps to 50": 5.0,
    "balanced, 100k pairs, gaps to 50": 35.0,
}
"""Success of seed 3072 on the distance-controlled set."""
BALANCED_AND_CONTROLLED = {
    ("lewm", "B50"): (55.0, 57.5, 52.5),
    ("lewm", "B150"): (60.0, 60.0, 57.5),
    ("lewm", "D50"): (2.5, 2.5, 0.0),
    ("lewm", "D150"): (17.5, 7.5, 5.0),
    ("pldm", "B50"): (65.0, 67.5, 67.5),
    ("pldm", "B150"): (75.0, 77.5, 77.5),
    ("pldm", "D50"): (15.0, 17.5, 25.0),
    ("pldm", "D150"): (27.5, 27.5, 32.5),
}
"""Success of latent MSE by seed."""
SOLVER_BUDGET = {"300 x 10, 30 elites": (2.5, 5.0, 0.0), "1000 x 20, 100 elites": (2.5, 0.0, 5.0)}
"""Success, same room and cross wall of latent MSE, seed 3072, on the distance-controlled set."""
