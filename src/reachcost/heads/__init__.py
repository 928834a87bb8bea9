"""Heads: learned functions of two latents, and the recipes that build and train them."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
