"""Cause faults on purpose and count wrong outcomes: `python -m reachcost_tools.faults`, or `make faults`."""

import json
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Timer

import tyro
from rich.console import Console

from reachcost.core.files import write_file
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

    Right are the undisturbed bytes, or one clear sentence and a non-zero exit code. Exits with 1 if anything is wrong.

    Args:
        only: Classes to try; by default all.
        tries: Number of attempts of each class; by default set by the class.
        out: Directory whose faults.json is updated.
        jobs: Number of classes that run at a time; by default one for each core.
    """
    if unknown := [name for name in only if name not in CLASSES]:
        sys.exit(f"{unknown[0]!r} is not a class of faults: choose among {', '.join(CLASSES)}")
    counts = {name: tries or chosen.count for name, chosen in CLASSES.items() if name in (only or CLASSES)}
    console, found = Console(), dict[str, list[Attempt]]()
    progress = ConsoleProgress(console)
    progress.step("faults")
    if CHROMIUM is None and {"mutated", "hostile"} & counts.keys():
        progress.say(MISSING)
    running: list[subprocess.Popen[str]] = []
    with (
        tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as scratch,
        ThreadPoolExecutor(jobs or cores()) as pool,
    ):
        futures = [pool.submit(_try_class, name, count, Path(scratch), running) for name, count in counts.items()]
        try:
            done = as_completed(futures)
            for _ in progress.track(range(len(futures)), "classes"):
                name, found[name] = next(done).result()
                _record(out / "faults.json", name, found[name])
                for one in found[name]:
                    if one.wrong:
                        progress.say(f"wrong: {name}, {one.what}: {one.wrong}")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
    right = (f"{name} {sum(not one.wrong for one in found[name])} of {len(found[name])}" for name in counts)
    console.print(f"right: {', '.join(right)}", markup=False, highlight=False, soft_wrap=True)
    return int(any(one.wrong for tried in found.values() for one in tried))


def _try_class(name: str, count: int, scratch: Path, running: list[subprocess.Popen[str]]) -> tuple[str, list[Attempt]]:
    """The attempts of a class, made in a separate process; it is wrong, too, if this process ends before the last."""
    command = [sys.executable, *WORKER, name, str(count), str(scratch / name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        running.append(process)
        timer = Timer(TIMEOUT, process.kill)
        timer.start()
        output, errors = process.communicate()
        timer.cancel()
    tried = [Attempt(**json.loads(line)) for line in output.splitlines()]
    if process.returncode or len(tried) != count:
        last = (errors.strip().splitlines() or [""])[-1]
        tried.append(Attempt(f"all from try {len(tried)} on", f"ended with code {process.returncode}: {last}"))
    return name, tried


def _record(path: Path, name: str, tried: list[Attempt]) -> None:
    """Put the counts of a class into the record; counts of other classes stay."""
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
