"""What can be looked at: episodes with the ways that costs led, maps of costs, neighbours of goals. Drawn, so a page
needs no simulator; JSON values, so a file of them runs no code.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from reachcost.base.atomic import write_file
from reachcost.base.reading import read_as, read_record
from reachcost.errors import ReachcostError

FORMAT = "reachcost-scene/1"
Place = tuple[float, float]
NOBODY = 65_535
"""Stands for the cost of a place where nobody can be."""
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_IMAGE = re.compile(rf"data:image/(png|jpeg);base64,{_BASE64}")


@dataclass(frozen=True)
class Strip:
    """Frames in one picture, line by line."""

    image: str
    """The picture, as a data URI."""
    count: int = 1
    """Frames in it."""
    columns: int = 1
    """Frames in a line."""

    def __post_init__(self) -> None:
        if not _IMAGE.fullmatch(self.image) or not 1 <= self.columns <= self.count <= 10_000:
            raise ReachcostError(f"a picture of {self.count} frames is damaged: make the scene again")


@dataclass(frozen=True)
class Field:
    """A map of costs: 16 bits a cell, from the least to the largest."""

    data: str
    """Rows of little-endian numbers, as base64: 0 is `low`, 65,534 `high`, 65,535 where nobody can be."""
    rows: int
    columns: int
    low: float
    high: float

    def __post_init__(self) -> None:
        whole = re.fullmatch(_BASE64, self.data) and len(self.data) == 4 * -(-2 * self.rows * self.columns // 3)
        if min(self.rows, self.columns) < 1 or not whole:
            raise ReachcostError(f"a map of {self.rows} x {self.columns} places is damaged: make the scene again")

    @classmethod
    def of(cls, costs: np.ndarray) -> Field:
        """Keep costs [rows, columns]; NaN where nobody can be, and infinity as if nobody could.

        >>> Field.of(np.array([[1.0, np.nan], [3.0, 2.0]])).data
        'AAD///7//38='
        """
        known = costs[np.isfinite(costs)]
        low, high = (float(f"{end:.4g}") for end in ((known.min(), known.max()) if len(known) else (0, 1)))
        share = np.clip((costs - low) / ((high - low) or 1), 0, 1)
        cells = np.where(np.isfinite(costs), np.nan_to_num(share) * (NOBODY - 1), NOBODY).round().astype("<u2")
        rows, columns = costs.shape
        return cls(base64.b64encode(cells.tobytes()).decode(), rows, columns, low, high)


@dataclass(frozen=True)
class Way:
    """Where one cost led in an episode."""

    cost: str
    outcome: str
    """How it came out, by name."""
    reached: bool
    """Whether the goal was reached."""
    steps: int
    """Actions until then, or all."""
    distance: float | None
    """True distance that was left, if it is known."""
    places: tuple[Place, ...]
    """Where it led, step by step, if the world is a plane."""
    frames: Strip | None
    """What was seen, evenly from start to end, if the task draws it."""


@dataclass(frozen=True)
class Episode:
    """A start and a goal, what costs say about places, and where each of them led."""

    number: int
    group: str = ""
    """Its kind, if the task tells."""
    goal: Place | None = None
    """Where the goal is, if the world is a plane."""
    goal_frame: Strip | None = None
    ways: tuple[Way, ...] = ()
    fields: dict[str, Field] = field(default_factory=dict)
    """Cost of ending at each place of the map, by name of the cost."""


@dataclass(frozen=True)
class Neighbours:
    """Logged states that a cost puts nearest to a goal."""

    cost: str
    frames: tuple[Strip, ...]
    apart: tuple[float | None, ...]
    """How far they really are from it; None where no way leads there, or nobody knows."""


@dataclass(frozen=True)
class Neighbourhood:
    """A logged goal and what each cost takes for near."""

    goal: Strip
    unit: str
    """What `apart` counts."""
    pool: int
    """Logged states that were ranked."""
    nearest: tuple[Neighbours, ...]


@dataclass(frozen=True)
class Map:
    """Corners of a plane, y downwards."""

    low: Place
    high: Place


@dataclass(frozen=True)
class Scene:
    """All that can be looked at."""

    world: str
    costs: tuple[str, ...] = ()
    """In the order in which they are shown."""
    units: dict[str, str] = field(default_factory=dict)
    """What each cost counts."""
    plane: Map | None = None
    episodes: tuple[Episode, ...] = ()
    of: int = 0
    """Episodes that these were chosen from."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    without: dict[str, str] = field(default_factory=dict)
    """Why something cannot be shown, by panel."""
    distance_unit: str = ""
    """What true distances count, if the task says so."""
    format: str = FORMAT

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        write_file(path, json.dumps(self, default=vars, separators=(",", ":"), allow_nan=False) + "\n")

    def fewer(self, episodes: int) -> Scene:
        """The first episodes alone."""
        return replace(self, episodes=self.episodes[:episodes])

    def without_frames(self) -> Scene:
        """The same, without pictures of frames."""
        bare = [
            replace(one, goal_frame=None, ways=tuple(replace(way, frames=None) for way in one.ways))
            for one in self.episodes
        ]
        return replace(self, episodes=tuple(bare), neighbourhoods=())


def beside(path: Path) -> Path:
    """Where the scene of the record at `path` is."""
    return path.with_suffix(".scene.json")


def read_scene(path: Path) -> Scene:
    """Read a scene, and refuse what is none."""
    document = read_record(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReachcostError(f"{path} is no scene of format {FORMAT!r}: make it again, with the record it is of")
    return read_as(Scene, document, str(path))
