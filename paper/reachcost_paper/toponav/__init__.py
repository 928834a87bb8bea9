"""TopoNav: the paper's diagnostic with exact dynamics."""

from reachcost_paper.toponav.tables import STUDY

__all__ = ["STUDY"]
