"""What the paper prints for PushT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

OFFSET_25: dict[str, tuple[float, ...]] = {
    "raw": (88.0,),
    "task-state": (78.0,),
    "hybrid": (86.0,),
    "shuffled": (64.0,),
    "shuffled-hybrid": (84.0,),
}
"""Of the first evaluation seed."""
OFFSET_50: dict[str, tuple[float, ...]] = {
    "raw": (40.0, 38.0, 42.0),
    "task-state": (44.0, 40.0, 42.0),
    "hybrid": (60.0, 48.0, 50.0),
    "shuffled": (26.0, 28.0, 20.0),
    "shuffled-hybrid": (38.0, 40.0, 50.0),
}
"""By evaluation seed."""
OFFSET_50_MEANS = {cost: {"success": round(sum(values) / 3, 1)} for cost, values in OFFSET_50.items()}
SWEEP: dict[str, float] = {
    "raw": OFFSET_50_MEANS["raw"]["success"],
    "hybrid-0.25": 44.7,
    "hybrid-0.5": 46.7,
    "hybrid-0.75": 48.0,
    "hybrid": OFFSET_50_MEANS["hybrid"]["success"],
    "shuffled-hybrid-0.25": 42.7,
    "shuffled-hybrid-0.5": 38.7,
    "shuffled-hybrid-0.75": 42.7,
    "shuffled-hybrid": OFFSET_50_MEANS["shuffled-hybrid"]["success"],
}
"""Success at offset 50, by the weight of the head."""
SECOND_HEAD: dict[str, float] = {
    "hybrid-0.5": 48.0,
    "hybrid": 50.0,
    "shuffled-hybrid-0.5": 42.7,
    "shuffled-hybrid": 43.3,
}
"""The same with heads of another seed."""
OFFSET_75: dict[str, dict[str, float]] = {
    "raw": {"success": 16.0, "distance": 219.7, "final_success": 4.7},
    "hybrid-0.5": {"success": 20.7, "distance": 149.6, "final_success": 9.3},
    "hybrid": {"success": 22.0, "distance": 103.7, "final_success": 12.7},
    "shuffled-hybrid-0.5": {"success": 16.7, "distance": 215.9, "final_success": 6.7},
    "shuffled-hybrid": {"success": 17.3, "distance": 215.8, "final_success": 6.7},
}
SASC: dict[int, dict[str, dict[str, float]]] = {
    50: {
        "raw": {"rho_geo": 0.490, "rank": 20.41, "selected": 156.6},
        "task-state": {"rho_geo": 0.957, "rank": 2.08, "selected": 127.6},
        "hybrid-0.5": {"rho_geo": 0.703, "rank": 12.96, "selected": 144.8},
        "hybrid": {"rho_geo": 0.824, "rank": 8.37, "selected": 139.2},
        "shuffled": {"rho_geo": 0.071, "rank": 44.86, "selected": 175.8},
        "shuffled-hybrid-0.5": {"rho_geo": 0.438, "rank": 22.67, "selected": 156.7},
        "shuffled-hybrid": {"rho_geo": 0.343, "rank": 27.88, "selected": 159.3},
    },
    75: {
        "raw": {"rho_geo": 0.490, "rank": 25.73, "selected": 195.1},
        "task-state": {"rho_geo": 0.941, "rank": 3.29, "selected": 165.7},
        "hybrid-0.5": {"rho_geo": 0.696, "rank": 16.64, "selected": 184.0},
        "hybrid": {"rho_geo": 0.811, "rank": 11.07, "selected": 179.0},
        "shuffled": {"rho_geo": 0.118, "rank": 46.58, "selected": 216.7},
        "shuffled-hybrid-0.5": {"rho_geo": 0.444, "rank": 26.50, "selected": 198.3},
        "shuffled-hybrid": {"rho_geo": 0.350, "rank": 31.25, "selected": 198.8},
    },
}
"""By goal offset; 96 candidates."""
SELECTED: dict[int, dict[str, dict[str, float]]] = {
    50: {
        "raw": {"refined": 127.4, "pool_best": 103.7, "selected": 127.3, "selected_success": 16.7},
        "hybrid": {"refined": 75.3, "pool_best": 59.1, "selected": 75.3, "selected_success": 16.0},
        "shuffled-hybrid": {"refined": 137.8, "pool_best": 113.2, "selected": 137.8, "selected_success": 14.0},
    },
    75: {
        "raw": {"selected": 191.6, "selected_final": 4.0, "selected_success": 5.3, "rank": 45.24, "pool_best": 163.0},
        "hybrid": {"selected": 114.5, "selected_final": 4.0, "selected_success": 4.0, "rank": 34.63, "pool_best": 96.7},
        "shuffled-hybrid": {
            "selected": 183.4,
            "selected_final": 4.0,
            "selected_success": 4.0,
            "rank": 43.04,
            "pool_best": 158.3,
        },
    },
}
"""One plan of 64 candidates and 10 iterations from every start."""
FINAL_DISTANCE: dict[str, dict[str, float]] = {
    "raw": {"success": 42.0, "distance": 131.5, "median": 40.8, "final_success": 28.0},
    "hybrid": {"success": 60.0, "distance": 48.0, "median": 26.2, "final_success": 42.0},
    "shuffled-hybrid": {"success": 38.0, "distance": 154.9, "median": 50.9, "final_success": 30.0},
}
"""Offset 50, seed 3072."""


def means(offset: int) -> Mapping[str, Mapping[str, float]]:
    """What is printed of all three evaluation seeds."""
    return {50: OFFSET_50_MEANS, 75: OFFSET_75}.get(offset, {})


def by_seed(offset: int) -> Mapping[str, Sequence[float]]:
    """Success that is printed of evaluation seeds, from the first one on."""
    return {25: OFFSET_25, 50: OFFSET_50}.get(offset, {})


def difference(offset: int, cost: str, against: str) -> dict[str, float]:
    """Of two means that are printed, of the first evaluation seed where that is all; none of them is tested there."""
    known = means(offset) or {name: {"success": values[0]} for name, values in by_seed(offset).items()}
    mine, base = known[cost], known[against]
    return {metric: round(mine[metric] - base[metric], 1) for metric in mine if metric != "final_success"}
