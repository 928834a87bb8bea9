"""Plug a repaired cost into stable-worldmodel: an objective for its git main, a model wrapper for its release 0.1.1.

Both sides meet in plain dictionaries of tensors, so planning with a repaired cost imports nothing of that package here.
"""

from reachcost.swm.comparison import compare_in_world
from reachcost.swm.costs import ReachObjective, RepairedModel
from reachcost.swm.evaluation import Standardiser, evaluate_in_world, goals_dataset
from reachcost.swm.model import SwmModel

__all__ = [
    "ReachObjective",
    "RepairedModel",
    "Standardiser",
    "SwmModel",
    "compare_in_world",
    "evaluate_in_world",
    "goals_dataset",
]
