"""Training heads: `fit`, label choice, `repair`, the comparison with references, and the audit from logs."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
