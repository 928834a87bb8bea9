"""What was found, in one sentence, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reachcost.audits.planner import Audit
from reachcost.audits.verdict import CANNOT_TELL, NOTHING, verdict_of
from reachcost.costs.latent import RAW
from reachcost.report.html import Markup, joined, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import number, share, shares
from reachcost.report.panels.success import BOUNDS, Line, alike, success_lines

YARDSTICKS = {"shuffled", "geodesic", "oracle", "task", "told"}
"""Words in the names of costs that learned from nothing, or from what no log tells: they repair nothing."""
LEAD = (
    "A planner imagines where candidate action sequences end, and executes the one whose end costs least. Only that "
    "terminal cost differs here: same world model, same planner, same episodes."
)


def headline(material: Material) -> Markup:
    """The large sentence, what was compared, and what comes next; records of several studies have none in common."""
    studies = {table.provenance["study"] for table in material.tables if table.provenance.get("study")}
    audits, audited = list(material.audits.items()), alike(material.audits)
    several = len(audits) > 1
    if len(studies) > 1 or len(audited) > 1:
        title = f"Records of {'several studies' if len(studies) > 1 else 'several planners'}"
        return joined(tag("h1", title), *(_next(audit, name) for name, audit in audits))
    lines = next(iter(success_lines(material).values()), [])
    pair = repair(lines)
    better = pair is not None and pair[1].value > pair[0].value
    title = (
        _finding(audits[0][1])
        if audits and not (several and better)
        else _repaired(*pair)
        if pair
        else _alone(lines) or _learned(material)
    )
    lead = tag("p", LEAD, class_="large") if pair else None
    said = [
        _next(audit, name if several else "", pair if pair and better and audit.cost == pair[0].cost else None)
        for name, audit in audits
    ]
    return joined(tag("h1", _sentence(title)), lead, _figures(pair, lines), *said)


def repair(lines: Sequence[Line]) -> tuple[Line, Line] | None:
    """Latent distance (else the first cost), and what reaches most goals under the same conditions; None if nothing."""
    pairs = list(repairs(lines))
    return pairs[0] if pairs else None


def repairs(lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """Latent distance beside each cost that could take its place, the best first: no controls, nobody who was told."""
    learned = [line for line in lines if line.cost not in BOUNDS and not YARDSTICKS & {*re.split(r"\W", line.cost)}]
    learned = [line for line in learned if "+" not in line.cost]  # the same cost, planned with otherwise
    first = next((line for line in learned if line.cost == RAW), learned[0] if learned else None)
    if first is not None:
        rest = [line for line in learned if line.cost != first.cost and _conditions(line) == _conditions(first)]
        yield from ((first, line) for line in sorted(rest, key=lambda line: -line.value))


def _conditions(line: Line) -> tuple[object, ...]:
    return line.model, line.setting, line.seed, line.protocol


def _finding(audit: Audit) -> str:
    """The first half of an advice says what is wrong, the second what to do."""
    blamed, reason, advice = verdict_of(audit.stages)
    if blamed == CANNOT_TELL:
        return "What was measured cannot tell what is at fault"
    return advice.partition(": ")[0] if advice else reason


def _repaired(first: Line, best: Line) -> str:
    if best.value <= first.value:
        return f"No other terminal cost reaches more goals than {first.cost}"
    close = first.interval is not None and best.interval is not None and best.interval[0] <= first.interval[1]
    doubt = ", within what chance may do" if close else ""
    return f"Another terminal cost reaches {share(best.value)} of the goals instead of {share(first.value)}{doubt}"


def _alone(lines: Sequence[Line]) -> str:
    """Success where there is one cost."""
    only = next((line for line in lines if line.cost not in BOUNDS), None)
    return "" if only is None else f"{only.cost} reaches {share(only.value)} of the goals"


def _learned(material: Material) -> str:
    ranked = [row for table in material.tables for row in table.rows if "rho_logged" in row.ours]
    if ranked:
        best, *others = sorted(ranked, key=lambda row: -row.ours["rho_logged"])
        low = best.interval.get("rho_logged", (0.0,))[0]
        close = any(other.interval.get("rho_logged", (0.0, -1.0))[1] >= low for other in others)
        doubt = ", within what chance may do" if close else ""
        told = f"rank correlation {best.ours['rho_logged']:.2f}{doubt}"
        return f"Of these costs, {best.cost} orders logged states best ({told})"
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
    where = shown[0].setting
    bounds = {line.cost: line for line in lines if line.cost in BOUNDS and line.setting in ("", where)}
    bounds |= {line.cost: line for line in lines if line.cost in BOUNDS and line.setting == where}
    tiles = [_tile(line, pair) for line in (*shown, *bounds.values())]
    return tag("dl", *tiles, class_="tiles", aria_label="goals reached, with 95 % intervals")


def _tile(line: Line, pair: tuple[Line, Line] | None) -> Markup:
    called = [line.setting, line.remark] if line.cost not in BOUNDS else []
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
        tag(
            "dt",
            tag("code", line.cost),
            tag("span", f" {' · '.join(filter(None, (role, *called)))}", class_="soft small"),
        ),
        tag("dd", share(line.value), class_="huge"),
        tag("dd", shares(line.interval), class_="soft small"),
        class_="tile bound" if line.cost in BOUNDS else "tile",
    )


def _next(audit: Audit, name: str = "", mended: tuple[Line, Line] | None = None) -> Markup:
    """The verdict of an audit, on how many episodes, and what to do unless that is done."""
    blamed, reason, advice = verdict_of(audit.stages)
    what, _, remedy = advice.partition(": ")
    kind, episodes = "good" if blamed == NOTHING else "bad", audit.settings.get("episodes")
    parts = [
        tag("strong", f"Verdict{f' of {name}' if name else ''}: "),
        tag("span", blamed, class_=f"badge {kind}"),
    ]
    parts += [tag("span", f" on {episodes} episodes", class_="soft small")] if episodes else []
    parts += [f" {_sentence(reason)}"] if reason else []
    if mended and blamed == "ranking":
        parts += [
            " ",
            tag("strong", "Repaired here: "),
            tag("code", mended[1].cost),
            f" reaches {share(mended[1].value)}.",
        ]
    elif advice:
        parts += [" ", tag("strong", "Next: "), f"{remedy or what}."]
    return tag("p", *parts, class_="next")
