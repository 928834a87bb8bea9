"""One call steps any batch of TwoRoom states; step for step the public environment."""

from __future__ import annotations

import numpy as np

from reachcost.tasks.tworoom.layout import BORDER, CENTRE, DOOR_MARGIN, SIZE, Layout

FAR = 1e6  # beyond any picture
TOUCH = 1e-3  # pixels; more than float32 rounds, less than anyone sees


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
    """Collision tested along the whole step: the agent stops where its path first meets solid wall, then slides on.

    Unlike the endpoint test it cannot cut the corner of a door, nor be thrown out of one sideways. Only an agent that
    already stands in solid wall is put out of it as the endpoint test does.
    """
    here = states.astype(np.float64)
    way = move(layout, states, actions) - here
    trapped = np.zeros(here.shape[:-1], bool)
    for _ in range(2):  # to the first contact, then along the wall
        share, axis = np.ones(here.shape[:-1]), np.full(here.shape[:-1], -1)
        for block in solid_intervals(layout):
            here, met, met_axis, inside = _meeting(layout, here, way, block)
            trapped |= inside
            axis = np.where(met < share, met_axis, axis)
            share = np.minimum(share, met)
        here = here + share[..., None] * way
        way = (1 - share[..., None]) * way * (axis[..., None] != np.arange(2))
    return np.where(trapped[..., None], step_endpoint(layout, states, actions), here.astype(np.float32))


def solid_intervals(layout: Layout) -> list[tuple[float, float]]:
    """The stretches along the wall that no door opens for the agent's centre."""
    ends = [-FAR]
    for low, high in layout.openings:
        ends += [low - DOOR_MARGIN, high + DOOR_MARGIN]
    ends.append(FAR)
    return [(low, high) for low, high in zip(ends[::2], ends[1::2], strict=True) if low < high]


def _meeting(
    layout: Layout, here: np.ndarray, way: np.ndarray, block: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where a way meets a block of wall.

    Returns:
        Positions [N, 2], with those that rounding put a hair into the block put back on its face; the share of the way
        until contact [N], 1 without; the axis of the face that is met [N]; whether the agent stands inside [N].
    """
    zone = layout.half + layout.radius
    bounds = np.empty((2, 2))
    bounds[layout.across], bounds[layout.along] = (CENTRE - zone, CENTRE + zone), block
    first, last = bounds[:, 0], bounds[:, 1]
    touching = ((here > first - TOUCH) & (here < last + TOUCH)).all(-1, keepdims=True)
    here = np.where(touching & (np.abs(here - first) < TOUCH), first, here)
    here = np.where(touching & (np.abs(here - last) < TOUCH), last, here)
    within = (here > first) & (here < last)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.stack([(first - here) / way, (last - here) / way])
    still = way == 0
    near = np.where(still, np.where(within, -np.inf, np.inf), shares.min(0))
    far = np.where(still, np.where(within, np.inf, -np.inf), shares.max(0))
    enter, leave = near.max(-1), np.minimum(far.min(-1), 1.0)
    inside = np.asarray(within.all(-1))
    meets = (enter >= 0) & (enter < leave) & ~inside
    return here, np.where(meets, enter, 1.0), near.argmax(-1), inside
