"""Odd values: any JSON value in any place of a configuration, sealed anew, or of a record that a report is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies
from numpy.random import Generator

from faults.formats import models, records
from faults.formats.format import Wrong
from faults.traps import resealed
from reachcost.base.seeding import generator

ODD = strategies.one_of(
    strategies.none(),
    strategies.booleans(),
    strategies.integers(-(10**19), 10**19),
    strategies.floats(allow_nan=False, allow_infinity=False),
    strategies.sampled_from([0, -1, 10**18, 1e308, 5e-324, "", "[/x]", "\x1b[2J", [], {}, [[]], {"": None}]),
    strategies.text(max_size=20),
    strategies.recursive(strategies.none() | strategies.integers(), lambda part: strategies.lists(part), max_leaves=5),
)
"""Values that no configuration expects in most places."""


def configured(number: int, directory: Path) -> str:
    """Change one place of a head or a world model, make its checksum fit, and use it; the n-th change is always one."""
    write, read, name = (
        (models.head, models.read_head, "head"),
        (models.world_model, models.read_world_model, "model"),
    )[number % 2]
    write(directory)
    resealed(lambda config: _change(config, number))(directory / name)
    try:
        return read(directory)
    except Wrong as found:
        raise AssertionError(f"{found}: {_changed(directory / name)}") from found


RECORDS = {
    "scene.json": records.scene,
    "audit.scene.json": records.audit,
    "audit.json": records.audit,
    "tables/made.json": records.table,
}
"""What reports are made of, and what writes it."""


def changed(number: int, directory: Path) -> int:
    """Change one to three places of a record, and make a report of it; the n-th change is always one."""
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
    """Change a value so that it often still has its type, and no longer agrees with others."""
    value, how = holder[key], rng.random()
    if how < 0.1:
        holder[key] = _drawn(number)
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


def _change(config: dict[str, Any], number: int) -> None:
    rng = generator(0, "odd-values", number)
    places = [*_places(config)]
    holder, key = places[rng.integers(len(places))]
    if rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = _drawn(number)


def _drawn(number: int) -> Any:
    """The value that belongs to a number."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

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
    """Every place that holds a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items):
        yield value, key
        yield from _places(part)


def _changed(directory: Path) -> str:
    return (directory / "config.json").read_text()[:300]
