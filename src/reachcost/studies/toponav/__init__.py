"""TopoNav: the paper's diagnostic with exact dynamics."""

from reachcost.studies.toponav.tables import STUDY

__all__ = ["STUDY"]
