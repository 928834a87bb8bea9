"""Training pairs and their labels: one file for each source of labels, and what keeps evaluation sets out."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
