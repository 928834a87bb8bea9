"""Simulated worlds, a folder each: batched simulator, renderer, oracle distance, evaluation sets, categories."""

from reachcost.tasks.registry import make_task

__all__ = ["make_task"]
