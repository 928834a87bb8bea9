"""Odd values behind a valid checksum: any JSON value in any place of a configuration, sealed anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies

from reachcost.core.seeding import generator
from reachcost_tools.faults.formats import models
from reachcost_tools.faults.formats.format import Wrong
from reachcost_tools.faults.traps import resealed

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
