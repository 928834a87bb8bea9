"""Training pairs and their labels: one file for each source of labels, and what keeps evaluation sets out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
