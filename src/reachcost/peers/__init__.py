"""What other methods train on the same latents: QRL, HILP, reachability within budgets, inverse dynamics."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
