"""Small worlds of different structure, with planners and faults, to test audits and label sources on."""

from reachcost_paper.worlds.suite import World, suite

__all__ = ["World", "suite"]
