"""A scene: what a report can show of a world without its simulator. Episodes, maps of costs, neighbours of goals.

A scene is plain data: it is written as JSON, and reading one from an untrusted file runs no code.
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

from reachcost.core.files import write_file
from reachcost.core.json_files import read_as, read_record
from reachcost.core.progress import escape_hidden
from reachcost.errors import ReachcostError

FORMAT = "reachcost-scene/2"
Place = tuple[float, float]
UNREACHABLE = 65_535  # cell of a map where nothing can be
LARGEST = 2**53  # JavaScript rounds integers from here on
COLOURS = 256  # maximum number of colours of a PNG
_IMAGE = re.compile(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/]+={0,2})")


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise ReachcostError(f"{problem}: make the scene again")


def _require_unique(values: Sequence[object], what: str) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    _require(not twice, f"{what} {str(twice[:1])[1:-1][:80]} is there twice")


def _bytes(text: str) -> bytes:
    """Bytes of a base64 text; empty if it is damaged."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _image_size(image: str) -> tuple[int, int]:
    """Width and height of a data URI, without decompressing it; zeros if it is damaged."""
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
    """Frames in one picture, row by row."""

    image: str  # data URI of the picture
    count: int = 1
    columns: int = 1  # number of frames in a row

    def __post_init__(self) -> None:
        fits = 1 <= self.columns <= self.count <= 10_000 and all(side >= 1 and side % 1 == 0 for side in self.frame)
        _require(fits, f"a picture of {self.count} frames is damaged")

    @property
    def frame(self) -> tuple[float, float]:
        """Width and height of a frame."""
        width, height = _image_size(self.image)
        return width / self.columns, height / math.ceil(self.count / self.columns)

    @classmethod
    def of(cls, frames: np.ndarray, side: int = 112) -> Strip:
        """Frames uint8 [N, height, width, 3] as one picture; the longer side of a frame has at most `side` pixels.

        >>> Strip.of(np.zeros((5, 224, 112, 3), np.uint8)).columns
        3
        """
        scale = min(1.0, side / max(frames.shape[1:3]))
        height, width = (max(1, round(scale * pixels)) for pixels in frames.shape[1:3])
        columns = math.ceil(math.sqrt(len(frames)))
        sheet = Image.new("RGB", (columns * width, math.ceil(len(frames) / columns) * height))
        for number, frame in enumerate(frames):
            small = Image.fromarray(frame).resize((width, height), Image.Resampling.BOX)
            sheet.paste(small, (number % columns * width, number // columns * height))
        images = [_encoded(sheet.quantize(COLOURS), "png"), _encoded(sheet, "jpeg", quality=85)]
        return cls(min(images, key=len), len(frames), columns)


def _encoded(image: Image.Image, kind: str, **options: object) -> str:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@dataclass(frozen=True)
class Field:
    """A map of costs, 16 bits per cell."""

    data: str  # rows of little-endian integers as base64: 0 is `low`, 65,534 is `high`, 65,535 is `UNREACHABLE`
    rows: int
    columns: int
    low: float
    high: float

    def __post_init__(self) -> None:
        complete = min(self.rows, self.columns) > 0 and len(_bytes(self.data)) == 2 * self.rows * self.columns
        _require(complete, f"a map of {self.rows} x {self.columns} places is damaged")
        ordered = self.low <= self.high and math.isfinite(self.high - self.low)
        _require(ordered, f"a map of costs from {self.low} to {self.high} is damaged")

    @classmethod
    def of(cls, costs: np.ndarray) -> Field:
        """Pack costs [rows, columns]; cells that are not finite become `UNREACHABLE`.

        >>> Field.of(np.array([[1.0, np.nan], [3.0, 2.0]])).data
        'AAD///7//38='
        """
        known = costs[np.isfinite(costs)]
        low, high = (float(f"{end:.4g}") for end in ((known.min(), known.max()) if len(known) else (0, 1)))
        share = np.clip((costs - low) / ((high - low) or 1), 0, 1)
        cells = np.where(np.isfinite(costs), np.nan_to_num(share) * (UNREACHABLE - 1), UNREACHABLE)
        rows, columns = costs.shape
        return cls(base64.b64encode(cells.round().astype("<u2").tobytes()).decode(), rows, columns, low, high)


@dataclass(frozen=True)
class Replay:
    """An episode under one cost."""

    cost: str
    outcome: str
    reached: bool
    steps: int  # number of actions
    distance: float | None  # true distance left at the end, if known
    places: tuple[Place, ...]  # path, `steps + 1` places, or empty if the world is not a plane
    frames: Strip | None  # frames, evenly spaced from start to end, if the task renders any

    def __post_init__(self) -> None:
        path = f"the path of {self.cost[:80]!r} has"
        _require(0 <= self.steps < LARGEST, f"{path} {self.steps} steps")
        _require(len(self.places) in (0, self.steps + 1), f"{path} {len(self.places)} places for {self.steps} steps")
        count = 0 if self.frames is None else self.frames.count
        _require(count <= self.steps + 1, f"{path} {count} frames for {self.steps} steps")


@dataclass(frozen=True)
class Episode:
    """An episode with its goal, its replays under several costs, and maps of these costs."""

    number: int
    group: str = ""  # kind of episode, if the task names any
    goal: Place | None = None  # place of the goal, if the world is a plane
    goal_frame: Strip | None = None
    replays: tuple[Replay, ...] = ()  # replays, one for each cost
    fields: dict[str, Field] = field(default_factory=dict)  # cost of ending at each place, by name of the cost

    def __post_init__(self) -> None:
        what = f"episode {self.number}"
        _require(0 <= self.number < LARGEST, f"{what} has a number below 0 or above {LARGEST - 1}")
        _require(self.goal_frame is None or self.goal_frame.count == 1, f"{what} has several frames of its goal")
        _require_unique([replay.cost for replay in self.replays], f"in {what} the cost")

    @property
    def contents(self) -> tuple[object, ...]:
        """What a page shows of the episode, by name: all episodes of a scene must agree."""
        places = {self.goal is not None, *(bool(replay.places) for replay in self.replays)}
        frames = [(replay.cost, replay.frames is None) for replay in self.replays]
        return places, frames, {*self.fields}, self.goal_frame is None


@dataclass(frozen=True)
class Neighbours:
    """Logged states that a cost puts nearest to a goal."""

    cost: str
    frames: tuple[Strip, ...]
    apart: tuple[float | None, ...]  # true distance of each state to the goal; None if infinite or unknown

    def __post_init__(self) -> None:
        what = f"the neighbours under {self.cost[:80]!r} have"
        counts = f"{len(self.frames)} frames and {len(self.apart)} distances"
        _require(len(self.frames) == len(self.apart), f"{what} {counts}")
        _require(all(frame.count == 1 for frame in self.frames), f"{what} several frames of one state")


@dataclass(frozen=True)
class Neighbourhood:
    """A logged goal and its nearest states under each cost."""

    goal: Strip
    unit: str  # unit of `apart`
    pool: int  # number of logged states that were ranked
    nearest: tuple[Neighbours, ...]

    def __post_init__(self) -> None:
        most = max((len(one.frames) for one in self.nearest), default=0)
        _require(most <= self.pool, f"a goal has {most} neighbours among {self.pool} ranked states")
        _require(self.goal.count == 1, f"a goal has {self.goal.count} frames")


@dataclass(frozen=True)
class Map:
    """Corners of a plane; y points down."""

    low: Place
    high: Place

    def __post_init__(self) -> None:
        sides = [high - low for low, high in zip(self.low, self.high, strict=True)]
        fits = 1e-99 < min(sides) <= max(sides) <= min(1e99, 1000 * min(sides))  # a browser can show it
        _require(fits, f"a map from {self.low} to {self.high} cannot be shown")


@dataclass(frozen=True)
class Scene:
    """Everything that a page draws."""

    world: str
    costs: tuple[str, ...] = ()  # names of the costs, in the order of the page
    units: dict[str, str] = field(default_factory=dict)  # unit of each cost
    plane: Map | None = None
    episodes: tuple[Episode, ...] = ()
    of: int = 0  # number of episodes that these were chosen from
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    without: dict[str, str] = field(default_factory=dict)  # why a panel has no content, by its name
    distance_unit: str = ""  # unit of true distances, if the task names one
    format: str = FORMAT

    def __post_init__(self) -> None:
        _require_unique([escape_hidden(name) for name in self.costs], "the cost")
        _require_unique([one.number for one in self.episodes], "the episode")
        shown = {name for one in self.episodes for name in (*(replay.cost for replay in one.replays), *one.fields)}
        shown |= {near.cost for goal in self.neighbourhoods for near in goal.nearest}
        missing = sorted(shown.difference(self.costs))
        _require(not missing, f"the cost {str(missing[:1])[1:-1][:80]} is not among the costs of the scene")
        for one in self.episodes:
            what, first = f"episode {one.number}", self.episodes[0]
            same = one.contents == first.contents
            _require(same, f"{what} does not show what episode {first.number} shows (costs, maps, frames)")
            agree = one.contents[0] == {self.plane is not None} and (self.plane is not None or not one.fields)
            _require(agree, f"{what} has places without a map, or a map without places")
        pictures = [(one.goal_frame, *(replay.frames for replay in one.replays)) for one in self.episodes]
        sizes = {strip.frame for strip in chain(*pictures) if strip is not None}
        _require(len(sizes) < 2, f"frames differ in size, {sorted(sizes)[:2]}")
        replayed = sum(bool(one.replays) for one in self.episodes)
        _require(self.of == 0 or replayed <= self.of, f"{replayed} episodes were chosen from {self.of}")
        self.json()

    def json(self) -> str:
        """The scene as JSON; raises if one of its numbers is not finite."""
        try:
            return json.dumps(self, default=vars, separators=(",", ":"), allow_nan=False)
        except ValueError as error:
            raise ReachcostError("the scene has numbers that are not finite: make the scene again") from error

    def write(self, path: Path) -> None:
        """Write the scene as JSON."""
        write_file(path, self.json() + "\n")

    def first_episodes(self, count: int) -> Scene:
        """The scene with its first episodes only."""
        return replace(self, episodes=self.episodes[:count])

    def without_frames(self) -> Scene:
        """The scene without pictures."""
        bare = [
            replace(one, goal_frame=None, replays=tuple(replace(replay, frames=None) for replay in one.replays))
            for one in self.episodes
        ]
        return replace(self, episodes=tuple(bare), neighbourhoods=())


def scene_file(record: Path) -> Path:
    """Path of the scene that belongs to a record."""
    return record.with_suffix(".scene.json")


def read_scene(path: Path) -> Scene:
    """Read a scene, and refuse other files."""
    document = read_record(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReachcostError(f"{path} is not a scene of format {FORMAT!r}: make it again with its record")
    return read_as(Scene, document, str(path))
