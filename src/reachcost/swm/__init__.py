"""A repaired cost for stable-worldmodel: an objective for its git main, a model wrapper for its release 0.1.1.

Only `evaluation` imports that package, when it is called.
"""

from reachcost.swm.models import FromLogs, ReachObjective, RepairedModel, Standardiser, SwmModel

__all__ = ["FromLogs", "ReachObjective", "RepairedModel", "Standardiser", "SwmModel"]
