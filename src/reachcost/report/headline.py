"""The top of a report: the main result in one sentence, the success rates behind it, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reachcost.audits.audit import Audit
from reachcost.audits.stages import CANNOT_TELL, NOTHING, verdict_of
from reachcost.costs.latent import RAW
from reachcost.report.material import Material
from reachcost.report.page import number, share
from reachcost.report.success import BOUNDS, SuccessRate, repairs, same_episodes, success_rates

OVERLAP = ", but the intervals overlap"


def headline(material: Material) -> dict[str, Any]:
    """Title, tiles of success rates and verdicts, for the template; several studies show their verdicts only."""
    studies = {table.provenance["study"] for table in material.tables if table.provenance.get("study")}
    audits = material.audits
    if len(studies) > 1 or len(same_episodes(audits)) > 1:
        title = "Results of several studies" if len(studies) > 1 else "Results of several planners"
        verdicts = [_verdict(audit, name) for name, audit in audits.items()]
        return {"title": title, "explained": False, "tiles": [], "verdicts": verdicts}
    rates = next(iter(success_rates(material).values()), [])
    pair = next(repairs(rates), None)
    improved = pair if pair is not None and pair[1].value > pair[0].value else None
    if audits and (len(audits) == 1 or improved is None):
        title = _finding(next(iter(audits.values())))
    elif pair is not None:
        title = _comparison(*pair)
    else:
        only = next((rate for rate in rates if rate.cost not in BOUNDS), None)
        title = _learned(material) if only is None else f"{only.cost} reaches {share(only.value)} of the goals"
    repaired = {} if improved is None else {improved[0].cost: improved[1]}
    verdicts = [
        _verdict(audit, name if len(audits) > 1 else "", repaired.get(audit.cost)) for name, audit in audits.items()
    ]
    tiles = [*_tiles(pair or [rate for rate in rates if rate.cost not in BOUNDS][:1], rates)]
    return {"title": _sentence(title), "explained": pair is not None, "tiles": tiles, "verdicts": verdicts}


def _finding(audit: Audit) -> str:
    blamed, reason, advice = verdict_of(audit.stages)
    if blamed == CANNOT_TELL:
        return "The measurements do not show which stage is at fault"
    return advice.partition(": ")[0] if advice else reason


def _comparison(first: SuccessRate, best: SuccessRate) -> str:
    if best.value <= first.value:
        return f"No other terminal cost reaches more goals than {first.cost}"
    close = first.interval is not None and best.interval is not None and best.interval[0] <= first.interval[1]
    overlap = OVERLAP if close else ""
    return f"Another terminal cost reaches {share(best.value)} of the goals instead of {share(first.value)}{overlap}"


def _learned(material: Material) -> str:
    """The result of a comparison of heads, or of the training of one."""
    ranked = [row for table in material.tables for row in table.rows if "rho_logged" in row.ours]
    if ranked:
        best, *others = sorted(ranked, key=lambda row: -row.ours["rho_logged"])
        low = best.interval.get("rho_logged", (0.0,))[0]
        close = any(other.interval.get("rho_logged", (0.0, -1.0))[1] >= low for other in others)
        correlation = f"rank correlation {best.ours['rho_logged']:.2f}{OVERLAP if close else ''}"
        return f"Of these costs, {best.cost} orders logged states best ({correlation})"
    for record in material.heads.values():
        error, constant = record.validation_rmse, record.constant_rmse
        if error is not None and constant is not None:
            return f"The error of the head is {number(error)} steps, that of the best constant {number(constant)}"
    return "Contents of these records"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _tiles(costs: Sequence[SuccessRate], rates: Sequence[SuccessRate]) -> Iterator[Mapping[str, Any]]:
    """The first cost, the best one if there are two, and the costs that bound them."""
    for rate in costs:
        role = "latent distance" if rate.cost == RAW else "best cost here" if rate.value > costs[0].value else ""
        details = " · ".join(filter(None, (role, rate.setting, rate.remark)))
        yield {"rate": rate, "details": details, "bound": False}
    if costs:
        setting = costs[0].setting
        bounds = [rate for rate in rates if rate.cost in BOUNDS and rate.setting in ("", setting)]
        chosen = {rate.cost: rate for rate in sorted(bounds, key=lambda rate: rate.setting == setting)}
        for rate in chosen.values():
            yield {"rate": rate, "details": BOUNDS[rate.cost].partition(":")[0], "bound": True}


def _verdict(audit: Audit, name: str = "", repaired: SuccessRate | None = None) -> Mapping[str, Any]:
    """The verdict of an audit, and the next step unless it is done."""
    blamed, reason, advice = verdict_of(audit.stages)
    problem, _, remedy = advice.partition(": ")
    return {
        "name": name,
        "blamed": blamed,
        "passed": blamed == NOTHING,
        "episodes": audit.settings.get("episodes"),
        "reason": _sentence(reason) if reason else "",
        "repaired": repaired if blamed == "ranking" else None,
        "next": remedy or problem,
    }
