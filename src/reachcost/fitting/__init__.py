"""Training heads: `fit`, label choice, `repair`, the comparison with references, and the audit from logs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
