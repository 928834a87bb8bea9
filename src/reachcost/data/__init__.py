"""Logs, observations, latents, action blocks, evaluation sets: what heads, audits and planners work on."""

from reachcost.core.lazy import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
