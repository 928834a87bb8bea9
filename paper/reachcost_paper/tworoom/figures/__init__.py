"""The figures of the paper about TwoRoom."""

from reachcost_paper.tworoom.figures import bars, diagrams, labels, maps

FIGURES = {name: panels for part in (bars, maps, labels, diagrams) for name, panels in part.FIGURES.items()}
