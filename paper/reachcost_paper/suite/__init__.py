"""The suite: worlds of different structure, their floors and ceilings, and whether the audit is right in them."""

from reachcost_paper.suite.tables import STUDY

__all__ = ["STUDY"]
