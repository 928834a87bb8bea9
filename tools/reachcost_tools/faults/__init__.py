"""Faults that `make faults` causes on purpose, and whose outcomes it counts."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
"""Directory of sweeps, a configuration and a script that faults use."""
