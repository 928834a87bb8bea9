"""The figures of the paper about TwoRoom, a file a question."""

from reachcost_paper.tworoom.figures import control, diagrams, labels, maps, mechanism, stress

FIGURES = {
    name: panels
    for part in (control, maps, mechanism, labels, stress, diagrams)
    for name, panels in part.FIGURES.items()
}
