"""The steps of a batch of PushT states, equal to those of the public environment.

A state is seven numbers: agent x, y; block x, y, angle; agent velocity x, y. They determine the future: with damping 0
the T's velocity is set in every tick by its contacts, so it is recomputed by solving the contacts of the last tick. A
state lacks only the impulses from which pymunk starts its next solution; they matter little, and only where several
contacts hold the T.

Contacts of a disc with two rectangles on one body are simple without friction: the nearest point of a rectangle is the
contact, and an impulse along its normal stops the approach. They are solved for all rows at once. Rows with walls, or
with the agent's centre within the T, are left to pymunk.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.geometry import (
    AGENT_RADIUS,
    BAR,
    CENTRE_OF_GRAVITY,
    INNER,
    MIDDLE,
    REACH,
    STEM,
    WINDOW,
    clearance,
    touches_walls,
    turned,
)

TICKS = 10  # ticks of the physics per step
ACTION_SCALE = 100.0
STIFFNESS, DRAG = 100.0, 20.0  # constants of the controller that pulls the agent to its target
TOUCH = 1e-6  # pixels; at a larger distance nothing touches, even after rounding
SECONDS = 0.01  # seconds per tick of the physics
MASS, MOMENT = 1.0, 3000.0  # of the T; the public environment uses the bar's moment also for the stem
# Bar and stem relative to the centre of gravity: smallest x and y, largest x and y.
RECTANGLES = np.array([(-60.0, -45.0, 60.0, -15.0), (-15.0, -15.0, 15.0, 75.0)])
SLOP = float(np.float32(0.1))  # pixels of overlap that pymunk ignores
CORRECTION = 1 - 0.0017970074436457143**SECONDS  # share of further overlap that pymunk corrects in a tick
FORGOTTEN = 4  # ticks after which pymunk forgets a contact
FARTHEST = float(np.hypot(15.0, 75.0))  # pixels from the centre of gravity to the farthest corner of the T
LEFT_LOW, LEFT_HIGH, RIGHT_LOW, RIGHT_HIGH = (5.0, 5.0), (5.0, 506.0), (506.0, 5.0), (506.0, 506.0)
WALLS = ((LEFT_HIGH, LEFT_LOW), (LEFT_LOW, RIGHT_LOW), (RIGHT_LOW, RIGHT_HIGH), (LEFT_HIGH, RIGHT_HIGH))
WALL_RADIUS = 2.0


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Pull the agents towards their position plus 100 times the unclipped action: float64 [N, 7], [N, 2] -> [N, 7]."""
    require_pymunk()
    path, velocities = agent_path(states[:, :2], states[:, 5:], actions)
    after = states.copy()
    after[:, :2], after[:, 5:] = path[:, -1], velocities[:, -1]
    rows, first = first_contacts(path, states[:, 2:5])
    moves = np.concatenate([states[rows, None, 5:], velocities[rows]], axis=1)  # tick 0 recomputes the T's velocity
    after[rows, 2:5], hard = push_away_from_walls(path[rows], moves, states[rows, 2:5])
    rows, first = rows[hard], first[hard]
    if len(rows):
        tick_before = states[rows, :2] - SECONDS * states[rows, 5:]
        places = np.concatenate([tick_before[:, None], path[rows]], axis=1)
        starts = places[np.arange(len(rows)), first]
        after[rows, 2:5] = push_by_pymunk(starts, states[rows, 2:5], moves[hard], first)
    after[:, 4] %= 2 * np.pi
    return after


