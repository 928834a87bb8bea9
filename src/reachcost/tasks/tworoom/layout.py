"""The layout of TwoRoom: wall, doors and distances, and the steps of agents in it.

Points are (x, y) pixels of a 224 x 224 picture, y growing downwards. `across` is the coordinate that crosses the wall,
`along` the one parallel to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from reachcost.errors import ReachcostError

SIZE = 224
BORDER = 14
CENTRE = 112.0
DOOR_MARGIN = 1.75
SUCCESS_DISTANCE = 16.0
FAR = 1e6  # pixels; outside any frame
TOUCH = 1e-3  # pixels; more than the rounding error of float32
WALLS = ("vertical", "horizontal")


@dataclass(frozen=True)
class Layout:
    """Wall, doors and agent; the defaults are those of `swm/TwoRoom-v1` and of the paper.

    >>> layout = Layout()
    >>> float(layout.geodesic(np.array([[60.0, 150.0]]), np.array([[160.0, 150.0]]))[0]) > 150
    True
    """

    wall: Literal["vertical", "horizontal"] = "vertical"
    thickness: int = 10  # pixels
    doors: tuple[tuple[float, float], ...] = ((49.0, 14.0),)  # centre along the wall and half-size of each, in pixels
    radius: float = 7.0  # of the agent: its centre keeps this distance from wall and border, but fits into any door
    speed: float = 5.0  # pixels per step for an action of length 1

    def __post_init__(self) -> None:
        if self.wall not in WALLS:
            raise ReachcostError(f"layout: wall is {self.wall!r}: choose vertical or horizontal")
        valid = all(np.shape(door) == (2,) and np.isfinite(door).all() and door[1] > 0 for door in self.doors)
        if not self.doors or not valid:
            raise ReachcostError(f"layout: doors are {self.doors}: give at least one (centre, half-size > 0)")
        object.__setattr__(self, "doors", tuple((float(centre), float(half)) for centre, half in self.doors))
        for name in ("thickness", "radius", "speed"):
            if not 0 < getattr(self, name) < np.inf:
                raise ReachcostError(f"layout: {name} is {getattr(self, name)}: make it positive")
        if CENTRE - self.half - self.radius <= BORDER + self.radius + 1:
            raise ReachcostError(f"layout: an agent of radius {self.radius} does not fit into a room: shrink it")

    @property
    def across(self) -> int:
        """Index of the coordinate that crosses the wall."""
        return 0 if self.wall == "vertical" else 1

    @property
    def along(self) -> int:
        """Index of the coordinate parallel to the wall."""
        return 1 - self.across

    @property
    def half(self) -> int:
        """Half the thickness, rounded down as in the public environment."""
        return self.thickness // 2

    def room(self, points: np.ndarray) -> np.ndarray:
        """0 for the left (upper) room, 1 for the right (lower) one: [..., 2] -> [...]."""
        return (points[..., self.across] >= CENTRE).astype(np.int64)

    @property
    def openings(self) -> list[tuple[float, float]]:
        """Door intervals along the wall, merged where they overlap."""
        merged: list[tuple[float, float]] = []
        for low, high in sorted((centre - half, centre + half) for centre, half in self.doors):
            if merged and low <= merged[-1][1]:
                low, high = merged[-1][0], max(high, merged.pop()[1])
            merged.append((low, high))
        return merged

    def in_door(self, along: np.ndarray, margin: float = 0.0) -> np.ndarray:
        """Whether coordinates along the wall lie in a door, widened by a margin: [...] -> bool [...]."""
        inside = np.zeros(np.shape(along), bool)
        for centre, half in self.doors:
            inside |= (along >= centre - half - margin) & (along <= centre + half + margin)
        return inside

    def solid(self, points: np.ndarray) -> np.ndarray:
        """Whether points lie in the wall: [..., 2] -> bool [...]."""
        inside = np.abs(points[..., self.across] - CENTRE) <= self.half
        return inside & ~self.in_door(points[..., self.along])

    def door_distance(self, points: np.ndarray) -> np.ndarray:
        """Straight distance to the centre of the nearest door: [..., 2] -> [...]."""
        across = points[..., self.across].astype(np.float64) - CENTRE
        along = points[..., self.along].astype(np.float64)
        return np.min([np.hypot(across, along - centre) for centre, _ in self.doors], axis=0)

    def doorway_required(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the points are in different rooms and the straight segment meets solid wall: bool [N]."""
        start, goal = starts.astype(np.float64), goals.astype(np.float64)
        opposite = self.room(start) != self.room(goal)
        span = np.where(opposite, goal[..., self.across] - start[..., self.across], 1.0)
        rise = goal[..., self.along] - start[..., self.along]
        shares = [
            np.clip((face - start[..., self.across]) / span, 0.0, 1.0)
            for face in (CENTRE - self.half, CENTRE + self.half)
        ]
        crossings = [start[..., self.along] + share * rise for share in shares]
        clear = np.zeros(opposite.shape, bool)
        for low, high in self.openings:  # a segment passes an opening if it crosses both faces of the wall there
            clear |= np.logical_and.reduce([(place >= low) & (place <= high) for place in crossings])
        return opposite & ~clear

    def geodesic(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Approximate length of the shortest path [N]: straight if possible, otherwise through the best door.

        A path crosses the centre line of the wall at the reachable point of a door nearest to the straight segment.
        The length is infinite if the agent fits through no door.
        """
        start, goal = np.broadcast_arrays(starts.astype(np.float64), goals.astype(np.float64))
        straight = np.linalg.norm(goal - start, axis=-1)
        before, after = CENTRE - start[..., self.across], goal[..., self.across] - CENTRE
        total = np.where(before + after == 0, 1.0, before + after)
        rise = goal[..., self.along] - start[..., self.along]
        crossing = start[..., self.along] + np.clip(before / total, 0.0, 1.0) * rise
        through = np.full(straight.shape, np.inf)
        for low, high in self.openings:
            low, high = max(low, BORDER + self.radius), min(high, SIZE - BORDER - self.radius)
            if low <= high:
                point = np.clip(crossing, low, high)
                first = np.hypot(before, point - start[..., self.along])
                second = np.hypot(after, goal[..., self.along] - point)
                through = np.minimum(through, first + second)
        return np.where(self.doorway_required(start, goal), through, straight)


def move(layout: Layout, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Targets of the agents without the wall: actions clipped to [-1, 1], times the speed, clipped at the border."""
    step = np.clip(actions.astype(np.float32, copy=False), -1.0, 1.0) * np.float32(layout.speed)
    low, high = BORDER + layout.radius, SIZE - BORDER - layout.radius
    return np.clip(states.astype(np.float32, copy=False) + step, np.float32(low), np.float32(high))


def step_endpoint(layout: Layout, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Step with collisions tested at its end only, as in `swm/TwoRoom-v1`: float32 [N, 2] -> [N, 2].

    The wall zone is the wall and the agent's radius. An agent that ends in it or beyond it, outside every door, is put
    half a pixel before the zone, on the side it came from.
    """
    after = move(layout, states, actions)
    across, zone = after[..., layout.across], layout.half + layout.radius
    came_from_low = states[..., layout.across] < CENTRE
    # float64 bounds, as in the public environment: float32 would round them.
    low, high = np.float64(CENTRE - zone), np.float64(CENTRE + zone)
    entered = np.where(came_from_low, across > low, across < high)
    blocked = entered & ~layout.in_door(after[..., layout.along], DOOR_MARGIN)
    back = np.where(came_from_low, np.float32(low - 0.5), np.float32(high + 0.5))
    after[..., layout.across] = np.where(blocked, back, across)
    return after


def step_swept(layout: Layout, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Step with collisions tested along its path: the agent stops at the first contact, then slides along the wall.

    Unlike with the endpoint test, it cannot cut the corner of a door or be thrown out of one sideways. An agent that
    starts in solid wall is put outside as by the endpoint test.
    """
    here = states.astype(np.float64)
    offset = move(layout, states, actions) - here
    trapped = np.zeros(here.shape[:-1], bool)
    for _ in range(2):  # to the first contact, then along the wall
        share, axis = np.ones(here.shape[:-1]), np.full(here.shape[:-1], -1)
        for block in solid_intervals(layout):
            here, met, met_axis, inside = _meeting(layout, here, offset, block)
            trapped |= inside
            axis = np.where(met < share, met_axis, axis)
            share = np.minimum(share, met)
        here = here + share[..., None] * offset
        offset = (1 - share[..., None]) * offset * (axis[..., None] != np.arange(2))
    return np.where(trapped[..., None], step_endpoint(layout, states, actions), here.astype(np.float32))


def solid_intervals(layout: Layout) -> list[tuple[float, float]]:
    """Intervals along the wall that are closed to the agent's centre."""
    ends = [-FAR, *(end for low, high in layout.openings for end in (low - DOOR_MARGIN, high + DOOR_MARGIN)), FAR]
    return [(low, high) for low, high in zip(ends[::2], ends[1::2], strict=True) if low < high]


def _meeting(
    layout: Layout, here: np.ndarray, offset: np.ndarray, block: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First contact of a move with a block of wall.

    Returns positions [N, 2] with rounding into the block undone, the share of the move until contact [N] (1 without),
    the axis of the face [N], and whether the agent starts inside [N].
    """
    zone = layout.half + layout.radius
    bounds = np.empty((2, 2))
    bounds[layout.across], bounds[layout.along] = (CENTRE - zone, CENTRE + zone), block
    touching = ((here > bounds[:, 0] - TOUCH) & (here < bounds[:, 1] + TOUCH)).all(-1, keepdims=True)
    for face in bounds.T:
        here = np.where(touching & (np.abs(here - face) < TOUCH), face, here)
    first, last = bounds.T
    within = (here > first) & (here < last)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.stack([(first - here) / offset, (last - here) / offset])
    still = offset == 0
    near = np.where(still, np.where(within, -np.inf, np.inf), shares.min(0))
    far = np.where(still, np.where(within, np.inf, -np.inf), shares.max(0))
    enter, leave = near.max(-1), np.minimum(far.min(-1), 1.0)
    inside = np.asarray(within.all(-1))
    meets = (enter >= 0) & (enter < leave) & ~inside
    return here, np.where(meets, enter, 1.0), near.argmax(-1), inside
