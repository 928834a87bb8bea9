"""What everything else stands on: files in one step, seeds, threads, progress, hashes, devices."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
