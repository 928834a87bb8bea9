"""TwoRoom: the paper's main world, its control tables, audits and stress tests."""

from reachcost.studies.tworoom.tables import STUDY

__all__ = ["STUDY"]
