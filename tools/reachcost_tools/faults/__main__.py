"""Cause faults on purpose and count wrong outcomes: `python -m reachcost_tools.faults`, or `make faults`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Timer

import tyro
from rich.console import Console

from reachcost.core.atomic import write_file
from reachcost.core.json_files import read_json
from reachcost.core.machine import cores
from reachcost.core.progress import ConsoleProgress
from reachcost_tools.faults.browser import CHROMIUM, MISSING
from reachcost_tools.faults.classes import CLASSES, Attempt

WORKER = ("-m", "reachcost_tools.faults.classes")
TIMEOUT = 3600.0
"""Seconds after which the attempts of a class are ended."""


def faults(
    only: tuple[str, ...] = (), tries: int | None = None, out: Path = Path("results"), jobs: int | None = None
) -> int:
    """Cause faults, and record for each class the number of attempts and of wrong outcomes.

    Right are the undisturbed bytes, or one clear sentence and a non-zero exit. Ends with 1 if anything is wrong.

    Args:
        only: Classes to try; by default all.
        tries: Number of attempts of each class; by default set by the class.
        out: Directory whose faults.json is updated.
        jobs: Number of classes that run at a time; by default one for each core.
    """
    if unknown := [name for name in only if name not in CLASSES]:
        sys.exit(f"there is no class {unknown[0]!r}: choose among {', '.join(CLASSES)}")
    counts = {name: tries or chosen.count for name, chosen in CLASSES.items() if name in (only or CLASSES)}
    console, found = Console(), {name: list[Attempt]() for name in counts}
    progress = ConsoleProgress(console)
    progress.step("faults")
    if CHROMIUM is None and {"mutated", "hostile"} & counts.keys():
        progress.say(MISSING)
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as scratch:
        steps = iter(progress.track(range(sum(counts.values())), "tries"))
        for name, attempt in _attempts(counts, Path(scratch), jobs or cores()):
            if attempt is None:
                _record(out / "faults.json", name, found[name])
                continue
            next(steps, None)
            found[name].append(attempt)
            if attempt.wrong:
                progress.say(f"wrong: {name}, {attempt.what}: {attempt.wrong}")
    wrong = [f"{name}, {one.what}: {one.wrong}" for name, tried in found.items() for one in tried if one.wrong]
    right = ", ".join(f"{name} {sum(not one.wrong for one in tried)} of {len(tried)}" for name, tried in found.items())
    console.print("right:", right, *wrong, sep="\n", markup=False, highlight=False, soft_wrap=True)
    return 1 if wrong or any(len(tried) != counts[name] for name, tried in found.items()) else 0


def _attempts(counts: Mapping[str, int], scratch: Path, jobs: int) -> Iterator[tuple[str, Attempt | None]]:
    """Every attempt with its class, each class in its own process; None at the end of a class."""
    results: Queue[tuple[str, Attempt | None]] = Queue()
    running: list[subprocess.Popen[str]] = []
    pool = ThreadPoolExecutor(jobs)
    for name, count in counts.items():
        pool.submit(_try_class, name, count, scratch / name, results, running)
    left = len(counts)
    try:
        while left:
            name, attempt = results.get()
            left -= attempt is None
            yield name, attempt
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.kill()


def _try_class(
    name: str,
    count: int,
    scratch: Path,
    results: Queue[tuple[str, Attempt | None]],
    running: list[subprocess.Popen[str]],
) -> None:
    """Pass on the attempts of a class; a process that ends before all are made is wrong, too."""
    command = [sys.executable, *WORKER, name, str(count), str(scratch)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        running.append(process)
        timer = Timer(TIMEOUT, process.kill)
        timer.start()
        done = 0
        for line in process.stdout or ():
            results.put((name, Attempt(**json.loads(line))))
            done += 1
        timer.cancel()
        if process.wait() or done != count:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [""])[-1]
            results.put((name, Attempt(f"all from try {done} on", f"ended with code {process.returncode}: {last}")))
    results.put((name, None))


def _record(path: Path, name: str, tried: list[Attempt]) -> None:
    """Put the counts of a class into the record; those of others stay."""
    known = read_json(path) if path.exists() else {}
    known[name] = {"tries": len(tried), "wrong": sum(bool(one.wrong) for one in tried)}
    ordered = {one: known[one] for one in (*CLASSES, *sorted({*known} - {*CLASSES})) if one in known}
    write_file(path, json.dumps(ordered, indent=2) + "\n")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(tyro.cli(faults, prog="python -m reachcost_tools.faults"))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; classes that were complete are recorded\n")
        sys.exit(130)
