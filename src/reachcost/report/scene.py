"""What can be looked at: episodes with the ways that costs led, maps of costs, neighbours of goals. Drawn, so a page
needs no simulator; JSON values, so a file of them runs no code.
"""

from __future__ import annotations

import base64
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain
from pathlib import Path

import numpy as np
from PIL import Image

from reachcost.core.atomic import write_file
from reachcost.core.json_files import read_as, read_record
from reachcost.core.progress import escape_hidden
from reachcost.errors import ReachcostError

FORMAT = "reachcost-scene/1"
Place = tuple[float, float]
NOBODY = 65_535
"""Stands for the cost of a place where nobody can be."""
LARGEST = 2**53
"""Whole numbers from here on are not exact in JavaScript."""
FLATTEST = 1000.0
"""The longer side of a map divided by the shorter one, at most: a browser cannot show a flatter one."""
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_IMAGE = re.compile(rf"data:image/(?:png|jpeg);base64,({_BASE64})")


def _require(holds: object, what: str) -> None:
    """Refuse a scene of which something does not hold."""
    if not holds:
        raise ReachcostError(f"{what}: make the scene again")


def _finite(*numbers: float | None) -> bool:
    """Whether all numbers that are known are finite."""
    return all(number is None or math.isfinite(number) for number in numbers)


def _require_unique(values: Sequence[object], what: str) -> None:
    """Refuse a scene in which something is there twice."""
    twice = [value for value, count in Counter(values).items() if count > 1]
    _require(not twice, f"{what} {str(twice[:1])[1:-1][:80]} is there twice")


def _bytes(text: str) -> bytes:
    """What base64 stands for; nothing where it is damaged."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _size(image: str) -> tuple[int, int]:
    """Width and height of a data URI, zeros where it is not a whole image; nothing is decompressed."""
    found = _IMAGE.fullmatch(image)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            picture = Image.open(BytesIO(_bytes(found[1] if found else "")), formats=("PNG", "JPEG"))
            picture.verify()
            return picture.size
    except (OSError, SyntaxError, ValueError, Warning, Image.DecompressionBombError):
        return 0, 0


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
        fits = 1 <= self.columns <= self.count <= 10_000 and all(side >= 1 and side % 1 == 0 for side in self.frame)
        _require(fits, f"a picture of {self.count} frames is damaged")

    @property
    def frame(self) -> tuple[float, float]:
        """Width and height of a frame."""
        width, height = _size(self.image)
        return width / self.columns, height / math.ceil(self.count / self.columns)


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
        whole = min(self.rows, self.columns) > 0 and len(_bytes(self.data)) == 2 * self.rows * self.columns
        _require(whole, f"a map of {self.rows} x {self.columns} places is damaged")
        ordered = self.low <= self.high and _finite(self.high - self.low)
        _require(ordered, f"a map of costs from {self.low} to {self.high} is damaged")

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

    def __post_init__(self) -> None:
        what = f"the path of {self.cost[:80]!r} has"
        _require(0 <= self.steps < LARGEST, f"{what} {self.steps} steps")
        _require(len(self.places) in (0, self.steps + 1), f"{what} {len(self.places)} places for {self.steps} steps")
        _require(_finite(self.distance, *chain(*self.places)), f"{what} numbers that are not finite")
        count = 0 if self.frames is None else self.frames.count
        _require(count <= self.steps + 1, f"{what} {count} frames for {self.steps} steps")


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

    def __post_init__(self) -> None:
        what = f"episode {self.number}"
        _require(0 <= self.number < LARGEST, f"{what} has a number below 0 or above {LARGEST - 1}")
        _require(_finite(*(self.goal or ())), f"{what} has a goal that is not finite, {self.goal}")
        _require(self.goal_frame is None or self.goal_frame.count == 1, f"{what} has several frames of its goal")

    def _shown(self) -> tuple[object, ...]:
        """What a page shows of it, by name."""
        paths = [(way.cost, way.frames is None) for way in self.ways]
        return paths, {*self.fields}, self.goal_frame is None


@dataclass(frozen=True)
class Neighbours:
    """Logged states that a cost puts nearest to a goal."""

    cost: str
    frames: tuple[Strip, ...]
    apart: tuple[float | None, ...]
    """How far they really are from it; None where no way leads there, or nobody knows."""

    def __post_init__(self) -> None:
        what = f"the neighbours under {self.cost[:80]!r} have"
        counts = f"{len(self.frames)} frames and {len(self.apart)} distances"
        _require(len(self.frames) == len(self.apart), f"{what} {counts}")
        _require(all(frame.count == 1 for frame in self.frames), f"{what} several frames of one state")
        _require(_finite(*self.apart), f"{what} distances that are not finite")


@dataclass(frozen=True)
class Neighbourhood:
    """A logged goal and what each cost takes for near."""

    goal: Strip
    unit: str
    """What `apart` counts."""
    pool: int
    """Logged states that were ranked."""
    nearest: tuple[Neighbours, ...]

    def __post_init__(self) -> None:
        most = max((len(one.frames) for one in self.nearest), default=0)
        _require(most <= self.pool, f"a goal has {most} neighbours among {self.pool} ranked states")
        _require(self.goal.count == 1, f"a goal has {self.goal.count} frames")


@dataclass(frozen=True)
class Map:
    """Corners of a plane, y downwards."""

    low: Place
    high: Place

    def __post_init__(self) -> None:
        sides = [high - low for low, high in zip(self.low, self.high, strict=True)]
        whole = _finite(*self.low, *self.high) and 1e-99 < min(sides) <= max(sides) <= min(1e99, FLATTEST * min(sides))
        _require(whole, f"a map from {self.low} to {self.high} cannot be shown")


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

    def __post_init__(self) -> None:
        _require_unique([escape_hidden(name) for name in self.costs], "the cost")
        _require_unique([one.number for one in self.episodes], "the episode")
        shown = {name for one in self.episodes for name in (*(way.cost for way in one.ways), *one.fields)}
        shown |= {near.cost for goal in self.neighbourhoods for near in goal.nearest}
        missing = sorted(shown.difference(self.costs))
        _require(not missing, f"the cost {str(missing[:1])[1:-1][:80]} is not among the costs of the scene")
        for one in self.episodes:
            _require_unique([way.cost for way in one.ways], f"in episode {one.number} the cost")
            other = f"episode {one.number} does not show what episode {self.episodes[0].number} shows"
            _require(one._shown() == self.episodes[0]._shown(), f"{other} (costs, maps, frames)")
            on_plane = {one.goal is not None, *(bool(way.places) for way in one.ways)}
            agree = on_plane == {self.plane is not None} and (self.plane is not None or not one.fields)
            _require(agree, f"episode {one.number} has places without a map, or a map without places")
        strips = [
            strip for one in self.episodes for strip in (one.goal_frame, *(way.frames for way in one.ways)) if strip
        ]
        sizes = {strip.frame for strip in strips}
        _require(len(sizes) < 2, f"frames differ in size, {sorted(sizes)[:2]}")
        replayed = sum(bool(one.ways) for one in self.episodes)
        _require(self.of == 0 or replayed <= self.of, f"{replayed} episodes were chosen from {self.of}")

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
