"""Lines of the paper's audit tables that look at rankings, the representation and the labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.audits.stages.ranking import MARGIN
from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.data.probe import PROBE_ROWS, episode_split, fit_probe, score_readings
from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, Values, difference_row, measured, metric_row, ranked, row_runs
from reachcost.experiments.runs import ControlRun, LoggedRun, SascRun
from reachcost.experiments.study import Member, Setting
from reachcost.results.ranking import correlation, ranks
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import cluster_bootstrap, paired_bootstrap
from reachcost.results.tables import TableRow
from reachcost_paper.audits.labels import label_quality
from reachcost_paper.figures.distributions import draw_distributions
from reachcost_paper.tworoom import paper_audits as paper
from reachcost_paper.tworoom.control import baselines
from reachcost_paper.tworoom.settings import LEWM, PAPER_HEAD, SEEDS

Rows = list[TableRow]
JUDGED = (
    "raw",
    "standardized-l2",
    "linear",
    "mahalanobis",
    "decoded-xy",
    "decoded-geodesic",
    "trm",
    "trm-paper",
    "trm-complete",
    "trm-symmetric",
    "hybrid",
    "geodesic-mlp",
    "geodesic-ranking",
    "shuffled",
    "trm-shuffled",
    "rowspace",
    "residual",
)
"""Costs that are audited."""
HELD_OUT_LOGS = (("seed", 201), ("episodes", 1_000))
"""Logs that no model and no head ever saw."""
GOALS = 200
DIFFERENCES = ("raw", "trm-complete", "trm-paper", "trm")
"""Costs whose rankings are compared, the first with the others."""
REPAIRED = ("trm-paper", "trm")
"""Costs whose success is compared with that of latent distance."""
LOGGED = [line.cost for line in baselines() if line.cost in JUDGED]
"""Costs that are audited by logs alone."""


def settings_of(costs: Iterable[str], members: Sequence[Member] = LEWM) -> list[Setting]:
    """Costs on world models."""
    return [Setting(member, cost) for cost in costs for member in members]


def sasc_runs(experiment: Experiment) -> list[Cell]:
    """Every cost on the shared pools of every world model."""
    return experiment.cells(map(SascRun, settings_of((*JUDGED, "oracle"))))


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools: seed 3072 as in the paper, then the mean over world models."""
    rows = []
    for members, cost in product((LEWM[:1], LEWM), (*JUDGED, "oracle")):
        single = len(members) == 1
        values = ranked(experiment, settings_of([cost], members))
        printed = paper.SASC.get(cost) if single else None
        rows.append(metric_row(experiment, "lewm", cost, members[0].seed if single else None, values, printed))
    return rows


def draw_ranks(experiment: Experiment, path: Path) -> None:
    """Where each cost ranks the truly best candidate: all episodes and world models."""
    shown = ("raw", "decoded-xy", "decoded-geodesic", "trm-paper", "trm", "geodesic-mlp", "shuffled")
    ranks = {cost: ranked(experiment, settings_of([cost]))["rank"].ravel() for cost in shown}
    axis = "candidates ranked before it, % (linear to 1, then logarithmic; left is better)"
    draw_distributions(ranks, path, "Where each cost ranks the truly best candidate", axis)


def statistics_rows(experiment: Experiment) -> Rows:
    """Paired differences: of rankings over the episodes of one world model, of success over world models."""
    return [*_ranking_differences(experiment), *_success_differences(experiment)]


def statistics_runs(experiment: Experiment) -> list[Cell]:
    """Rankings of the first world model, closed loops of all."""
    lines = [RowPlan("lewm", cost) for cost in ("raw", *REPAIRED)]
    return [
        *experiment.cells(map(SascRun, settings_of(DIFFERENCES, LEWM[:1]))),
        *row_runs(experiment, lines),
    ]


def _ranking_differences(experiment: Experiment) -> Rows:
    first = LEWM[0]
    values = {cost: ranked(experiment, [Setting(first, cost)]) for cost in DIFFERENCES}
    found = {cost: {metric: one[metric][0] for metric in paper.STATISTICS} for cost, one in values.items()}
    rows = [_bootstrapped(experiment, "raw", first, found["raw"], "raw")]
    for cost in DIFFERENCES[1:]:
        difference = {metric: values - found["raw"][metric] for metric, values in found[cost].items()}
        in_paper = cost == "trm-complete"
        rows.append(_bootstrapped(experiment, cost, first, found[cost], "trm" if in_paper else None))
        rows.append(
            _bootstrapped(experiment, f"{cost} minus raw", first, difference, "difference" if in_paper else None)
        )
    return rows


