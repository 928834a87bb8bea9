"""Lines of the paper's audit tables that look at rankings, the representation and the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, product
from pathlib import Path

import numpy as np

from reachcost.audits.labels import label_quality
from reachcost.audits.stages.ranking import MARGIN
from reachcost.base.seeding import generator
from reachcost.data.probe import PROBE_ROWS, episode_split, fit_probe, score_readings
from reachcost.results.figures.distributions import draw_distributions
from reachcost.results.ranking import correlation, ranks
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import cluster_bootstrap, paired_bootstrap
from reachcost.results.tables import TableRow
from reachcost.studies.cells.waiting import every, row_of_runs
from reachcost.studies.experiment import Experiment
from reachcost.studies.lines import Line, Values, difference_row, measured, metric_row, ranked
from reachcost.studies.ranking import logged_run
from reachcost.studies.study import Member, Setting
from reachcost.studies.tworoom import paper_audits as paper
from reachcost.studies.tworoom.control import baselines
from reachcost.studies.tworoom.settings import LEWM, PAPER_HEAD, SEEDS

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
HELD_OUT_LOGS = {"seed": 201, "episodes": 1_000}
"""Logs that no model and no head ever saw."""
GOALS = 200


def sasc_rows(experiment: Experiment) -> Rows:
    """Every cost on the shared pools: seed 3072 as in the paper, then the mean over world models."""

    def row(line: tuple[Sequence[Member], str]) -> TableRow:
        members, cost = line
        single = len(members) == 1
        values = ranked(experiment, [Setting(member, cost) for member in members])
        printed = paper.SASC.get(cost) if single else None
        return metric_row(experiment, "lewm", cost, members[0].seed if single else None, values, printed)

    return every(row, product((LEWM[:1], LEWM), (*JUDGED, "oracle")))


def draw_ranks(experiment: Experiment, path: Path) -> None:
    """Where each cost ranks the truly best candidate: all episodes and world models."""
    shown = ("raw", "decoded-xy", "decoded-geodesic", "trm-paper", "trm", "geodesic-mlp", "shuffled")
    ranks = {cost: ranked(experiment, [Setting(member, cost) for member in LEWM])["rank"].ravel() for cost in shown}
    axis = "candidates ranked before it, % (linear to 1, then logarithmic; left is better)"
    draw_distributions(ranks, path, "Where each cost ranks the truly best candidate", axis)


def statistics_rows(experiment: Experiment) -> Rows:
    """Paired differences: of rankings over the episodes of one world model, of success over world models."""
    return [*chain.from_iterable(every(lambda rows: rows(experiment), (_ranking_differences, _success_differences)))]


def _ranking_differences(experiment: Experiment) -> Rows:
    first, costs = LEWM[0], ("raw", "trm-complete", "trm-paper", "trm")
    values = every(lambda cost: ranked(experiment, [Setting(first, cost)]), costs)
    found = {
        cost: {metric: one[metric][0] for metric in paper.STATISTICS} for cost, one in zip(costs, values, strict=True)
    }
    rows = [_bootstrapped(experiment, "raw", first, found["raw"], "raw")]
    for cost in ("trm-complete", "trm-paper", "trm"):
        difference = {metric: values - found["raw"][metric] for metric, values in found[cost].items()}
        in_paper = cost == "trm-complete"
        rows.append(_bootstrapped(experiment, cost, first, found[cost], "trm" if in_paper else None))
        rows.append(
            _bootstrapped(experiment, f"{cost} minus raw", first, difference, "difference" if in_paper else None)
        )
    return rows


def _success_differences(experiment: Experiment) -> Rows:
    raw, printed, rows = Line("lewm", "raw"), paper.SUCCESS_DIFFERENCES, []
    for cost in ("trm-paper", "trm"):
        line, known = Line("lewm", cost), cost == "trm-paper"
        whole = {"success": float(np.mean(printed)), "p_value": paper.SIGN_FLIP}
        rows.append(difference_row(experiment, line, raw, whole if known else None))
        for number, seed in enumerate(SEEDS):
            one, base = (replace(part, seeds=(seed,), single=True, setting="success") for part in (line, raw))
            rows.append(_without_test(experiment, one, base, {"success": printed[number]} if known else None))
    return rows


@row_of_runs
def _without_test(experiment: Experiment, one: Line, base: Line, printed: Mapping[str, float] | None) -> TableRow:
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
    costs = [line.cost for line in baselines() if line.cost in JUDGED]
    judged = every(lambda cost: _judged(experiment, [Setting(member, cost) for member in LEWM]), costs)
    found = dict(zip(costs, judged, strict=True))
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


def _judged(experiment: Experiment, settings: Sequence[Setting]) -> Values:
    """What logs, SASC and closed loops say of a cost."""

    def by_logs(setting: Setting) -> np.ndarray:
        run = logged_run(experiment, setting, HELD_OUT_LOGS, GOALS)
        return require_rows(run, {"goal": list(range(GOALS))}, ("rho_logged",))["rho_logged"]

    judges: dict[str, Callable[[], np.ndarray]] = {
        "rho_logged": lambda: np.stack(every(by_logs, settings)),
        "rho_geo": lambda: ranked(experiment, settings)["rho_geo"],
        "success": lambda: measured(experiment, settings)["success"],
    }
    return dict(zip(judges, every(lambda judge: judge(), judges.values()), strict=True))


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


def probe_rows(experiment: Experiment) -> Rows:
    """The paper's split of rows, and one of whole episodes."""
    logs = experiment.logs
    drawn = generator(0, "probe").permutation(logs.rows)[:PROBE_ROWS]
    splits = {
        "split by rows": (drawn[: len(drawn) * 4 // 5], drawn[len(drawn) * 4 // 5 :]),
        "split by episodes": episode_split(logs, PROBE_ROWS),
    }
    return [
        _probe_row(experiment, split, fitted, held, member)
        for split, (fitted, held) in splits.items()
        for member in LEWM
    ]


@row_of_runs
def _probe_row(experiment: Experiment, split: str, fitted: np.ndarray, held: np.ndarray, member: Member) -> TableRow:
    logs = experiment.logs

    def compute(_: Path) -> Columns:
        states = experiment.task.coordinates(np.asarray(logs.columns["state"]))
        latents = experiment.latents(member.model).values
        read = fit_probe(latents[fitted], states[fitted])(latents[held]).numpy()
        columns = {"row": held, "episode": logs.episode_of(held)}
        for axis in range(states.shape[1]):
            columns |= {f"true_{axis}": states[held, axis], f"read_{axis}": read[:, axis]}
        return columns

    config = {**experiment.inputs(member.model), "rows": PROBE_ROWS, "split": split}
    table = experiment.run("probe", f"{member.label}-{split.replace(' ', '-')}", config, compute).table()
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
        paper=paper.PROBE[member.seed] if split == "split by rows" else None,
        seed=member.seed,
        setting=split,
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


def temporal_rows(experiment: Experiment) -> Rows:
    """Logged gaps against the true distance."""
    task, member = experiment.task, LEWM[0]

    def compute(_: Path) -> Columns:
        pairs = experiment.pairs(member, PAPER_HEAD, member.seed).train
        states = experiment.logs.columns["state"]
        first, second = (states[rows.numpy()] for rows in (pairs.first, pairs.second))
        return {
            "gap": pairs.gap.numpy().astype(np.int16),
            "distance": task.distance(first, second),
            "crosses": task.groups(first, second)["cross wall"],
            "episode": experiment.logs.episode_of(pairs.first.numpy()).astype(np.int32),
        }

    config = {**experiment.inputs(member.model), "head": PAPER_HEAD, "pair_seed": member.seed}
    table = experiment.run("labels", member.label, config, compute).table()
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
