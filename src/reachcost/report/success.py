"""Success rates of a report and its headline, the main result in one sentence.

There is a rate for each cost, from tables, closed loops or audits; only rates of the same conditions compare.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reachcost.audits.audit import Audit
from reachcost.audits.stages import CANNOT_TELL, NOTHING, verdict_of
from reachcost.costs.latent import ORACLE, RAW
from reachcost.report.material import Loop, Material
from reachcost.report.page import number, share
from reachcost.results.stats import wilson
from reachcost.results.tables import SIMULATOR, ResultTable

# Costs that bound the others, and their role.
BOUNDS = {ORACLE: "reference: plans with the simulator and the true distance", "random": "floor: acts at random"}
CONTROLS = {"shuffled", "geodesic", "oracle", "task", "true"}  # words in names of costs not learned from logs
CHARTS, BARS = 3, 40  # maximum number of charts, and of bars in a chart, if the tables below show the rest
OVERLAP = ", but the intervals overlap"


@dataclass(frozen=True)
class SuccessRate:
    """Success in percent under one cost."""

    cost: str
    value: float
    interval: Sequence[float] | None
    n: int
    model: str = ""
    setting: str = ""
    seed: int | None = None
    paper: float | None = None
    remark: str = ""
    protocol: str = ""  # only rates of one protocol compare

    @property
    def conditions(self) -> tuple[object, ...]:
        """What two rates must share to compare."""
        return self.model, self.setting, self.seed, self.protocol


def success_rates(material: Material) -> dict[str, list[SuccessRate]]:
    """Success rates by source: tables; without any, closed loops; without any, audits."""
    groups = {table.name: rates for table in material.tables if (rates := rates_of_table(table))}
    if not groups and material.loops:
        groups["closed loops"] = [_of_loop(loop) for loop in material.loops]
    if not groups:
        by_episodes = {", ".join(audits): _of_audits(audits) for audits in same_episodes(material.audits)}
        groups = {names: rates for names, rates in by_episodes.items() if rates}
    return groups


def same_episodes(audits: Mapping[str, Audit]) -> list[dict[str, Audit]]:
    """Audits in groups of one world model on the same episodes."""
    groups: dict[tuple[str, ...], dict[str, Audit]] = {}
    for name, audit in audits.items():
        key = [str(audit.settings.get(setting)) for setting in ("model", "evaluation_set_sha256", "episodes")]
        groups.setdefault(tuple(key), {})[name] = audit
    return list(groups.values())


def rates_of_table(table: ResultTable) -> list[SuccessRate]:
    """Success rates of a table: means over seeds, or rows of single seeds if there are no means."""
    rows = [row for row in table.rows if "success" in row.ours and "minus" not in row.cost.split()]
    return [
        SuccessRate(
            row.cost,
            row.ours["success"],
            row.interval.get("success"),
            row.n,
            row.model,
            row.setting,
            row.seed,
            paper=(row.paper or {}).get("success"),
            remark=BOUNDS.get(row.cost, ""),
        )
        for row in [row for row in rows if row.seed is None] or rows
    ]


def repairs(rates: Sequence[SuccessRate]) -> Iterator[tuple[SuccessRate, SuccessRate]]:
    """Latent distance (otherwise the first cost) with each comparable learned cost, the best cost first."""
    learned = [
        rate
        for rate in rates
        if rate.cost not in BOUNDS
        and not CONTROLS & {*re.split(r"\W", rate.cost)}
        and "+" not in rate.cost  # the same cost with another planner
    ]
    first = next((rate for rate in learned if rate.cost == RAW), learned[0] if learned else None)
    if first is not None:
        others = [rate for rate in learned if rate.cost != first.cost and rate.conditions == first.conditions]
        yield from ((first, rate) for rate in sorted(others, key=lambda rate: -rate.value))


def endings(material: Material) -> dict[str, Counter[str]]:
    """Number of episodes by category: for each row of the tables, and each cost or audit that no row names."""
    rows = [row for table in material.tables for row in table.rows]
    several = len({row.model for row in rows} - {SIMULATOR}) > 1
    runs: dict[str, set[str]] = {}
    for row in rows:
        label = " ".join(filter(None, (row.cost, row.model if several else "", row.setting)))
        runs.setdefault(label, set()).update(row.runs)
    found = {label: Counter[str]() for label in runs}
    for loop in material.loops:
        for label in [label for label, names in runs.items() if loop.run in names] or [loop.cost]:
            found.setdefault(label, Counter()).update(loop.category.tolist())
    if not material.loops:
        found |= {name: Counter(audit.categories) for name, audit in material.audits.items()}
    return {label: counts for label, counts in found.items() if counts}


def charts_of(material: Material) -> dict[str, dict[str, Any]]:
    """A bar chart of success rates for each source; `more` rates are only in the tables."""
    groups = success_rates(material)
    in_tables = {*groups} <= {table.name for table in material.tables}
    charts, bars = (CHARTS, BARS) if in_tables else (None, None)
    return {
        name: {
            "rates": rates[:bars],
            "more": len(rates) - len(rates[:bars]),
            "models": len({rate.model for rate in rates} - {SIMULATOR}) > 1,
            "seeds": len({rate.seed for rate in rates}) > 1,
            "papers": any(rate.paper is not None for rate in rates),
            "absent": [cost for cost in BOUNDS if cost not in {rate.cost for rate in rates}],
        }
        for name, rates in [*groups.items()][:charts]
    }


def _of_loop(loop: Loop) -> SuccessRate:
    reached, n, remark = int(loop.success.sum()), len(loop.success), BOUNDS.get(loop.cost, "")
    interval = [100 * bound for bound in wilson(reached, n)]
    value = 100 * reached / n
    return SuccessRate(loop.cost, value, interval, n, loop.model, loop.setting, remark=remark, protocol=loop.protocol)


def _of_audits(audits: Mapping[str, Audit]) -> list[SuccessRate]:
    """Closed loops of audits on the same episodes, which share their oracle."""
    rates: dict[str, list[SuccessRate]] = {"execution": [], "foresight": [], "sampling": []}
    for name, audit in audits.items():
        costs = {"execution": audit.cost, "foresight": f"{audit.cost} with true ends", "sampling": ORACLE}
        for stage in audit.stages:
            if stage.name in costs and stage.value is not None:
                cost, remark = costs[stage.name], name if name != audit.cost else ""
                rate = SuccessRate(cost, stage.value, stage.interval, stage.n, remark=BOUNDS.get(cost, remark))
                rates[stage.name].append(rate)
    return [*rates["execution"], *rates["foresight"], *rates["sampling"][:1]]


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