def _success_differences(experiment: Experiment) -> Rows:
    raw, printed, rows = RowPlan("lewm", "raw"), paper.SUCCESS_DIFFERENCES, []
    for cost in REPAIRED:
        line, known = RowPlan("lewm", cost), cost == "trm-paper"
        whole = {"success": float(np.mean(printed)), "p_value": paper.SIGN_FLIP}
        rows.append(difference_row(experiment, line, raw, whole if known else None))
        for number, seed in enumerate(SEEDS):
            one, base = (replace(part, seeds=(seed,), single=True, setting="success") for part in (line, raw))
            rows.append(_without_test(experiment, one, base, {"success": printed[number]} if known else None))
    return rows


def _without_test(experiment: Experiment, one: RowPlan, base: RowPlan, printed: Mapping[str, float] | None) -> TableRow:
    row = difference_row(experiment, one, base, printed)
    return replace(row, ours={"success": row.ours["success"]})


def _bootstrapped(
    experiment: Experiment, cost: str, member: Member, values: Mapping[str, np.ndarray], printed: str | None
) -> TableRow:
    """A line from values of each metric [episodes], resampled together, as the paper does it."""
    low, high = paired_bootstrap(np.stack(list(values.values()), axis=1))
    bounds = {metric: [float(low[place]), float(high[place])] for place, metric in enumerate(values)}
    row = metric_row(
        experiment, "lewm", cost, member.seed, {metric: value[None] for metric, value in values.items()}, None
    )
    if printed is None:
        return replace(row, interval=bounds)
    known = {metric: paper.STATISTICS[metric][printed] for metric in values}
    return replace(
        row,
        interval=bounds,
        paper={metric: mean for metric, (mean, _, _) in known.items()},
        extra={"paper_interval": {metric: [below, above] for metric, (_, below, above) in known.items()}},
    )


def logged_rows(experiment: Experiment) -> Rows:
    """The audit that needs no simulator beside SASC and success, cost by cost, and how far their orders agree."""
    found = {cost: _judged(experiment, settings_of([cost])) for cost in LOGGED}
    found = dict(sorted(found.items(), key=lambda item: item[1]["rho_logged"].mean()))
    rows = [metric_row(experiment, "lewm", cost, None, values, None) for cost, values in found.items()]
    best = max(values["rho_logged"].mean() for values in found.values())
    good = [cost for cost, values in found.items() if values["rho_logged"].mean() >= best - MARGIN]
    rows += [
        _agreement("logs and SASC", found, ("rho_logged", "rho_geo")),
        _agreement("logs and success", found, ("rho_logged", "success")),
        _agreement("SASC and success", found, ("rho_geo", "success")),
        _agreement(
            "logs and success, costs that pass", {cost: found[cost] for cost in good}, ("rho_logged", "success")
        ),
    ]
    return rows


def logged_run(setting: Setting) -> LoggedRun:
    """A cost on the held-out logs."""
    return LoggedRun(setting, HELD_OUT_LOGS, GOALS)


def logged_runs(experiment: Experiment) -> list[Cell]:
    """Every cost by logs, by executed candidates and by closed loops."""
    settings = settings_of(LOGGED)
    return experiment.cells(run(setting) for run in (logged_run, SascRun, ControlRun) for setting in settings)


