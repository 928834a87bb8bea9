"""A cell: one run of a study that is recorded by itself, with everything it depends on in its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reachcost.results.records import Compute, Digest, Result, Run, as_json, keep_run, read_run

AWAITED = "not made yet"
"""Stands for the sha256 of a file whose run is not there."""


@dataclass(frozen=True)
class Cell:
    """One run: what it is called, what it depends on, and how it is computed."""

    name: str
    """`<study>/<kind>/<run>`, below `runs` of the output directory."""
    path: Path
    """Where it is recorded."""
    config: Mapping[str, Any]
    """Everything its rows depend on."""
    compute: Compute
    """Called with a directory for further files; returns the rows."""
    artefacts: tuple[str, ...] = ()
    """Those of the files that need not be kept."""

    @property
    def kind(self) -> str:
        """What it is a run of: heads, control, ..."""
        return self.path.parent.name

    @property
    def subject(self) -> str:
        """The world model, or world, whose latents and weights it shares with others."""
        return str(self.config.get("model") or self.config.get("world") or "")

    @cached_property
    def needs(self) -> frozenset[Path]:
        """Runs whose files must be made first: those that the configuration names and that are not there."""
        return frozenset(path.parent for path in self.reads if not path.exists())

    @property
    def reads(self) -> frozenset[Path]:
        """Files of other runs that the configuration names, there or not."""
        return frozenset(one.run / one.file for one in digests(self.config))

    @property
    def awaits(self) -> bool:
        """Whether the configuration is not known yet, since it names runs that are not there."""
        return any(one == AWAITED for one in digests(self.config))

    @property
    def settled(self) -> str:
        """The configuration as it will be recorded, in JSON; what it names must be there."""
        return json.dumps(as_json(_settled(self.config)))

    def record(self, result: Result) -> Run:
        """Record what was computed; of a finished run, whose artefacts were not kept, only these."""
        if self.path.exists():
            return read_run(self.path).complete(result.place)
        return keep_run(self.path, _settled(self.config), result, self.artefacts)


def digests(config: Any) -> Iterator[Digest]:
    """Every file of another run that a configuration names."""
    if isinstance(config, Digest):
        yield config
    elif isinstance(config, Mapping | list | tuple):
        for part in config.values() if isinstance(config, Mapping) else config:
            yield from digests(part)


def _settled(config: Any) -> Any:
    """The configuration with the sha256 of what has been made since."""
    if isinstance(config, Digest):
        return read_run(config.run).sha256[config.file] if config == AWAITED else config
    return {key: _settled(part) for key, part in config.items()} if isinstance(config, Mapping) else config
