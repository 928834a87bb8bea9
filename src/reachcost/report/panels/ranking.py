"""SASC: where costs put the truly best of the same candidates."""

from __future__ import annotations

import numpy as np

from reachcost.report.charts import axis, beeswarm, inset, towards_zero
from reachcost.report.html import Markup, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import cannot, colour_of, number, scrolled_table, section, valued

TICKS = (0, 1, 3, 10, 30, 100)
SCALE = inset(towards_zero(100))
HEADINGS = (("cost", "wide"), ("mean %", "number"))
DOTS = 200


def ranking(material: Material) -> Markup:
    """The panel."""
    if not material.ranks:
        why = (
            "No single ranking is among these records, though tables may hold means of some: reachcost audit --task "
            "with criteria ranks candidates, as does rc.sasc."
        )
        return cannot("ranking", "Does the cost put good candidates first?", why)
    order = list(material.ranks)
    rows = [_row(name, material.ranks[name], colour_of(name, order)) for name in order]
    below = axis(
        SCALE, TICKS, "% of candidates put before the truly best one (0 is perfect; the scale is wider near 0)"
    )
    last = tag("tr", tag("td", below), tag("td"), class_="axis-row")
    lead = (
        "Every cost scores the same candidate action sequences, which are then executed. A dot is an episode: how many "
        "candidates the cost puts before the one that really ends nearest to the goal. The box holds half of the "
        "episodes, the line is the median."
    )
    card = tag("div", scrolled_table("ranks of the best candidate", HEADINGS, [*rows, last], "bars"), class_="card")
    notes = [tag("p", text, class_="soft small") for text in material.unranked]
    return section("ranking", "Does the cost put good candidates first?", card, *notes, lead=lead)


def _row(name: str, ranks: np.ndarray, kind: str) -> Markup:
    shown = ranks if len(ranks) <= DOTS else np.sort(ranks)[np.linspace(0, len(ranks) - 1, DOTS).astype(int)]
    value = valued(number(ranks.mean()), f"median {number(float(np.median(ranks)))}", f"n {len(ranks)}")
    perfect = int((ranks == 0).sum())  # their dots lie on each other
    at_zero = tag("span", f" {perfect} of {len(ranks)} at 0", class_="soft small") if perfect else None
    return tag("tr", tag("th", tag("code", name), at_zero, beeswarm(SCALE, shown, kind), scope="row"), value)
