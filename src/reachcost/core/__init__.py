"""Foundations: files, arrays, random streams, threads, progress, devices, trained modules."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