def _judged(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """What logs, SASC and closed loops say of a cost."""
    runs = [experiment.read(logged_run(setting)) for setting in settings]
    by_logs = [require_rows(run, {"goal": list(range(GOALS))}, ("rho_logged",))["rho_logged"] for run in runs]
    return {
        "rho_logged": np.stack(by_logs),
        "rho_geo": ranked(experiment, settings)["rho_geo"],
        "success": measured(experiment, settings)["success"],
    }


def _agreement(title: str, found: Mapping[str, Mapping[str, np.ndarray]], judges: tuple[str, str]) -> TableRow:
    """A line with the rank correlation of two judges over some costs, mean of the world models."""
    means = [np.stack([values[judge].mean(1) for values in found.values()], axis=1) for judge in judges]
    agreement = correlation(*map(ranks, means))
    return TableRow(
        cost=title,
        model="lewm",
        n=len(found),
        ours={"agreement": float(agreement.mean())},
        interval={},
        paper=None,
        extra={"per_model": agreement.round(4).tolist()},
    )


@dataclass(frozen=True)
class ProbeRun(RunSpec):
    """What a probe reads out of held-out latents; rows are log rows."""

    kind: ClassVar[str] = "probe"
    split: str
    """How rows are held out."""
    member: Member

    def name(self, recording: Experiment) -> str:
        """Member and split."""
        return f"{self.member.label}-{self.split.replace(' ', '-')}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """The split."""
        return {**recording.inputs(self.member.model), "rows": PROBE_ROWS, "split": self.split}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Fit the probe and read."""
        logs, (fitted, held) = recording.logs, SPLITS[self.split](recording.logs)
        states = recording.task.coordinates(np.asarray(logs.columns["state"]))
        latents = recording.latents(self.member.model).values
        read = fit_probe(latents[fitted], states[fitted])(latents[held]).numpy()
        columns = {"row": held, "episode": logs.episode_of(held)}
        for axis in range(states.shape[1]):
            columns |= {f"true_{axis}": states[held, axis], f"read_{axis}": read[:, axis]}
        return columns


def row_split(logs: Logs) -> tuple[np.ndarray, np.ndarray]:
    """The paper's split of rows: four fifths to fit, the others to score."""
    drawn = generator(0, "probe").permutation(logs.rows)[:PROBE_ROWS]
    return drawn[: len(drawn) * 4 // 5], drawn[len(drawn) * 4 // 5 :]


SPLITS: dict[str, Callable[[Logs], tuple[np.ndarray, np.ndarray]]] = {
    "split by rows": row_split,
    "split by episodes": lambda logs: episode_split(logs, PROBE_ROWS),
}
PROBES = [ProbeRun(split, member) for split in SPLITS for member in LEWM]


def probe_rows(experiment: Experiment) -> Rows:
    """The paper's split of rows, and one of whole episodes."""
    return [_probe_row(experiment, run) for run in PROBES]


def _probe_row(experiment: Experiment, run: ProbeRun) -> TableRow:
    table = experiment.read(run).table()
    true, read = (
        np.stack([table[f"{name}_{axis}"].to_numpy() for axis in (0, 1)], 1).astype(np.float64)
        for name in ("true", "read")
    )
    return TableRow(
        cost="probe",
        model="lewm",
        n=len(table),
        ours=asdict(score_readings(read, true)),
        interval=_probe_interval(read - true, true, table["episode"].to_numpy()),
        paper=paper.PROBE[run.member.seed] if run.split == "split by rows" else None,
        seed=run.member.seed,
        setting=run.split,
    )


def _probe_interval(error: np.ndarray, states: np.ndarray, episodes: np.ndarray) -> dict[str, list[float]]:
    """Intervals of RMSE and R2 when episodes of the scored rows [N] are resampled: errors [N, 2], states [N, 2]."""
    spread = (states - states.mean(0)) ** 2
    columns = np.concatenate([np.ones((len(error), 1)), error**2, spread], axis=1)

    def scores(totals: np.ndarray) -> np.ndarray:
        rmse = np.sqrt(totals[:, 1:3].mean(1) / totals[:, 0])
        return np.stack([rmse, (1 - totals[:, 1:3] / totals[:, 3:]).mean(1)], axis=1)

    low, high = cluster_bootstrap(columns, episodes, scores)
    return {metric: [float(low[place]), float(high[place])] for place, metric in enumerate(("rmse", "r2"))}


@dataclass(frozen=True)
class LabelsRun(RunSpec):
    """Logged gaps and true distances of the training pairs of the paper's head; rows are pairs."""

    kind: ClassVar[str] = "labels"
    member: Member

    def name(self, recording: Experiment) -> str:
        """The member."""
        return self.member.label

    def config(self, recording: Experiment) -> dict[str, Any]:
        """How pairs are drawn."""
        return {**recording.inputs(self.member.model), "head": PAPER_HEAD, "pair_seed": self.member.seed}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """Draw the pairs."""
        task, pairs = recording.task, recording.pairs(self.member, PAPER_HEAD, self.member.seed).train
        states = recording.logs.columns["state"]
        first, second = (states[rows.numpy()] for rows in (pairs.first, pairs.second))
        return {
            "gap": pairs.gap.numpy().astype(np.int16),
            "distance": task.distance(first, second),
            "crosses": task.groups(first, second)["cross wall"],
            "episode": recording.logs.episode_of(pairs.first.numpy()).astype(np.int32),
        }


TEMPORAL = LabelsRun(LEWM[0])


def temporal_rows(experiment: Experiment) -> Rows:
    """Logged gaps against the true distance."""
    table = experiment.read(TEMPORAL).table()
    gap, distance, crosses, episode = (
        table[name].to_numpy(zero_copy_only=False) for name in ("gap", "distance", "crosses", "episode")
    )
    quality = label_quality(gap.astype(float), distance, {"same room": ~crosses, "across the wall": crosses}, episode)
    printed = {
        name: {"pairs": 100 * count / 100_000, "pearson": pearson, "spearman": spearman}
        for name, (count, pearson, spearman) in paper.TEMPORAL_GEODESIC.items()
    }
    return [
        TableRow(
            cost="temporal labels",
            model="logs",
            n=found.pairs,
            ours={"pairs": 100 * found.pairs / len(table), "pearson": found.pearson, "spearman": found.spearman},
            interval={"pearson": found.pearson_interval, "spearman": found.spearman_interval},
            paper=printed[name],
            setting=name,
        )
        for name, found in quality.items()
    ]
