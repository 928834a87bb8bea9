"""Terminal costs: rules that assign a cost to every candidate.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S].
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
