"""Small worlds of different structure, with all that a planner needs and ways to break it: what audits are tried on."""

from reachcost_paper.worlds.suite import suite
from reachcost_paper.worlds.world import World

__all__ = ["World", "suite"]
