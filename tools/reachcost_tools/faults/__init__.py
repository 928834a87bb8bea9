"""Faults that are caused on purpose, counted by `make faults`."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
"""Directory of sweeps, a configuration and a script that faults use."""
