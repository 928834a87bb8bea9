"""Foundations: files, arrays, random streams, threads, progress, devices, trained modules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
