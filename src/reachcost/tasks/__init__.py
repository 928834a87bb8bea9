"""Simulated worlds: the `Task` contract, tasks of Gymnasium environments, and the bundled worlds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
