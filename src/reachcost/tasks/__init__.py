"""Simulated worlds, a folder each: batched simulator, renderer, oracle distance, evaluation sets, categories."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
