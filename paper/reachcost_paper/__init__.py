"""The paper *World Model Control by Trajectory Reachability Metrics*, as a client of reachcost.

Its studies, the worlds of its audits, its figures and its published values.
"""

from reachcost.experiments.study import Tables


def studies() -> list[Tables]:
    """The studies of the paper, for the entry point `reachcost.studies`."""
    from reachcost_paper import figures, pusht, suite, toponav, tworoom

    return [tworoom.STUDY, toponav.STUDY, pusht.STUDY, suite.STUDY, figures.FIGURES]
