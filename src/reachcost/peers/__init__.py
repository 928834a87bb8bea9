"""What other methods train on the same latents: QRL, HILP, reachability within budgets, inverse dynamics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
