"""Terminal costs: rules that assign a cost to every candidate.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S].
"""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
