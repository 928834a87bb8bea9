"""From logs to a head: label sources, one file each, the exclusion of evaluation sets, one training loop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
