"""One call steps any batch of TwoRoom states; step for step the public environment."""

from __future__ import annotations

import numpy as np

from reachcost.tasks.tworoom.layout import BORDER, CENTRE, DOOR_MARGIN, SIZE, Layout


def move(layout: Layout, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Where the agents want to go: actions clipped to [-1, 1], scaled by the speed, stopped at the border."""
    step = np.clip(actions.astype(np.float32, copy=False), -1.0, 1.0) * np.float32(layout.speed)
    low, high = BORDER + layout.radius, SIZE - BORDER - layout.radius
    return np.clip(states.astype(np.float32, copy=False) + step, np.float32(low), np.float32(high))


def step_endpoint(layout: Layout, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Collision tested at the end of the step only, as in `swm/TwoRoom-v1`: float32 [N, 2] -> [N, 2].

    An end in the wall zone (wall and agent radius) or beyond it, outside every door, is put half a pixel before the
    zone, on the side the agent came from.
    """
    after = move(layout, states, actions)
    across, zone = after[..., layout.across], layout.half + layout.radius
    came_from_low = states[..., layout.across] < CENTRE
    # float64 bounds, as in the environment: float32 would round them for odd radii.
    low, high = np.float64(CENTRE - zone), np.float64(CENTRE + zone)
    entered = np.where(came_from_low, across > low, across < high)
    blocked = entered & ~layout.in_door(after[..., layout.along], DOOR_MARGIN)
    back = np.where(came_from_low, np.float32(low - 0.5), np.float32(high + 0.5))
    after[..., layout.across] = np.where(blocked, back, across)
    return after


def step_swept(layout: Layout, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Collision tested along the whole step: the agent stops where its path first meets solid wall.

    Unlike the endpoint test it cannot cut the corner of a door, nor be thrown out of one sideways.
    """
    start = states.astype(np.float64)
    way = move(layout, states, actions) - start
    zone = layout.half + layout.radius
    share = np.ones(start.shape[:-1])
    for low, high in solid_intervals(layout):
        share = np.minimum(share, _meeting(layout, start, way, zone, low, high))
    return (start + share[..., None] * way).astype(np.float32)


def solid_intervals(layout: Layout) -> list[tuple[float, float]]:
    """The stretches along the wall that no door opens for the agent's centre."""
    openings = sorted((centre - half - DOOR_MARGIN, centre + half + DOOR_MARGIN) for centre, half in layout.doors)
    intervals, covered = [], -np.inf
    for low, high in openings:
        if low > covered:
            intervals.append((covered, low))
        covered = max(covered, high)
    return [*intervals, (covered, np.inf)]


def _meeting(layout: Layout, start: np.ndarray, way: np.ndarray, zone: float, low: float, high: float) -> np.ndarray:
    """Share of the way [N] until a block of wall is met; 1 if it is not, or if the agent already stands in it."""
    enter, leave = np.zeros(start.shape[:-1]), np.ones(start.shape[:-1])
    inside = np.ones(start.shape[:-1], bool)
    bounds = {layout.across: (CENTRE - zone, CENTRE + zone), layout.along: (low, high)}
    for axis, (first, last) in bounds.items():
        position, length = start[..., axis], way[..., axis]
        inside &= (position > first) & (position < last)
        with np.errstate(divide="ignore", invalid="ignore"):
            to_first, to_last = (first - position) / length, (last - position) / length
        moving = length != 0
        still_in = (position > first) & (position < last)
        near = np.where(moving, np.minimum(to_first, to_last), np.where(still_in, -np.inf, np.inf))
        far = np.where(moving, np.maximum(to_first, to_last), np.where(still_in, np.inf, -np.inf))
        enter, leave = np.maximum(enter, near), np.minimum(leave, far)
    meets = (enter < leave) & ~inside
    return np.where(meets, enter, 1.0)
