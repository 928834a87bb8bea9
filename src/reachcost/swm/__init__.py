"""Plug a repaired cost into stable-worldmodel: an objective for its git main, a model wrapper for its release 0.1.1.

Both sides meet in plain dictionaries of tensors: nothing here imports that package. `evaluation` and `comparison` run
its worlds, and import it when they are called.
"""

from reachcost.swm.costs import ReachObjective, RepairedModel
from reachcost.swm.experience import FromLogs
from reachcost.swm.model import Standardiser, SwmModel

__all__ = ["FromLogs", "ReachObjective", "RepairedModel", "Standardiser", "SwmModel"]
