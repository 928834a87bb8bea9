"""Audit tables about rankings: SASC, paired differences, and the audit by logs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.audits.stages.ranking import MARGIN
from reachcost.data.latents import Latents, encode_logs
from reachcost.experiments.cells import Cell
from reachcost.experiments.experiment import Experiment, SettingRun
from reachcost.experiments.rows import RowPlan, Values, measured, ranked, row_runs
from reachcost.experiments.runs import ControlRun, SascRun
from reachcost.experiments.study import Member, Setting
from reachcost.fitting.logged_audit import LoggedPools, logged_audit, logged_pools
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import correlation, paired_bootstrap, ranks
from reachcost.results.tables import TableRow
from reachcost_paper.charts import draw_distributions
from reachcost_paper.rows import difference_row, metric_row
from reachcost_paper.tworoom.control import baselines
from reachcost_paper.tworoom.settings import LEWM, PAPER, SEEDS

Rows = list[TableRow]
AUDITED = (
    *("raw", "standardized-l2", "linear", "mahalanobis", "decoded-xy", "decoded-geodesic"),
    *("trm", "trm-paper", "trm-complete", "trm-symmetric", "hybrid", "geodesic-mlp", "geodesic-ranking"),
    *("shuffled", "trm-shuffled", "rowspace", "residual"),
)
"""Costs that are audited."""
LOGGED = [line.cost for line in baselines() if line.cost in AUDITED]
"""Costs audited from logs alone."""
HELD_OUT_LOGS = {"seed": 201, "episodes": 1_000}
"""Logs that no model and no head was trained on."""
GOALS = 200
DIFFERENCES = ("raw", "trm-complete", "trm-paper", "trm")
"""Costs whose rankings are compared, the first with the others."""
REPAIRED = ("trm-paper", "trm")
"""Costs whose success is compared with that of latent distance."""


def settings_of(costs: Iterable[str], members: Sequence[Member] = LEWM) -> list[Setting]:
    return [Setting(member, cost) for cost in costs for member in members]


SASC = [SascRun(setting) for setting in settings_of((*AUDITED, "oracle"))]


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools: seed 3072 as in the paper, then the mean over world models."""
    rows = []
    for members, cost in product((LEWM[:1], LEWM), (*AUDITED, "oracle")):
        values = ranked(experiment, settings_of([cost], members))
        seed, printed = (members[0].seed, PAPER["sasc"].get(cost)) if len(members) == 1 else (None, None)
        rows.append(metric_row(experiment, "lewm", cost, seed, values, printed))
    return rows


def draw_ranks(experiment: Experiment, path: Path) -> None:
    shown = ("raw", "decoded-xy", "decoded-geodesic", "trm-paper", "trm", "geodesic-mlp", "shuffled")
    found = {cost: ranked(experiment, settings_of([cost]))["rank"].ravel() for cost in shown}
    axis = "candidates ranked before it, % (linear to 1, then logarithmic; left is better)"
    draw_distributions(found, path, "Where each cost ranks the truly best candidate", axis)


def statistics_runs(experiment: Experiment) -> list[Cell]:
    lines = [RowPlan("lewm", cost) for cost in ("raw", *REPAIRED)]
    return [*experiment.cells(map(SascRun, settings_of(DIFFERENCES, LEWM[:1]))), *row_runs(experiment, lines)]


def statistics_rows(experiment: Experiment) -> Rows:
    """Paired differences: of rankings over the episodes of one world model, of success over world models."""
    values = {cost: ranked(experiment, settings_of([cost], LEWM[:1])) for cost in DIFFERENCES}
    found = {cost: {metric: one[metric][0] for metric in PAPER["statistics"]} for cost, one in values.items()}
    rows = [_bootstrapped(experiment, "raw", found["raw"], "raw")]
    for cost in DIFFERENCES[1:]:
        difference = {metric: values - found["raw"][metric] for metric, values in found[cost].items()}
        in_paper = cost == "trm-complete"
        rows.append(_bootstrapped(experiment, cost, found[cost], "trm" if in_paper else None))
        rows.append(_bootstrapped(experiment, f"{cost} minus raw", difference, "difference" if in_paper else None))
    return [*rows, *_success_differences(experiment)]


