"""What a linear probe reads from latents, and planning with its rowspace: two of 192 directions.

With the probe W z + b, P = W^T (W W^T)^+ W projects onto its rowspace, and I - P onto the residual.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.costs.latent import SubspaceCost
from reachcost.data.logs import Logs
from reachcost.data.probe import PROBE_ROWS, LinearProbe, episode_split, fit_probe, score_readings
from reachcost.experiments.cells import RunSpec
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.study import Member
from reachcost.experiments.tables import TableRows
from reachcost.results.records import Columns, require_rows
from reachcost.results.stats import cluster_bootstrap
from reachcost.results.tables import TableRow
from reachcost_paper.rows import bounds, metric_row
from reachcost_paper.tworoom.control import CONTROLLED
from reachcost_paper.tworoom.settings import FAR_SET, LEWM, NEAR_SET, PAPER, SEEDS

PLACES = {None: "high-distance set", NEAR_SET: "near set", FAR_SET: "far set"}


def row_split(logs: Logs) -> tuple[np.ndarray, np.ndarray]:
    """The paper's split of rows: four fifths to fit, the others to score."""
    sampled = generator(0, "probe").permutation(logs.rows)[:PROBE_ROWS]
    return sampled[: len(sampled) * 4 // 5], sampled[len(sampled) * 4 // 5 :]


SPLITS: dict[str, Callable[[Logs], tuple[np.ndarray, np.ndarray]]] = {
    "split by rows": row_split,
    "split by episodes": episode_split,
}


@dataclass(frozen=True)
class ProbeRun(RunSpec):
    """Positions that a probe reads from held-out latents; rows are log rows."""

    kind: ClassVar[str] = "probe"
    split: str
    """How rows are held out."""
    member: Member

    def name(self, recording: Experiment) -> str:
        return f"{self.member.label}-{self.split.replace(' ', '-')}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {**recording.inputs(self.member.model), "rows": PROBE_ROWS, "split": self.split}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        logs, (fitted, held) = recording.logs, SPLITS[self.split](recording.logs)
        states = recording.task.coordinates(np.asarray(logs.columns["state"]))
        latents = recording.latents(self.member.model).values
        read = fit_probe(latents[fitted], states[fitted])(latents[held]).numpy()
        columns = {"row": held, "episode": logs.episode_of(held)}
        for axis in range(states.shape[1]):
            columns |= {f"true_{axis}": states[held, axis], f"read_{axis}": read[:, axis]}
        return columns


PROBES = [ProbeRun(split, member) for split in SPLITS for member in LEWM]


def probe_rows(experiment: Experiment) -> list[TableRow]:
    rows = []
    for run in PROBES:
        table, seed = experiment.read(run).table(), run.member.seed
        true, read = (
            np.stack([table[f"{name}_{axis}"].to_numpy() for axis in (0, 1)], 1).astype(np.float64)
            for name in ("true", "read")
        )
        ours, interval = asdict(score_readings(read, true)), _interval(read - true, true, table["episode"].to_numpy())
        paper = PAPER["probe"][str(seed)] if run.split == "split by rows" else None
        rows.append(TableRow("probe", "lewm", len(table), ours, interval, paper, seed, run.split))
    return rows


def _interval(error: np.ndarray, states: np.ndarray, episodes: np.ndarray) -> dict[str, list[float]]:
    """Intervals of RMSE and R2 that resample the episodes of the scored rows [N]: errors [N, 2], states [N, 2]."""
    spread = (states - states.mean(0)) ** 2
    columns = np.concatenate([np.ones((len(error), 1)), error**2, spread], axis=1)

    def scores(totals: np.ndarray) -> np.ndarray:
        rmse = np.sqrt(totals[:, 1:3].mean(1) / totals[:, 0])
        return np.stack([rmse, (1 - totals[:, 1:3] / totals[:, 3:]).mean(1)], axis=1)

    low, high = cluster_bootstrap(columns, episodes, scores)
    return {metric: [float(low[place]), float(high[place])] for place, metric in enumerate(("rmse", "r2"))}


def subspace_lines() -> list[RowPlan]:
    lines, raws = [], []
    for name, setting in CONTROLLED.items():
        changes = {"changes": {"evaluation": name}, "setting": setting}
        lines += [
            RowPlan("lewm", cost, {"success": printed[number]}, (seed,), single=True, **changes)
            for cost, printed in PAPER["subspace"].items()
            for number, seed in enumerate(SEEDS)
        ]
        raws.append(RowPlan("lewm", "raw", **changes))
    far = [RowPlan("lewm", cost, setting="high-distance set") for cost in PAPER["subspace"]]
    return [*lines, *far, *bounds([*raws, far[0]])]


def rowspace_share(probe: LinearProbe, terminal: Tensor, goal: Tensor) -> Tensor:
    """Share of the squared difference that lies in the rowspace, for each pool: [B, S, D], [B, D] -> [B]."""
    inside = SubspaceCost(probe)(terminal, goal).sum(1)
    return inside / (terminal - goal[:, None]).square().sum((1, 2))


@dataclass(frozen=True)
class ShareRun(RunSpec):
    """Share of the squared latent difference that lies in the probe's rowspace, in percent; rows are episodes."""

    kind: ClassVar[str] = "subspace"
    member: Member
    evaluation: str | None

    def name(self, recording: Experiment) -> str:
        return f"{self.member.label}-{self.evaluation or recording.study.evaluation}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {**recording.inputs(self.member.model), **recording.evaluation(self.evaluation).record}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        terminal, goal, _distances = recording.pool(self.member, self.evaluation)
        share = rowspace_share(recording.probe(self.member.model), terminal, goal)
        return {"episode": recording.evaluation(self.evaluation).episodes, "mse_share": 100 * share.numpy()}


SHARES = [ShareRun(member, name) for member in LEWM for name in PLACES]


def subspace_rows(experiment: Experiment) -> list[TableRow]:
    rows = [table_row(experiment, line, ("success",)) for line in subspace_lines()]
    for run in SHARES:
        keys = {"episode": experiment.evaluation(run.evaluation).episodes.tolist()}
        values = {"mse_share": require_rows(experiment.read(run), keys, ("mse_share",))["mse_share"][None]}
        printed = {"mse_share": 100 * PAPER["mse-share"]["by_seed"][LEWM.index(run.member)]} if run.evaluation else None
        setting = f"share of latent MSE, {PLACES[run.evaluation]}"
        rows.append(metric_row(experiment, "lewm", "rowspace", run.member.seed, values, printed, setting))
    return rows


SUBSPACE = TableRows(
    lambda experiment: [*row_runs(experiment, subspace_lines()), *experiment.cells(SHARES)], subspace_rows
)
