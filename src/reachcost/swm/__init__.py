"""A repaired cost for stable-worldmodel: an objective for its git main, a model wrapper for its release 0.1.1.

Only `evaluation` imports that package, when it is called.
"""

from reachcost.swm.costs import FromLogs, ReachObjective, RepairedModel
from reachcost.swm.model import Standardiser, SwmModel

__all__ = ["FromLogs", "ReachObjective", "RepairedModel", "Standardiser", "SwmModel"]
