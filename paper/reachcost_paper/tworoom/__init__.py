"""TwoRoom: the paper's main world, its control tables, audits and stress tests."""

from reachcost_paper.tworoom.tables import STUDY

__all__ = ["STUDY"]
