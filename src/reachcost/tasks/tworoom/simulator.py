"""The steps of a batch of TwoRoom states, equal to those of the public environment."""

from __future__ import annotations

import numpy as np

from reachcost.tasks.tworoom.layout import BORDER, CENTRE, DOOR_MARGIN, SIZE, Layout

FAR = 1e6  # pixels; outside any frame
TOUCH = 1e-3  # pixels; more than the rounding error of float32


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
