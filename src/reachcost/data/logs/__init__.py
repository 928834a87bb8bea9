"""Logged episodes: in memory, and on disk in the layouts that people have."""

from reachcost.data.logs.episodes import Logs

__all__ = ["Logs"]
