"""The pure parsers under atheris, which makes up inputs that reach new lines of them. Needs the extra `faults`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from faults.attempt import Attempt

PATIENCE = 900


def parsers() -> dict[str, tuple[Callable[[bytes], object], list[bytes]]]:
    """By name: what is fed with bytes, and what it begins with."""
    import json

    from faults.formats.models import PUBLIC
    from faults.formats.records import SWEEP
    from reachcost.base.jsons import parse_json
    from reachcost.explore.asked import Asked
    from reachcost.studies.sweep.file import read_sweep
    from reachcost.worldmodels.public_config import read_architecture

    def swept(data: bytes) -> object:
        found = read_sweep("sweep.toml", data.decode(errors="replace"))
        return found.head_plans(), found.all_planners(None)

    def public(data: bytes) -> object:
        return read_architecture(Path("config.json"), parse_json(data))

    asked = {"model": "m", "cost": "raw", "layout": {"door": 0.5}, "start": [1, 2], "goal": [3, 4]}
    asked |= {"candidates": 20, "iterations": 3, "seed": 0}
    return {
        "JSON": (parse_json, [b'{"a": [1, 2.5e3, "\\u00e9", null, true]}']),
        "explore": (Asked.of, [json.dumps(asked).encode()]),
        "sweep": (swept, [SWEEP.encode()]),
        "public config": (public, [json.dumps(PUBLIC).encode()]),
    }


def fuzzed(count: int, scratch: Path) -> Iterator[Attempt]:
    """Feed the parsers with so many inputs in all, each parser in a process of its own."""
    names = [*parsers()]
    for name, runs in zip(names, _shares(count, len(names)), strict=True):
        place = scratch / name.replace(" ", "-")
        place.mkdir(parents=True)
        command = [sys.executable, "-m", "faults.parsed", name, str(place), str(runs)]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        lines = ended.stderr.strip().splitlines()
        found = next((line for line in lines if "Error" in line or "Exception" in line), " / ".join(lines[-2:]))
        for number in range(runs):
            last = number == runs - 1
            yield Attempt(f"{name}: input {number} of atheris", found[:300] if ended.returncode and last else "")


def _shares(count: int, parts: int) -> list[int]:
    return [count // parts + (number < count % parts) for number in range(parts)]


def _feed(name: str, place: Path, runs: int) -> None:
    """Let atheris feed one parser; what a parser may raise is one kind of error, all else ends the process."""
    atheris: Any = import_module("atheris")  # it has no types, and is not always installed
    with atheris.instrument_imports(include=["reachcost", "json", "tomllib"]):
        parse, seeds = parsers()[name]
    for number, seed in enumerate(seeds):
        (place / str(number)).write_bytes(seed)

    def feed(data: bytes) -> None:
        try:
            parse(data)
        except ValueError as error:  # ReachcostError is one
            if not str(error):
                raise AssertionError("a refusal without words") from error

    atheris.Setup([sys.argv[0], f"-runs={runs}", "-max_len=4096", "-timeout=20", "-seed=1", str(place)], feed)
    atheris.Fuzz()


if __name__ == "__main__":
    _feed(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
