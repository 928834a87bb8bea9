"""The figures of the paper: panels of several studies, in the order of the studies."""

from functools import partial

from reachcost.experiments.study import FigurePlan, Tables
from reachcost_paper.panels import PanelPlan, write_figure
from reachcost_paper.pusht.figures import FIGURES as PUSHT
from reachcost_paper.toponav.figures import FIGURES as TOPONAV
from reachcost_paper.tworoom.figures import FIGURES as TWOROOM

PANELS: dict[str, list[PanelPlan]] = {}
for figures in (TWOROOM, TOPONAV, PUSHT):
    for name, panels in figures.items():
        PANELS.setdefault(name, []).extend(panels)

FIGURES = Tables(
    name="figures-of-the-paper",
    protocol=1,
    tables={},
    figures={
        name: FigurePlan(
            tuple(dict.fromkeys(table for panel in panels for table in panel.tables)),
            partial(write_figure, name, panels),
        )
        for name, panels in PANELS.items()
    },
)
