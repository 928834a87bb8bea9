"""Every stage of the planner against its threshold."""

from __future__ import annotations

from reachcost.audits.criteria import Criterion
from reachcost.audits.planner import Audit
from reachcost.audits.show import notes
from reachcost.audits.stage import Stage
from reachcost.audits.verdict import NOTHING
from reachcost.report.charts import Scale, bullet, linear
from reachcost.report.html import Markup, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import cannot, number, scrolled_table, section, span, valued

HEADINGS = (("stage", "wide"), ("value, 95 %", "number"))
BADGES = {"pass": "good", "survives": "good", "fail": "bad", "refuted": "bad"}


def stages(material: Material) -> Markup:
    """The panel: one table an audit."""
    if not material.audits:
        why = "Nothing was audited here: reachcost audit measures each stage with the others out of the way."
        return cannot("stages", "Which stage is at fault", why)
    lead = "Each stage is measured with the others out of the way. The line across a bar is where passing begins."
    cards = [tag("div", *_audit(name, audit), class_="card stack") for name, audit in material.audits.items()]
    return section("stages", "Which stage is at fault", *cards, lead=lead)


def _audit(name: str, audit: Audit) -> list[Markup | None]:
    goals, episodes = audit.settings.get("evaluation_set"), audit.settings.get("episodes")
    judged = f"Evaluated on {episodes} episodes of {goals}." if goals else "Evaluated on logs alone."
    items = [tag("li", text) for text in notes(audit)]
    return [
        tag("h3", name, " ", _badge(f"verdict: {audit.verdict}", "good" if audit.verdict == NOTHING else "bad")),
        tag("p", judged, class_="soft"),
        scrolled_table(f"stages of {name}", HEADINGS, map(_row, audit.stages), "bars"),
        tag("ul", *items, class_="soft small") if items else None,
        _criteria(audit.criteria),
    ]


def _row(stage: Stage) -> Markup:
    words = [tag("strong", stage.name), " ", _badge(stage.outcome, BADGES.get(stage.outcome, ""))]
    if stage.value is None:
        return tag("tr", tag("th", *words, _below(stage.advice), scope="row"), valued("–"))
    passes = f"{stage.measured}, passes at {'≥' if stage.higher else '≤'} {number(stage.threshold)}"
    words += [_below(stage.advice)] * (stage.outcome == "unknown")
    drawn = bullet(_scale(stage), stage.value, stage.interval, _kind(stage), stage.threshold)
    value = valued(number(stage.value), span(stage.interval), f"n {stage.n}" if stage.n > 1 else "")
    return tag("tr", tag("th", *words, _below(passes), drawn, scope="row"), value)


def _below(text: str) -> Markup:
    return tag("span", text, class_="soft small block")


def _scale(stage: Stage) -> Scale:
    seen = [stage.threshold, stage.value or 0.0, *(stage.interval or ())]
    top = 100.0 if stage.measured.startswith("%") else 1.0
    return linear(min(0.0, *(1.2 * one for one in seen)), max(top, *seen))  # below 0 with room for a line


def _kind(stage: Stage) -> str:
    return {"pass": "good", "fail": "bad"}.get(stage.outcome, "plain")


def _badge(text: str, kind: str) -> Markup:
    return tag("span", text, class_=f"badge {kind}")


def _criteria(criteria: tuple[Criterion, ...]) -> Markup | None:
    if not criteria:
        return None
    items = [
        tag("li", _badge(one.outcome, BADGES.get(one.outcome, "")), " ", one.claim, _below(one.evidence))
        for one in criteria
    ]
    return tag("details", tag("summary", "The paper's falsification criteria"), tag("ul", *items, class_="plain stack"))
