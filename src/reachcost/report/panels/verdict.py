"""What was found, in one sentence, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from reachcost.audits.planner import CANNOT_TELL, Audit
from reachcost.audits.show import explained
from reachcost.audits.subject import RAW
from reachcost.pages.html import Markup, joined, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import number, share, shares
from reachcost.report.panels.success import BOUNDS, Line, success_lines

LEAD = (
    "A planner imagines where candidate action sequences end, and executes the one whose end costs least. Only that "
    "terminal cost differs here: same world model, same planner, same episodes."
)


def headline(material: Material) -> Markup:
    """The large sentence, what was compared, and what comes next."""
    lines = next(iter(success_lines(material).values()), [])
    pair = repair(lines)
    audits = list(material.audits.values())
    title = _finding(audits[0]) if audits else _repaired(*pair) if pair else _learned(material)
    lead = tag("p", LEAD, class_="large") if pair else None
    return joined(tag("h1", _sentence(title)), lead, _figures(pair, lines), *map(_next, audits))


def repair(lines: Sequence[Line]) -> tuple[Line, Line] | None:
    """The first cost, and the one that reaches most goals under the same conditions; None where nothing is compared."""
    learned = [line for line in lines if line.cost not in BOUNDS]
    if not learned:
        return None
    first = learned[0]
    alike = [
        line
        for line in learned[1:]
        if (line.model, line.setting, line.seed) == (first.model, first.setting, first.seed)
    ]
    best = max(alike, key=lambda line: line.value, default=None)
    return (first, best) if best is not None else None


def _finding(audit: Audit) -> str:
    """The first half of an advice says what is wrong, the second what to do."""
    reason, advice, _ = explained(audit)
    if audit.verdict == CANNOT_TELL:
        return "What was measured cannot tell what is at fault"
    return advice.partition(": ")[0] if advice else reason


def _repaired(first: Line, best: Line) -> str:
    if best.value <= first.value:
        return f"No other terminal cost reaches more goals than {first.cost}"
    return f"Another terminal cost reaches {share(best.value)} of the goals instead of {share(first.value)}"


def _learned(material: Material) -> str:
    ranked = [row for table in material.tables for row in table.rows if "rho_logged" in row.ours]
    if ranked:
        best = max(ranked, key=lambda row: row.ours["rho_logged"])
        return f"{best.cost} orders logged states best, rank correlation {best.ours['rho_logged']:.2f}"
    for record in material.heads.values():
        error, constant = record.validation_rmse, record.references.constant.rmse
        if error is not None and constant is not None:
            return f"The head errs by {number(error)} steps where the best constant errs by {number(constant)}"
    return "What is in these records"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _figures(pair: tuple[Line, Line] | None, lines: Sequence[Line]) -> Markup | None:
    """The few numbers that matter, large: the first cost, the best one, and what bounds them."""
    shown = pair or [line for line in lines if line.cost not in BOUNDS][:1]
    if not shown:
        return None
    bounds = {line.cost: line for line in lines if line.cost in BOUNDS and not line.setting}
    tiles = [_tile(line, pair) for line in (*shown, *bounds.values())]
    return tag("dl", *tiles, class_="tiles", aria_label="goals reached, with 95 % intervals")


def _tile(line: Line, pair: tuple[Line, Line] | None) -> Markup:
    if line.cost in BOUNDS:
        role = BOUNDS[line.cost].partition(":")[0]
    else:
        role = (
            "latent distance"
            if line.cost == RAW
            else "best cost here"
            if pair and line is pair[1] and line.value > pair[0].value
            else ""
        )
    return tag(
        "div",
        tag("dt", tag("code", line.cost), tag("span", f" {role}", class_="soft small")),
        tag("dd", share(line.value), class_="huge"),
        tag("dd", shares(line.interval), class_="soft small"),
        class_="tile bound" if line.cost in BOUNDS else "tile",
    )


def _next(audit: Audit) -> Markup:
    reason, advice, _ = explained(audit)
    what, _, remedy = advice.partition(": ")
    kind = "good" if audit.verdict == "none" else "bad"
    parts = [tag("strong", "Verdict: "), tag("span", audit.verdict, class_=f"badge {kind}"), " "]
    parts += [f"{_sentence(reason)} "] if reason else []
    parts += [tag("strong", "Next: "), f"{remedy or what}."] if advice else []
    return tag("p", *parts, class_="next")
