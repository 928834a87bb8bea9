"""TopoNav: the paper's grid of three rooms, with exact dynamics."""

from reachcost.tasks.toponav.task import TopoNav

__all__ = ["TopoNav"]
