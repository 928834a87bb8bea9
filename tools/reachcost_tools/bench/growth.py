"""How time and memory grow with the size of the work: curves, record and figure of `reachcost bench --growth`.

Long logs hold one number per row, and their encoder is cheap: rendering and encoding ten million frames would take half
an hour and measure that encoder alone.
"""

import json
import math
import multiprocessing
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.ticker import EngFormatter
from torch import Tensor

from reachcost.core.files import write_file
from reachcost.core.machine import machine, versions
from reachcost.core.progress import Progress
from reachcost.core.seeding import EpisodeStreams
from reachcost.costs.latent import LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.planning.planner import PlanContext
from reachcost.protocols import Observations
from reachcost.results.figures import TITLE_SIZE, new_figure, write_picture
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_tools.bench.comparison import Side, peak_memory, rounded, seconds_of
from reachcost_tools.bench.models import BLOCKS, compact
from reachcost_tools.bench.record import load_per_core

Prepare = Callable[[int, Path], Callable[[], object]]
"""Returns the work of a size, which may write into a directory; a module's function, as another process imports it."""
LINEAR = 1.1
"""Maximum exponent that counts as linear: timers and caches are not exact."""
MOST_MEMORY = 2000
"""Maximum megabytes of any work, whatever its size."""
LONG = 20.0
"""Seconds from which work is done once; shorter work is repeated, as the first time takes longer."""
ENOUGH, REPEATS = 3.0, 20
"""Seconds, or number of times, after which work is not repeated."""
LINE, GREY, COLUMNS = "#1b3a57", "0.45", 3
"""Colours and columns of the figure."""


@dataclass(frozen=True)
class Curve:
    """Some work at several sizes: a row of the record."""

    name: str
    says: str
    """Settings that are equal at all sizes."""
    unit: str
    """Unit of the sizes."""
    sizes: tuple[int, ...]
    """Ascending."""
    prepare: Prepare
    """Makes the work of a size. It is not timed."""
    most: float = LINEAR
    """Target: maximum exponent of time against size."""


