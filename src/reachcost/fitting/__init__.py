"""Training heads: label sources for recipes, and the audit from logs; `rc.fit` and `rc.repair` are at the top level."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
