"""`reachcost bench`: how fast it is, beside a peer, and how cost grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from reachcost.commands import console, require_least, require_writable
from reachcost.errors import ReachcostError


def bench(
    against: Literal["swm"] | None = None,
    only: tuple[str, ...] = (),
    repeats: int | None = None,
    growth: bool = False,
    out: Path | None = None,
) -> None:
    """Measure speed beside a peer, each in turn in one process; fails where it is slower than promised.

    Run it on an idle machine with two cores or more: a quarter of an hour there, with `--against swm` or `--growth`.

    Args:
        against: `swm` measures against stable-worldmodel, too (pip install 'reachcost[swm]').
        only: Names of comparisons, or how they begin (`plan`); a wrong one lists them. By default all.
        repeats: Times that each side is measured; by default 3 to 15, more for what is short.
        growth: Measure instead how time and memory of ours grow with candidates, horizon, episodes, latent size, pairs
            and log rows; fails where one of them grows faster than promised. It needs 3 GB for files of its own.
        out: Directory for the record, benchmarks/bench.json in it, or growth.json and figures/growth.png; by default
            nothing is kept.
    """
    if growth:
        if against or only or repeats is not None:
            raise ReachcostError("--growth measures ours alone, all of it: leave out --against, --only and --repeats")
        _growth(out)
    else:
        _beside_peers(against, only, repeats, out)


def _beside_peers(against: Literal["swm"] | None, only: tuple[str, ...], repeats: int | None, out: Path | None) -> None:
    from reachcost.core.progress import ConsoleProgress
    from reachcost.swm.package import import_stable_worldmodel
    from reachcost_tools.bench.record import broken_promises, path_in, run, write
    from reachcost_tools.bench.registry import all_entries, chosen

    require_least(1, repeats=repeats)
    entries = all_entries()
    measured = chosen(entries, only, against)
    if against is not None:
        import_stable_worldmodel()
    if out is not None:
        require_writable(path_in(out).parent)
        if only and path_in(out).exists():
            raise ReachcostError(f"{path_in(out)} is a whole record, and --only measures a part: choose another --out")
    left_out = [] if against else [entry.name for entry in entries if entry.against is not None]
    if left_out and not only:
        console.print(f"{len(left_out)} comparisons with stable-worldmodel are left out: add --against swm")
    _warn_if_busy()
    record = run(measured, against, repeats, ConsoleProgress(console), left_out)
    for name, line in record["entries"].items():
        console.print(_line(name, line, record["targets"].get(name)), markup=False, highlight=False, soft_wrap=True)
    console.print(_machine(record), markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        console.print(str(write(record, out)), highlight=False, soft_wrap=True)
    if broken := broken_promises(record):
        raise ReachcostError(f"slower than promised: {'; '.join(broken)}. Repeat it on an idle machine, then profile")


def _growth(out: Path | None) -> None:
    from reachcost.core.progress import ConsoleProgress
    from reachcost_tools.bench.growth.record import broken_promises, path_in, picture_in, run, table, write
    from reachcost_tools.bench.growth.registry import all_curves

    if out is not None:
        require_writable(path_in(out).parent, picture_in(out).parent)
    _warn_if_busy()
    record = run(all_curves(), ConsoleProgress(console))
    for line in [*table(record), f"{record['machine']}; an idle process holds {record['idle_memory_mb']:,} MB"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for path in write(record, out) if out is not None else ():
        console.print(str(path), highlight=False, soft_wrap=True)
    if broken := broken_promises(record):
        raise ReachcostError(f"not as promised: {'; '.join(broken)}. Repeat it on an idle machine, then profile")


def _warn_if_busy() -> None:
    from reachcost_tools.bench.record import BUSY, load_per_core

    if (load := load_per_core()) > BUSY:
        console.print(
            f"the machine is busy (load {load:.1f} a core), which distorts times, most of all of two threads: "
            "repeat it on an idle one",
            style="yellow",
            soft_wrap=True,
        )


def _line(name: str, line: dict[str, Any], promised: float | None) -> str:
    """What a comparison found, in one line: names are too long for a table."""
    words = [
        f"{name}: {_time(line['ours_seconds'])} a {line['unit']}, peer {_time(line['peer_seconds'])}",
        f"{line['ratio']:.3g} times as fast ({line['ratio_least']:.3g} to {line['ratio_most']:.3g})",
    ]
    if promised is not None:
        words.append(f"promised {promised:g}")
    if "share_of_matmul_peak" in line:
        words.append(f"{line['share_of_matmul_peak']:.0%} of the matmul peak")
    return ", ".join(words)


def _time(seconds: float) -> str:
    unit, name = next(((size, name) for size, name in ((1, "s"), (1e-3, "ms")) if seconds >= size), (1e-6, "us"))
    return f"{seconds / unit:.3g} {name}"


def _machine(record: dict[str, Any]) -> str:
    told = ", ".join(f"{peak:g} GFLOP/s with {threads}" for threads, peak in record["matmul_peak_gflops"].items())
    return f"{record['machine']}; matmul peak by threads: {told}; at most {record['peak_memory_mb']:,} MB"
