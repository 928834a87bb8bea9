"""`reachcost bench`: speed compared with a peer, and growth of time and memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from reachcost.commands import console
from reachcost.commands.options import require_least, require_writable
from reachcost.core.progress import ConsoleProgress
from reachcost.errors import ReachcostError


def bench(
    against: Literal["swm"] | None = None,
    only: tuple[str, ...] = (),
    repeats: int | None = None,
    growth: bool = False,
    out: Path | None = None,
) -> None:
    """Compare speed with a peer, in turns in one process; fail if a ratio is below its target.

    Run it on an idle machine with two cores or more. It takes a quarter of an hour with `--against swm` or `--growth`.

    Args:
        against: `swm` also compares with stable-worldmodel (pip install 'reachcost[swm]').
        only: Names of comparisons, or beginnings of names (`plan`); by default all. An unknown name lists them.
        repeats: Number of measurements of each side; by default 3 to 15, more for short comparisons.
        growth: Measure how time and memory grow with candidates, horizon, episodes, latent size, pairs and log rows;
            fail if one of them grows faster than its target. It needs 3 GB of disk.
        out: Directory of the record: benchmarks/bench.json, or benchmarks/growth.json and figures/growth.png. By
            default nothing is written.
    """
    if not growth:
        _compare(against, only, repeats, out)
    elif against or only or repeats is not None:
        raise ReachcostError("--growth measures reachcost alone: leave out --against, --only and --repeats")
    else:
        _grow(out)


def _compare(against: Literal["swm"] | None, only: tuple[str, ...], repeats: int | None, out: Path | None) -> None:
    from reachcost.swm.evaluation import import_stable_worldmodel
    from reachcost_tools.bench.record import all_entries, chosen, missed_targets, path_in, run, write

    require_least(1, repeats=repeats)
    entries = all_entries()
    measured = chosen(entries, only, against)
    if against is not None:
        import_stable_worldmodel()
    if out is not None:
        require_writable(path_in(out).parent)
        if only and path_in(out).exists():
            raise ReachcostError(f"{path_in(out)} is a full record, and --only measures a part: choose another --out")
    left_out = [] if against else [entry.name for entry in entries if entry.against is not None]
    if left_out and not only:
        console.print(f"{len(left_out)} comparisons with stable-worldmodel are left out: add --against swm")
    _warn_if_busy()
    record = run(measured, against, repeats, ConsoleProgress(console), left_out)
    _print(_row(name, row, record["targets"].get(name)) for name, row in record["entries"].items())
    _print([_machine(record), *([write(record, out)] if out is not None else [])])
    if broken := missed_targets(record):
        raise ReachcostError(f"slower than the target, {'; '.join(broken)}: repeat on an idle machine, then profile")


def _grow(out: Path | None) -> None:
    from reachcost_tools.bench.growth import all_curves, figure_in, missed_targets, path_in, run, table, write

    if out is not None:
        require_writable(path_in(out).parent, figure_in(out).parent)
    _warn_if_busy()
    record = run(all_curves(), ConsoleProgress(console))
    _print([*table(record), f"{record['machine']}; an idle process holds {record['idle_memory_mb']:,} MB"])
    _print(write(record, out) if out is not None else ())
    if broken := missed_targets(record):
        raise ReachcostError(f"over the target, {'; '.join(broken)}: repeat on an idle machine, then profile")


def _warn_if_busy() -> None:
    from reachcost_tools.bench.record import BUSY, load_per_core

    if (load := load_per_core()) > BUSY:
        warning = f"the machine is busy (load {load:.1f} a core), which distorts times: repeat it on an idle one"
        console.print(warning, style="yellow", soft_wrap=True)


def _print(lines: Iterable[object]) -> None:
    for line in lines:
        console.print(str(line), markup=False, highlight=False, soft_wrap=True)


def _row(name: str, row: dict[str, Any], target: float | None) -> str:
    """A comparison in one line, as names are too long for a table."""
    words = [
        f"{name}: {_time(row['ours_seconds'])} a {row['unit']}, peer {_time(row['peer_seconds'])}",
        f"{row['ratio']:.3g} times as fast ({row['ratio_least']:.3g} to {row['ratio_most']:.3g})",
    ]
    if target is not None:
        words.append(f"target {target:g}")
    if "share_of_matmul_peak" in row:
        words.append(f"{row['share_of_matmul_peak']:.0%} of the matmul peak")
    return ", ".join(words)


def _time(seconds: float) -> str:
    unit, name = next(((size, name) for size, name in ((1, "s"), (1e-3, "ms")) if seconds >= size), (1e-6, "us"))
    return f"{seconds / unit:.3g} {name}"


def _machine(record: dict[str, Any]) -> str:
    peaks = ", ".join(f"{peak:g} GFLOP/s with {threads}" for threads, peak in record["matmul_peak_gflops"].items())
    return f"{record['machine']}; matmul peak by threads: {peaks}; at most {record['peak_memory_mb']:,} MB"
