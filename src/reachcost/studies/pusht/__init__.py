"""PushT: the paper's contact-rich boundary task."""

from reachcost.studies.pusht.tables import STUDY

__all__ = ["STUDY"]
