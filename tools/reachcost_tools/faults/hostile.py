"""Files written to harm: pickles, bombs, links, traps for every parser. Right is one sentence, and no code that runs.

A canary file shows that code ran. After the traps come odd values with valid checksums and in records, and inputs that
atheris generates for the parsers (`parsers.py`).
"""

import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings, strategies
from numpy.random import Generator

from reachcost.core.seeding import generator
from reachcost_tools.faults.browser import Browser, optional_browser, page_errors
from reachcost_tools.faults.classes import Attempt
from reachcost_tools.faults.formats import Wrong, models, records
from reachcost_tools.faults.isolation import Here, Isolated, Outcome
from reachcost_tools.faults.traps import TRAPS, resealed

SECONDS = 30
"""After which reading a trap counts as hanging."""
CANARY = "canary"
"""The file that code in a trap would write."""


def hostile(count: int, scratch: Path) -> Iterator[Attempt]:
    """Half of the attempts are traps, then odd values; the rest are inputs of atheris, or odd values without it."""
    traps, fuzzes = count // 2, bool(importlib.util.find_spec("atheris"))
    with closing(Isolated(SECONDS, __name__)) as process, optional_browser() as browser:
        yield from attempts(traps if fuzzes else count, scratch, process, browser, traps)
    if fuzzes:
        from reachcost_tools.faults.parsers import fuzzed

        yield from fuzzed(count - traps, scratch / "fuzzed")


def attempts(
    count: int, scratch: Path, process: Isolated | Here, browser: Browser | None, traps: int
) -> Iterator[Attempt]:
    """Traps, at most this number, then odd values; pages of records are opened in a browser."""
    names = [*TRAPS][: min(traps, count)]
    for number in range(count):
        place, odd = scratch / str(number), number - len(names)
        place.mkdir(parents=True)
        if odd < 0:
            what, read, given, harmless = names[number], _read_trap, names[number], TRAPS[names[number]].harmless
        elif odd % 2:
            what, read, given, harmless = "other value in a record", read_changed_record, odd // 2, True
        else:
            what, read, given, harmless = "odd value with a valid checksum", _read_changed_model, odd // 2, True
        wrong = error_of(process.run(read, given, place), place, harmless) or page_errors(browser, place)
        shutil.rmtree(place, ignore_errors=True)
        yield Attempt(f"{what} (try {number})", wrong)


def _read_trap(name: str, directory: Path) -> object:
    TRAPS[name].write(directory)
    return repr(TRAPS[name].read(directory))[:200]


def error_of(outcome: Outcome, place: Path, harmless: bool) -> str:
    """What is wrong about an outcome."""
    if [*place.rglob(CANARY)]:
        return "it ran code"
    if outcome.how == "returned" and not harmless:
        return f"it was read: {outcome.what}"
    return outcome.error()


ODD = strategies.one_of(
    strategies.none(),
    strategies.booleans(),
    strategies.integers(-(10**19), 10**19),
    strategies.floats(allow_nan=False, allow_infinity=False),
    strategies.sampled_from([0, -1, 10**18, 1e308, 5e-324, "", "[/x]", "\x1b[2J", [], {}, [[]], {"": None}]),
    strategies.text(max_size=20),
    strategies.recursive(strategies.none() | strategies.integers(), lambda part: strategies.lists(part), max_leaves=5),
)
"""Values that a configuration rarely expects."""


def _read_changed_model(number: int, directory: Path) -> str:
    """Make the n-th change of the configuration of a head or a world model, fix its checksum, and use it."""
    write, read, name = (
        (models.head, models.read_head, "head"),
        (models.world_model, models.read_world_model, "model"),
    )[number % 2]
    write(directory)
    resealed(lambda config: _change(config, number))(directory / name)
    try:
        return read(directory)
    except Wrong as found:
        raise AssertionError(f"{found}: {(directory / name / 'config.json').read_text()[:300]}") from found


def _change(config: dict[str, Any], number: int) -> None:
    rng = generator(0, "odd-values", number)
    places = [*_places(config)]
    holder, key = places[rng.integers(len(places))]
    if rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = _odd_value(number)


RECORDS = {
    "scene.json": records.scene,
    "audit.scene.json": records.audit,
    "audit.json": records.audit,
    "tables/made.json": records.table,
}
"""Files that reports show, with their writers."""


def read_changed_record(number: int, directory: Path) -> int:
    """Make the n-th change of one to three places of a record, and make a report of it."""
    rng = generator(0, "changed-records", number)
    name = "scene.json" if number % 2 else str(rng.choice([*RECORDS]))
    RECORDS[name](directory)
    document = json.loads((directory / name).read_text())
    for _ in range(int(rng.integers(1, 4))):
        places = [*_places(document)]
        holder, key = places[rng.integers(len(places))]
        _disagree(holder, key, places, number, rng)
    (directory / name).write_text(json.dumps(document))
    return len(records.page(directory / name.replace("audit.scene", "audit")))


def _disagree(holder: Any, key: Any, places: list[tuple[Any, Any]], number: int, rng: Generator) -> None:
    """Change a value so that it often keeps its type and contradicts others."""
    value, how = holder[key], rng.random()
    if how < 0.1:
        holder[key] = _odd_value(number)
    elif how < 0.25:
        del holder[key]
    elif how < 0.4 and isinstance(holder, list):
        holder.insert(key, json.loads(json.dumps(value)))
    elif isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int | float):
        holder[key] = type(value)(rng.choice([value + 1, value - 1, -value, 0, 2 * value, 1e6 * value, 1e18]))
    else:
        like = [one[at] for one, at in places if type(one[at]) is type(value)]
        holder[key] = json.loads(json.dumps(like[rng.integers(len(like))]))


def _odd_value(number: int) -> Any:
    """The value that belongs to a number."""
    found: list[Any] = []
    checks: Any = [*HealthCheck]

    @seed(number)
    @settings(database=None, max_examples=8, phases=[Phase.generate], suppress_health_check=checks)
    @given(ODD)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return json.loads(json.dumps(found[-1]))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place that holds a value: container and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items):
        yield value, key
        yield from _places(part)
