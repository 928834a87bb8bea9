"""The suite: worlds of different structure, their lower and upper references, and whether the audit is right there."""

from reachcost_paper.suite.tables import STUDY

__all__ = ["STUDY"]
