"""The parsers under atheris, which generates inputs that reach new lines of them. Needs the extra `faults`."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from reachcost.errors import ReachcostError
from reachcost_tools.faults.classes import Attempt

TIMEOUT = 900
"""Seconds of one parser."""
LEAST = "task = 'tworoom'\nmodels = ['m']\n"
"""The shortest sweep."""


def parsers() -> dict[str, tuple[Callable[[bytes], object], list[bytes]]]:
    """Parsers by name, each with its first inputs; imported here, as atheris must see their imports."""
    from reachcost.core.json_files import parse_json
    from reachcost.experiments.sweep import read_sweep
    from reachcost.explorer.engine import PlanRequest
    from reachcost.worldmodels.public_config import read_architecture
    from reachcost_tools.faults.formats.models import PUBLIC
    from reachcost_tools.faults.formats.records import SWEEP

    def plain(data: bytes) -> Any:
        try:
            return parse_json(data)
        except ValueError as error:  # callers make it a sentence
            raise ReachcostError(str(error)) from error

    def swept(data: bytes) -> object:
        found = read_sweep("sweep.toml", data.decode(errors="replace"))
        return found.head_plans(), found.all_planners(None)

    def public(data: bytes) -> object:
        return read_architecture(Path("config.json"), plain(data))

    request = {"model": "m", "cost": "raw", "layout": {"door": 0.5}, "start": [1, 2], "goal": [3, 4]}
    request |= {"candidates": 20, "iterations": 3, "seed": 0}
    bare = {name: part for name, part in PUBLIC.items() if name not in ("projector", "pred_proj")}
    likes = "".join(f"[planners.{like}]\nlike = '{like}'\n" for like in ("replanning", "improved", "mppi"))
    requests, configs = ({**request, "layout": {}, "seed": -1}, request), (PUBLIC, bare)
    return {
        "JSON": (plain, [b'{"a": [1, 2.5e3, "\\u00e9", null, true]}', b"[[[]], -0.0, 1E-7]", b'"\\ud83d\\ude00"']),
        "explore": (PlanRequest.parse, [json.dumps(one).encode() for one in requests]),
        "sweep": (swept, [SWEEP.encode(), f"{LEAST}hybrids = [0.5, 1]\n{likes}".encode(), LEAST.encode()]),
        "public config": (public, [json.dumps(one).encode() for one in configs]),
    }


def fuzzed(count: int, scratch: Path) -> Iterator[Attempt]:
    """Feed the parsers this number of inputs in total, each parser in its own process.

    After a crash, all inputs of that parser count as wrong.
    """
    names = [*parsers()]
    for number, name in enumerate(names):
        runs = count // len(names) + (number < count % len(names))
        place = scratch / name.replace(" ", "-")
        place.mkdir(parents=True)
        command = [sys.executable, "-m", "reachcost_tools.faults.parsers", name, str(place), str(runs)]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
        lines = f"{ended.stdout}\n{ended.stderr}".strip().splitlines()  # atheris prints exceptions to the former
        crash = next((line for line in lines if "Error" in line or "Exception" in line), " / ".join(lines[-2:]))
        for run in range(runs):
            yield Attempt(f"{name}: input {run} of atheris", crash[:300] if ended.returncode else "")


def feed(parse: Callable[[bytes], object], data: bytes) -> None:
    """Feed a parser, which may raise a `ReachcostError` with a message and nothing else."""
    try:
        parse(data)
    except ReachcostError as error:
        if not str(error):
            raise AssertionError("a refusal without a message") from error


def _fuzz(name: str, place: Path, runs: int) -> None:
    """Let atheris feed one parser; an unexpected exception ends the process."""
    atheris: Any = import_module("atheris")  # it has no types, and is not always installed
    with atheris.instrument_imports(include=["reachcost", "json", "tomllib"]):
        parse, seeds = parsers()[name]
    for number, seed in enumerate(seeds):
        (place / str(number)).write_bytes(seed)

    crashes = f"-artifact_prefix={place}-"  # next to the inputs
    options = [f"-runs={runs}", "-max_len=4096", "-timeout=20", "-seed=1", crashes]
    atheris.Setup([sys.argv[0], *options, str(place)], lambda data: feed(parse, data))
    atheris.Fuzz()


if __name__ == "__main__":
    _fuzz(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