class Point(NamedTuple):
    """Time and memory of one size."""

    seconds: float
    """On one thread, the minimum of the repeats."""
    memory: float
    """Peak megabytes of the process, preparation included."""


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """Slope of log values against log sizes over the upper half of the sizes; None for fewer than two."""
    upper = slice(len(sizes) // 2, None)
    x, y = ([math.log2(number) for number in numbers[upper]] for numbers in (sizes, values))
    return statistics.linear_regression(x, y).slope if len(x) > 1 else None


def in_new_process(prepare: Prepare, size: int) -> Point:
    """Measure a size in a new process, whose peak memory includes nothing else; its exceptions are raised here."""
    with (
        TemporaryDirectory(prefix="reachcost-growth-") as directory,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process,
    ):
        return process.submit(measured, prepare, size, Path(directory)).result()


def measured(prepare: Prepare, size: int, directory: Path) -> Point:
    """Measure a size in this process."""
    side = Side(prepare(size, directory), threads=1)
    seconds = [seconds_of(side)]
    while seconds[0] < LONG and sum(seconds[1:]) < ENOUGH and len(seconds) < REPEATS:
        seconds.append(seconds_of(side))
    return Point(min(seconds), peak_memory())


def idle(_: int, __: Path) -> Callable[[], object]:
    """No work, in a process that has imported what all curves need."""
    return lambda: None


def path_in(out: Path) -> Path:
    """Path of the record."""
    return out / "benchmarks" / "growth.json"


def figure_in(out: Path) -> Path:
    """Path of its figure."""
    return out / "figures" / "growth.png"


def run(curves: Sequence[Curve], progress: Progress) -> dict[str, Any]:
    """Measure curves and return the record; sizes that fail are in `failed` and not in their curve."""
    load = load_per_core()
    nothing = in_new_process(idle, 0)
    rows: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for curve in curves:
        progress.step(curve.name)
        points: dict[int, Point] = {}
        for size in progress.track(curve.sizes, "sizes"):
            try:
                points[size] = in_new_process(curve.prepare, size)
            except Exception as error:  # the other sizes can be measured
                failed[f"{curve.name}, {size:,} {curve.unit}"] = f"{type(error).__name__}: {error}"
        rows[curve.name] = _row(curve, points)
    return {
        "machine": machine(),
        "load_per_core_before": round(load, 2),
        "versions": versions(),
        "threads": 1,
        "idle_memory_mb": round(nothing.memory),
        "most_memory_mb": MOST_MEMORY,
        "curves": rows,
        "failed": failed,
    }


def _row(curve: Curve, points: dict[int, Point]) -> dict[str, Any]:
    seconds = [point.seconds for point in points.values()]
    slope = exponent([*points], seconds)
    return {
        "says": curve.says,
        "unit": curve.unit,
        "sizes": [*points],
        "seconds": [rounded(time) for time in seconds],
        "peak_memory_mb": [round(point.memory) for point in points.values()],
        "slope": None if slope is None else round(slope, 2),
        "slope_promised": curve.most,
    }


def missed_targets(record: dict[str, Any]) -> list[str]:
    """Curves that grow faster than their target, hold more memory, or failed."""
    broken = []
    for name, row in record["curves"].items():
        if row["slope"] is not None and row["slope"] > row["slope_promised"]:
            broken.append(f"{name} grows with exponent {row['slope']:g}, target {row['slope_promised']:g}")
        if max(row["peak_memory_mb"], default=0) > record["most_memory_mb"]:
            held = max(row["peak_memory_mb"])
            broken.append(f"{name} holds {held:,} MB, target {record['most_memory_mb']:,}")
    return [*broken, *(f"{where} failed ({why})" for where, why in record["failed"].items())]


def table(record: dict[str, Any]) -> list[str]:
    """The record as lines of a Markdown table, as docs/speed.md shows it."""
    heading = ["| work | size | seconds | exponent | target | MB |", "| --- | --- | --- | ---: | ---: | ---: |"]
    return heading + [
        f"| {name} | {_ends(row['sizes'])} {row['unit']} | {_ends(row['seconds'])} | {row['slope']:.2f} "
        f"| {row['slope_promised']:g} | {_ends(row['peak_memory_mb'])} |"
        for name, row in record["curves"].items()
        if row["slope"] is not None
    ]


def _ends(numbers: Sequence[float]) -> str:
    return " to ".join(f"{number:,.0f}" if number >= 100 else f"{number:.3g}" for number in (numbers[0], numbers[-1]))


def write(record: dict[str, Any], out: Path) -> list[Path]:
    """Write the record below a directory and, unless everything failed, its figure; return their paths."""
    write_file(path_in(out), json.dumps(record, indent=2) + "\n")
    drawn = {name: row for name, row in record["curves"].items() if row["sizes"]}
    if not drawn:
        return [path_in(out)]
    _draw(drawn, record, figure_in(out))
    return [path_in(out), figure_in(out)]


def _draw(curves: Mapping[str, dict[str, Any]], record: dict[str, Any], path: Path) -> None:
    """Write a PNG with a panel of time and one of memory below it for each curve."""
    rows, most = -(-len(curves) // COLUMNS), record["most_memory_mb"]
    figure = new_figure(3.7 * COLUMNS, 0.9 + 3.6 * rows, "How time and memory grow, one thread")
    panels = figure.subplots(2 * rows, COLUMNS, squeeze=False, gridspec_kw={"height_ratios": [2, 1] * rows})
    for number, (title, curve) in enumerate(curves.items()):
        row, column = divmod(number, COLUMNS)
        time, memory = panels[2 * row : 2 * row + 2, column]
        sizes, seconds = curve["sizes"], curve["seconds"]
        time.loglog(sizes, seconds, "o-", color=LINE, label="time")
        time.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color=GREY, label="linear growth")
        time.set_title(title, fontsize=TITLE_SIZE)
        time.set_ylabel("seconds")
        memory.semilogx(sizes, curve["peak_memory_mb"], "s-", color=LINE, label="peak memory")
        memory.axhline(record["idle_memory_mb"], color=GREY, linestyle=":", label="idle process")
        memory.axhline(most, color=GREY, linestyle="-.", label="maximum")
        memory.set(xlabel=curve["unit"], ylabel="MB", ylim=(0, 1.1 * most))
        time.set_xticks(sizes, [])
        memory.set_xticks(sizes, map(EngFormatter(sep=""), sizes))
    for axes in panels.flat:
        axes.grid(color="0.9")
        axes.xaxis.set_minor_formatter("")
        axes.set_visible(axes.has_data())
    marks = [mark for axes in panels[:2, 0] for mark in axes.get_legend_handles_labels()[0]]
    figure.legend(handles=marks, loc="outside lower center", ncols=5, frameon=False)
    write_picture(figure, path)


FEW = CEM(iterations=2)
"""Planner of many plans: ten rounds would take minutes."""
LATENT_DIM, STEPS = 64, 50
PAIRS, ROWS = 100_000, 100_000
"""Number of each while the other grows."""
MANY = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000)
"""The most rows are 2.6 GB of latents, more than may be held in memory."""
TRAINED = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
EPOCH = Recipe(epochs=1)