def _bootstrapped(experiment: Experiment, cost: str, values: Values, printed: str | None) -> TableRow:
    """A row of the first world model from metrics [episodes], resampled together, as in the paper."""
    low, high = paired_bootstrap(np.stack(list(values.values()), axis=1))
    bounds = {metric: [float(low[place]), float(high[place])] for place, metric in enumerate(values)}
    members = {metric: value[None] for metric, value in values.items()}
    row = replace(metric_row(experiment, "lewm", cost, LEWM[0].seed, members, None), interval=bounds)
    if printed is None:
        return row
    known = {metric: PAPER["statistics"][metric][printed] for metric in values}
    extra = {"paper_interval": {metric: bounds for metric, (_, *bounds) in known.items()}}
    return replace(row, paper={metric: mean for metric, (mean, _, _) in known.items()}, extra=extra)


def _success_differences(experiment: Experiment) -> Rows:
    raw, printed, rows = RowPlan("lewm", "raw"), PAPER["success-differences"], []
    for cost in REPAIRED:
        line, known = RowPlan("lewm", cost), cost == "trm-paper"
        mean = {"success": float(np.mean(printed["by_seed"])), "p_value": printed["p_value"]}
        rows.append(difference_row(experiment, line, raw, mean if known else None))
        for seed, value in zip(SEEDS, printed["by_seed"], strict=True):
            one, base = (replace(part, seeds=(seed,), single=True, setting="success") for part in (line, raw))
            row = difference_row(experiment, one, base, {"success": value} if known else None)
            rows.append(replace(row, ours={"success": row.ours["success"]}))
    return rows


def held_out(experiment: Experiment, model: str) -> tuple[Latents, LoggedPools]:
    logs = experiment.task.generate_logs(**HELD_OUT_LOGS)
    latents = encode_logs(experiment.model(model), logs, progress=experiment.progress)
    return latents, logged_pools(latents, np.arange(len(latents.logs)), GOALS)


@dataclass(frozen=True)
class LoggedRun(SettingRun):
    """A ranking of logged states of the held-out logs by one cost; rows are goals."""

    kind: ClassVar[str] = "logged"

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {**recording.behind(self.setting, goals=False), "held_out_logs": HELD_OUT_LOGS, "goals": GOALS}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        cost = self.setting.cost
        latents, pools = recording.once(held_out, self.setting.member.model)
        found = logged_audit({cost: recording.cost(self.setting)}, latents, pools)[cost]
        return {"goal": np.arange(GOALS), "rho_logged": found.spearman}


def logged_runs(experiment: Experiment) -> list[Cell]:
    settings = settings_of(LOGGED)
    return experiment.cells(run(setting) for run in (LoggedRun, SascRun, ControlRun) for setting in settings)


def logged_rows(experiment: Experiment) -> Rows:
    """The audit by logs, SASC and success, cost by cost, and how well their orders of costs agree."""
    found = {cost: _scores(experiment, settings_of([cost])) for cost in LOGGED}
    found = dict(sorted(found.items(), key=lambda item: item[1]["rho_logged"].mean()))
    best = max(values["rho_logged"].mean() for values in found.values())
    passing = {cost: values for cost, values in found.items() if values["rho_logged"].mean() >= best - MARGIN}
    return [
        *(metric_row(experiment, "lewm", cost, None, values, None) for cost, values in found.items()),
        _agreement("logs and SASC", found, ("rho_logged", "rho_geo")),
        _agreement("logs and success", found, ("rho_logged", "success")),
        _agreement("SASC and success", found, ("rho_geo", "success")),
        _agreement("logs and success, costs that pass", passing, ("rho_logged", "success")),
    ]


def _scores(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    runs = [experiment.read(LoggedRun(setting)) for setting in settings]
    by_logs = [require_rows(run, {"goal": list(range(GOALS))}, ("rho_logged",))["rho_logged"] for run in runs]
    return {
        "rho_logged": np.stack(by_logs),
        "rho_geo": ranked(experiment, settings)["rho_geo"],
        "success": measured(experiment, settings)["success"],
    }


def _agreement(title: str, found: Mapping[str, Values], metrics: tuple[str, str]) -> TableRow:
    """The rank correlation of two metrics over some costs, mean of the world models."""
    means = [np.stack([values[metric].mean(1) for values in found.values()], axis=1) for metric in metrics]
    agreement = correlation(*map(ranks, means))
    extra = {"per_model": agreement.round(4).tolist()}
    return TableRow(title, "lewm", len(found), {"agreement": float(agreement.mean())}, {}, None, extra=extra)
