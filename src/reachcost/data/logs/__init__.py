"""Logged episodes: in memory, and on disk in the HDF5 layout of stable-worldmodel."""

from reachcost.data.logs.episodes import Logs

__all__ = ["Logs"]
