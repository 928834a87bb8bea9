"""Plug a repaired cost into stable-worldmodel: an objective for its git main, a model wrapper for its release 0.1.1.

Nothing here imports that package: both sides meet in plain dictionaries of tensors.
"""

from reachcost.swm.costs import ReachObjective, RepairedModel
from reachcost.swm.model import SwmModel

__all__ = ["ReachObjective", "RepairedModel", "SwmModel"]
