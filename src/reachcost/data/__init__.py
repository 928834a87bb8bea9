"""Logs, observations, latents, action blocks, evaluation sets: what heads, audits and planners work on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