def all_curves() -> list[Curve]:
    """Every curve, in the order of the record."""
    wave, rows, pairs = f"latents of {LATENT_DIM} numbers", f"{ROWS:,} log rows", f"{PAIRS:,} pairs"
    control_call = f"one call of control, one plan of {FEW.candidates} candidates x {FEW.iterations} rounds each"
    widths, sizes = "one plan, 300 candidates x 10 rounds x 5 blocks, random weights", (64, 128, 256, 512, 768)
    by_candidates, by_horizon = "one plan, 10 rounds x 5 blocks", "one plan, 300 candidates x 10 rounds"
    return [
        Curve("plan by candidates", by_candidates, "candidates", (30, 100, 300, 1000, 3000), _plan_by_candidates),
        Curve("plan by horizon", by_horizon, "action blocks", (1, 2, 5, 10, 20), _plan_by_horizon),
        Curve("control by episodes", control_call, "episodes", (1, 4, 20, 100, 400), _control_by_episodes),
        # layers are D x D, and their weights no longer fit into a cache
        Curve("plan by latent size", widths, "numbers in a latent", sizes, _plan_by_latent_size, most=2.0),
        Curve("drawing by pairs", f"TemporalPairs of {rows}, {wave}", "pairs", MANY, _sampling_by_pairs),
        Curve("fitting by pairs", f"an epoch of fit, {rows}, {wave}", "pairs", TRAINED, _fitting_by_pairs),
        Curve("encoding by log rows", f"encode_logs with a cheap encoder, {wave}", "log rows", MANY, _encoding_by_rows),
        Curve("drawing by log rows", f"TemporalPairs, {pairs}, {wave}", "log rows", MANY, _sampling_by_rows),
        Curve("fitting by log rows", f"an epoch of fit, {pairs}, {wave}", "log rows", MANY, _fitting_by_rows),
    ]


def _plan_by_candidates(size: int, _: Path) -> Callable[[], object]:
    return _plan(compact(), CEM(candidates=size, elites=size // 10))


def _plan_by_horizon(size: int, _: Path) -> Callable[[], object]:
    return _plan(compact(), CEM(horizon=size))


def _plan_by_latent_size(size: int, _: Path) -> Callable[[], object]:
    return _plan(JepaWorldModel(CompactParts(CompactArchitecture(latent_dim=size)), BLOCKS), CEM())


def _plan(model: JepaWorldModel, planner: CEM) -> Callable[[], object]:
    start, goal = torch.randn(2, 1, model.latent_dim, generator=torch.Generator().manual_seed(0))

    def work() -> object:
        streams = EpisodeStreams(0, "plan", [0], 0)
        return planner.plan(PlanContext(model, LatentMSE(), start[:, None], goal, streams))

    return work


def _control_by_episodes(size: int, _: Path) -> Callable[[], object]:
    """Starts and goals of the first world, repeated as needed; rendering, encoding and execution included."""
    task = make_task()
    known = task.evaluation_set(task.sets[0])
    starts, goals = (np.resize(states, (size, *states.shape[1:])) for states in (known.starts, known.goals))
    budget = FEW.horizon * BLOCKS.length
    return partial(control, task, compact(), {"raw": LatentMSE()}, EvaluationSet(starts, goals), FEW, budget=budget)


class _Waves:
    """A world model with a cheap encoder, in which nothing moves."""

    latent_dim, action_dim, fingerprint = LATENT_DIM, 2, "waves-1"

    def encode(self, observations: Observations) -> Tensor:
        return torch.sin(torch.from_numpy(observations["state"]) * torch.arange(1, LATENT_DIM + 1))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        return context[:, -1, None].expand(-1, actions.shape[1], -1)


def _sampling_by_pairs(size: int, directory: Path) -> Callable[[], object]:
    return partial(TemporalPairs, _encoded(ROWS, directory), size)


def _fitting_by_pairs(size: int, directory: Path) -> Callable[[], object]:
    return partial(fit, TemporalPairs(_encoded(ROWS, directory), size), EPOCH)


def _encoding_by_rows(size: int, directory: Path) -> Callable[[], object]:
    def work() -> object:
        rmtree(directory, ignore_errors=True)  # kept latents would be read instead
        return _encoded(size, directory)

    return work


def _sampling_by_rows(size: int, directory: Path) -> Callable[[], object]:
    return partial(TemporalPairs, _encoded(size, directory), PAIRS)


def _fitting_by_rows(size: int, directory: Path) -> Callable[[], object]:
    return partial(fit, TemporalPairs(_encoded(size, directory), PAIRS), EPOCH)


def _encoded(rows: int, directory: Path) -> Latents:
    """Latents of episodes that are all the same wave, kept in a directory."""
    wave = np.linspace(0, 1, STEPS, dtype=np.float32)
    logs = Logs({"state": np.resize(wave, (rows, 1))}, np.full(rows // STEPS, STEPS))
    return encode_logs(_Waves(), logs, cache=directory)
