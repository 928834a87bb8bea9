"""What the paper prints for TopoNav."""

from __future__ import annotations

METRICS = ("success", "rho_geo", "rank", "final_geo")
RESULTS: dict[str, dict[str, float]] = {
    "raw": {"success": 15.0, "rho_geo": 0.496, "rank": 45.03, "final_geo": 36.18},
    "trm-paper": {"success": 87.5, "rho_geo": 0.848, "rank": 1.29, "final_geo": 3.01},
    "shuffled": {"success": 1.1, "rho_geo": -0.012, "rank": 51.45, "final_geo": 42.35},
    "oracle": {"success": 95.6, "rho_geo": 1.000, "rank": 0.00, "final_geo": 0.08},
}
"""Means over head seeds."""
DIFFERENCE = {"success": 72.5, "p_value": 0.25}
"""Temporal TRM minus raw: mean, and p of the sign-flip test."""
DIFFERENCES = (69.17, 71.67, 76.67)
"""The same by head seed."""
