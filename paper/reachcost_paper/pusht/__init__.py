"""PushT: the paper's contact-rich boundary task."""

from reachcost_paper.pusht.tables import STUDY

__all__ = ["STUDY"]
