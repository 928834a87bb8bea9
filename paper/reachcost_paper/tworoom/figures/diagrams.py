"""Who passes what on to whom: the method, the controller and the audit of the paper, with the sizes of TwoRoom."""

from __future__ import annotations

from matplotlib.axes import Axes

from reachcost.planning.cem import CEM
from reachcost.results.figures import PanelPlan
from reachcost.results.tables import Records
from reachcost_paper.figures.diagram import FROZEN, LEARNED, Box, draw_diagram
from reachcost_paper.tworoom.settings import PAPER_HEAD, POOLS

SEARCH = CEM()
SHEET = (9.8, 5.4)


def draw_method(axes: Axes, records: Records) -> None:
    """From logged pairs to a terminal cost."""
    boxes = {
        "logs": Box("logged\nepisodes", 1.2, 0.7, 1.9, 1.1),
        "pairs": Box(f"{PAPER_HEAD.pairs:,} pairs of one\nepisode, label: steps\nbetween them", 4.3, 0.7, 3.1, 1.3),
        "head": Box("head m(z, g)\npredicts the steps", 8.1, 0.7, 3.1, 1.1, LEARNED),
        "candidates": Box("candidate\nactions", 1.2, 2.9, 1.9, 1.1, FROZEN),
        "model": Box("world model predicts\nwhere they end: z", 4.3, 2.9, 3.1, 1.1, FROZEN),
        "cost": Box("terminal cost m(z, g)\nranks candidates", 8.1, 2.9, 3.1, 1.1, LEARNED),
        "goal": Box("encoded goal: g", 8.1, 4.8, 3.1, 0.9, FROZEN),
    }
    arrows = [("logs", "pairs"), ("pairs", "head"), ("candidates", "model"), ("model", "cost"), ("head", "cost")]
    draw_diagram(axes, boxes, [*arrows, ("goal", "cost")], (9.8, 5.4))


def draw_control(axes: Axes, records: Records) -> None:
    """The closed loop: only the terminal cost is exchanged."""
    search = (
        f"CEM: {SEARCH.candidates} candidates, {SEARCH.iterations} rounds,\n{SEARCH.elites} elites, executes their mean"
    )
    boxes = {
        "pairs": Box("logged\npairs", 5.9, 0.7, 2.1, 1.0),
        "head": Box("head", 8.6, 0.7, 2.1, 1.0, LEARNED),
        "frames": Box("frame,\ngoal frame", 1.1, 2.7, 1.8, 1.0),
        "encoder": Box("encoder", 3.5, 2.7, 1.7, 1.0, FROZEN),
        "model": Box(f"latent rollout,\n{SEARCH.horizon} blocks", 5.9, 2.7, 2.1, 1.0, FROZEN),
        "cost": Box("terminal cost", 8.6, 2.7, 2.1, 1.0, LEARNED),
        "world": Box("world", 1.1, 4.7, 1.8, 1.0),
        "search": Box(search, 7.1, 4.7, 5.1, 1.0, FROZEN),
    }
    arrows = [("pairs", "head"), ("head", "cost"), ("frames", "encoder"), ("encoder", "model"), ("model", "cost")]
    arrows += [("cost", "search"), ("search", "model"), ("search", "world"), ("world", "frames")]
    draw_diagram(axes, boxes, arrows, SHEET)


def draw_audit(axes: Axes, records: Records) -> None:
    """SASC: every cost scores the same candidates."""
    boxes = {
        "pool": Box(f"one pool of {POOLS.candidates}\ncandidates\nan episode", 1.5, 1.4, 2.6, 1.3, FROZEN),
        "model": Box("latent\nrollout", 4.7, 1.4, 1.9, 1.3, FROZEN),
        "cost": Box("every terminal\ncost scores\nthe same ends", 8.2, 1.4, 2.6, 1.3, LEARNED),
        "world": Box("simulator\nexecutes each", 1.5, 4.0, 2.6, 1.1),
        "compare": Box(
            "rank correlation, rank of the truly\nbest one, distance of the selected one", 6.6, 4.0, 5.8, 1.1
        ),
    }
    arrows = [("pool", "model"), ("pool", "world"), ("model", "cost"), ("world", "compare"), ("cost", "compare")]
    draw_diagram(axes, boxes, arrows, SHEET)


FIGURES = {
    "figure-interfaces": (
        PanelPlan("control: only the cost changes", draw_control, height=3.1),
        PanelPlan("SASC: all rank the same candidates", draw_audit, height=3.1),
    ),
}