def agent_path(positions: np.ndarray, velocities: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the agent at the start and after every tick [N, 11, 2], and velocities in every tick [N, 10, 2].

    Neither the T nor a wall stops it. With float32 actions velocities are float32, as in the public environment.
    """
    kind = np.float32 if actions.dtype == np.float32 else np.float64
    here, velocity = positions.astype(np.float64), velocities.astype(np.float64)
    path, moves = [here], []
    target = here.astype(kind) + actions.astype(kind) * kind(ACTION_SCALE)
    for _ in range(TICKS):
        pull = kind(STIFFNESS) * (target - here.astype(kind)) + (DRAG * -velocity).astype(kind)
        velocity = (velocity.astype(kind) + pull * kind(SECONDS)).astype(np.float64)
        here = here + velocity * SECONDS
        path.append(here)
        moves.append(velocity)
    return np.stack(path, axis=1), np.stack(moves, axis=1)


def first_contacts(path: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in which the T may be touched, and the number of the first such place of their paths [N, 11, 2]."""
    middle = poses[:, :2] + turned(MIDDLE, poses[:, 2])
    x, y = (path[..., axis] - middle[:, axis, None] for axis in (0, 1))
    apart = np.sqrt((x * x + y * y).min(1))
    near = np.flatnonzero(apart < REACH + AGENT_RADIUS + TOUCH)
    touched = np.zeros(path.shape[:2], bool)
    touched[near] = clearance(path[near], poses[near, None]) <= AGENT_RADIUS + TOUCH
    outer = np.flatnonzero((np.abs(middle - WINDOW / 2) > WINDOW / 2 - REACH - 10).any(1))
    touched[outer, 0] |= touches_walls(poses[outer], depth=SLOP / 2)  # an overlap that pymunk ignores remains
    rows = np.flatnonzero(touched.any(1))
    return rows, touched[rows].argmax(1)


def push_away_from_walls(path: np.ndarray, velocities: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Poses of the T [N, 3] after all ticks, and the rows that must be left to pymunk, bool [N].

    The agent's positions and velocities are given for every tick [N, ticks, 2], the T is at rest before the first.
    """
    rows = len(poses)
    x, y = (poses[:, :2] + turned(CENTRE_OF_GRAVITY, poses[:, 2])).T.copy()
    angle = poses[:, 2].copy()
    places, fast = (np.ascontiguousarray(part.transpose(1, 2, 0)) for part in (path, velocities))
    move_x = move_y = turn = np.zeros(rows)
    left, last, age = np.zeros(rows, bool), np.zeros((2, rows)), np.full((2, rows), FORGOTTEN)
    sine = cosine = angle
    for tick in range(len(places)):
        x, y, angle = x + move_x * SECONDS, y + move_y * SECONDS, angle + turn * SECONDS
        sine, cosine = np.sin(angle), np.cos(angle)
        contacts = _contacts(*_into(places[tick, 0] - x, places[tick, 1] - y, sine, cosine))
        # Pymunk continues from the impulse of a contact that was interrupted for a tick or two, and only keeps the sum
        # from falling below 0, so that such an agent can pull the T for a tick.
        stale = np.where((age > 1) & (age < FORGOTTEN), last, 0)
        impulses, corrections = _solve(contacts, _into(fast[tick, 0], fast[tick, 1], sine, cosine), stale)
        last, age = np.where(contacts.touches, impulses + stale, last), np.where(contacts.touches, 1, age + 1)
        one, other = (impulses + corrections) * contacts.touches
        along, across, turn = (
            (one * part[0] + other * part[1]) / size
            for part, size in ((contacts.x, MASS), (contacts.y, MASS), (contacts.lever, MOMENT))
        )
        move_x, move_y = cosine * along - sine * across, sine * along + cosine * across
        left |= contacts.inside.any(0) | _at_walls(x, y, angle)
    low = CENTRE_OF_GRAVITY[1]
    return np.stack([x + sine * low, y - cosine * low, angle], axis=1), left


def _into(x: np.ndarray, y: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A vector in a frame rotated by an angle."""
    return cosine * x + sine * y, cosine * y - sine * x


class _Contacts(NamedTuple):
    """Contacts of discs with the two rectangles [2, N], in the T's frame around its centre of gravity."""

    x: np.ndarray
    y: np.ndarray  # direction of the push
    lever: np.ndarray  # torque of a unit push
    mass: np.ndarray  # impulse that changes the velocity at the contact by one
    correction: np.ndarray  # velocity that corrects the overlap
    touches: np.ndarray
    inside: np.ndarray  # whether the disc's centre is in the rectangle; then nothing else is valid


def _contacts(x: np.ndarray, y: np.ndarray) -> _Contacts:
    """Contacts of discs at x, y [N] with the two rectangles."""
    left, top, right, bottom = RECTANGLES.T[:, :, None]
    near_x, near_y = np.minimum(np.maximum(x, left), right), np.minimum(np.maximum(y, top), bottom)
    push_x, push_y = near_x - x, near_y - y
    apart = np.sqrt(push_x * push_x + push_y * push_y)
    inside = apart == 0
    apart[inside] = 1
    push_x /= apart
    push_y /= apart
    lever = near_x * push_y - near_y * push_x
    mass = 1 / (1 / MASS + lever * lever / MOMENT)
    correction = np.minimum(0, apart - (AGENT_RADIUS - SLOP)) * (-CORRECTION / SECONDS)
    return _Contacts(push_x, push_y, lever, mass, correction, (apart <= AGENT_RADIUS) & ~inside, inside)


def _solve(
    contacts: _Contacts, fast: tuple[np.ndarray, np.ndarray], stale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Impulses [2, N] that stop a disc of velocity `fast`, and those that correct overlaps."""
    wanted = fast[0] * contacts.x + fast[1] * contacts.y
    impulses, corrections = np.maximum(wanted * contacts.mass, -stale), contacts.correction * contacts.mass
    both = np.flatnonzero(contacts.touches.all(0))
    if len(both):
        pair = _Contacts(*(part[:, both] for part in contacts))
        impulses[:, both] = _together(pair, wanted[:, both], stale[:, both])
        corrections[:, both] = _together(pair, pair.correction, np.zeros((2, len(both))))
    return impulses, corrections


def _together(pair: _Contacts, wanted: np.ndarray, stale: np.ndarray) -> np.ndarray:
    """Impulses [2, N] of simultaneous contacts: each reaches at least its wanted velocity, exactly if it pushes.

    Pymunk iterates towards this solution. An impulse is at least minus the stale one.
    """
    x, y, lever, mass = pair[:4]
    coupling = (x[0] * x[1] + y[0] * y[1]) / MASS + lever[0] * lever[1] / MOMENT
    size = 1 / (mass[0] * mass[1]) - coupling * coupling
    both = (wanted / mass[::-1] - coupling * wanted[::-1]) / size
    only_first, only_second = np.maximum((wanted + coupling * stale[::-1]) * mass, -stale)
    push = (both >= -stale).all(0)
    first_rests = coupling * only_second - stale[0] / mass[0] >= wanted[0]
    alone = np.where(first_rests, [-stale[0], only_second], [only_first, -stale[1]])
    return np.where(push, both, alone)


def _at_walls(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Whether the T around this centre of gravity touches a wall: bool [N]."""
    low, high = INNER[0] + FARTHEST, INNER[1] - FARTHEST
    near = (np.minimum(x, y) <= low) | (np.maximum(x, y) >= high)
    rows = np.flatnonzero(near)
    if len(rows):
        place = np.stack([x[rows], y[rows]], axis=1) - turned(CENTRE_OF_GRAVITY, angle[rows])
        near[rows] = touches_walls(np.concatenate([place, angle[rows, None]], axis=1))
    return near


def require_pymunk() -> Any:
    """The package pymunk."""
    try:
        import pymunk
    except ImportError as error:
        raise ReachcostError(f"PushT needs pymunk ({error}): pip install 'reachcost[pusht]'") from error
    return pymunk


@cache
def _chipmunk() -> tuple[Any, Any, list[Any]]:
    """The C library behind pymunk, its identity transform, and the two parts of the T."""
    pymunk = require_pymunk()
    from pymunk._chipmunk_cffi import ffi, lib

    parts = [ffi.new("cpVect[]", [tuple(corner) for corner in part.tolist()]) for part in (BAR, STEM)]
    return lib, pymunk.Transform.identity(), parts


def push_by_pymunk(starts: np.ndarray, poses: np.ndarray, velocities: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Poses [N, 3] of the T after the last tick, each row in its own space.

    The agent is at `starts` [N, 2] and the T at `poses` [N, 3] until tick `first` [N]; the velocities of the agent are
    [N, ticks, 2].
    """
    rows = zip(starts.tolist(), poses.tolist(), velocities.tolist(), first.tolist(), strict=True)
    return np.array([_simulate(start, pose, moves[tick:]) for start, pose, moves, tick in rows])


def _simulate(start: list[float], pose: list[float], velocities: list[list[float]]) -> list[float]:
    """Move the agent by one velocity per tick; return the last pose of the T.

    The T rests at `pose` in the first tick. A space of pymunk remembers contacts, so every simulation has a new one.
    The C functions behind pymunk's classes are many times as fast.
    """
    lib, unmoved, parts = _chipmunk()
    space = lib.cpSpaceNew()
    lib.cpSpaceSetDamping(space, 0.0)
    around = lib.cpSpaceGetStaticBody(space)
    agent, block = lib.cpBodyNewKinematic(), lib.cpBodyNew(MASS, MOMENT)
    shapes = [lib.cpSegmentShapeNew(around, *ends, WALL_RADIUS) for ends in WALLS]
    shapes.append(lib.cpCircleShapeNew(agent, AGENT_RADIUS, (0.0, 0.0)))
    shapes += [lib.cpPolyShapeNew(block, 4, part, unmoved, 0.0) for part in parts]
    lib.cpBodySetCenterOfGravity(block, tuple(CENTRE_OF_GRAVITY.tolist()))
    lib.cpBodySetPosition(agent, start)
    lib.cpBodySetVelocity(agent, velocities[0])
    lib.cpBodySetAngle(block, pose[2])
    lib.cpBodySetPosition(block, pose[:2])
    for body in (agent, block):
        lib.cpSpaceAddBody(space, body)
    for shape in shapes:
        lib.cpSpaceAddShape(space, shape)
    for velocity in velocities:
        lib.cpBodySetVelocity(agent, velocity)
        lib.cpSpaceStep(space, SECONDS)
    position, angle = lib.cpBodyGetPosition(block), lib.cpBodyGetAngle(block)
    for shape in shapes:
        lib.cpSpaceRemoveShape(space, shape)
        lib.cpShapeFree(shape)
    for body in (agent, block):
        lib.cpSpaceRemoveBody(space, body)
        lib.cpBodyFree(body)
    lib.cpSpaceFree(space)
    return [position.x, position.y, angle]
