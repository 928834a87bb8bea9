"""What the agent does to the T: for many rows at once where no wall is touched, by pymunk elsewhere.

Contacts of a disc with two rectangles on one body are simple without friction: the nearest point of a rectangle is the
contact, and an impulse along its normal stops the approach. Rows with walls, or with the agent's centre within the T,
are marked and left to pymunk.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, BAR, CENTRE_OF_GRAVITY, INNER, STEM, touches_walls, turned

SECONDS = 0.01  # seconds per tick of the physics
MASS, MOMENT = 1.0, 3000.0
"""Of the T. The public environment uses the bar's moment also for the stem, without moving it to the stem's place."""
RECTANGLES = ((-60.0, -45.0, 60.0, -15.0), (-15.0, -15.0, 15.0, 75.0))
"""Bar and stem relative to the centre of gravity: smallest x and y, largest x and y."""
SLOP = float(np.float32(0.1))  # pixels of overlap that pymunk ignores
CORRECTION = 1 - 0.0017970074436457143**SECONDS  # share of further overlap that pymunk corrects in a tick
FORGOTTEN = 4  # ticks after which pymunk forgets a contact
FARTHEST = float(np.hypot(15.0, 75.0))  # pixels from the centre of gravity to the farthest corner of the T
AT_ONCE = 8192  # rows that are solved in one batch
LEFT_LOW, LEFT_HIGH, RIGHT_LOW, RIGHT_HIGH = (5.0, 5.0), (5.0, 506.0), (506.0, 5.0), (506.0, 506.0)
WALLS = ((LEFT_HIGH, LEFT_LOW), (LEFT_LOW, RIGHT_LOW), (RIGHT_LOW, RIGHT_HIGH), (LEFT_HIGH, RIGHT_HIGH))
WALL_RADIUS = 2.0


def push_away_from_walls(path: np.ndarray, velocities: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Poses of the T [N, 3] after all ticks, and the rows that must be left to pymunk, bool [N].

    The agent's positions and velocities are given for every tick [N, ticks, 2], the T is at rest before the first.
    """
    after, left = np.empty_like(poses), np.empty(len(poses), bool)
    for start in range(0, len(poses), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        after[part], left[part] = _push(path[part], velocities[part], poses[part])
    return after, left


def _push(path: np.ndarray, velocities: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = len(poses)
    x, y = (poses[:, :2] + turned(CENTRE_OF_GRAVITY, poses[:, 2])).T.copy()
    angle = poses[:, 2].copy()
    places, fast = (np.ascontiguousarray(part.transpose(1, 2, 0)) for part in (path, velocities))
    move_x = move_y = turn = np.zeros(rows)
    left, memory = np.zeros(rows, bool), _Memory(rows)
    sine = cosine = angle
    for tick in range(len(places)):
        x, y, angle = x + move_x * SECONDS, y + move_y * SECONDS, angle + turn * SECONDS
        sine, cosine = np.sin(angle), np.cos(angle)
        here = _into(places[tick, 0] - x, places[tick, 1] - y, sine, cosine)
        contacts = [_Contact(*here, rectangle) for rectangle in RECTANGLES]
        along, across, turn = _solve(contacts, _into(fast[tick, 0], fast[tick, 1], sine, cosine), memory)
        move_x, move_y = cosine * along - sine * across, sine * along + cosine * across
        left |= contacts[0].inside | contacts[1].inside | _at_walls(x, y, angle)
    low = CENTRE_OF_GRAVITY[1]
    return np.stack([x + sine * low, y - cosine * low, angle], axis=1), left


def _into(x: np.ndarray, y: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A vector in a frame rotated by an angle."""
    return cosine * x + sine * y, cosine * y - sine * x


class _Contact:
    """N contacts of a disc at x, y with a rectangle, in the T's frame around its centre of gravity.

    A unit push along x, y has the torque `lever`, and `mass` is the impulse that changes the velocity at the contact by
    one. `correction` is the velocity that corrects the overlap. Nothing is valid where the disc's centre is `inside`.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, rectangle: tuple[float, float, float, float]) -> None:
        left, top, right, bottom = rectangle
        near_x = np.minimum(np.maximum(x, left), right)
        near_y = np.minimum(np.maximum(y, top), bottom)
        self.x, self.y = near_x - x, near_y - y
        apart = np.sqrt(self.x * self.x + self.y * self.y)
        self.inside = apart == 0
        apart[self.inside] = 1
        self.touches = (apart <= AGENT_RADIUS) & ~self.inside
        self.x /= apart
        self.y /= apart
        self.lever = near_x * self.y - near_y * self.x
        self.mass = 1 / (1 / MASS + self.lever * self.lever / MOMENT)
        self.correction = np.minimum(0, apart - (AGENT_RADIUS - SLOP)) * (-CORRECTION / SECONDS)

    def of(self, rows: np.ndarray) -> _Contact:
        """The contacts of some rows."""
        some = object.__new__(_Contact)
        some.__dict__.update({name: values[rows] for name, values in vars(self).items()})
        return some


class _Memory:
    """Impulses of the two contacts when they last touched [2, N], and the ticks since then [2, N]."""

    def __init__(self, rows: int) -> None:
        self.impulses, self.age = np.zeros((2, rows)), np.full((2, rows), FORGOTTEN)

    def stale(self, number: int) -> np.ndarray:
        """Old impulse [N] of a contact that was interrupted for a tick or two, otherwise 0.

        Pymunk continues from the old impulse and only keeps the sum from falling below 0, so that such an agent can
        pull the T for a tick.
        """
        back = (self.age[number] > 1) & (self.age[number] < FORGOTTEN)
        return np.where(back, self.impulses[number], 0)

    def keep(self, number: int, impulses: np.ndarray, touches: np.ndarray) -> None:
        """Remember a tick."""
        self.impulses[number] = np.where(touches, impulses, self.impulses[number])
        self.age[number] = np.where(touches, 1, self.age[number] + 1)


def _solve(contacts: list[_Contact], fast: tuple[np.ndarray, np.ndarray], memory: _Memory) -> tuple[np.ndarray, ...]:
    """Velocity x, y [N] and rotation [N] of the T after contacts with a disc of velocity `fast`."""
    first, second = contacts
    wanted = [fast[0] * contact.x + fast[1] * contact.y for contact in contacts]
    stale = [memory.stale(number) for number in (0, 1)]
    impulses = [np.maximum(want * one.mass, -old) for one, want, old in zip(contacts, wanted, stale, strict=True)]
    corrections = [contact.correction * contact.mass for contact in contacts]
    both = np.flatnonzero(first.touches & second.touches)
    if len(both):
        pair = first.of(both), second.of(both)
        nothing = np.zeros(len(both))
        at_once = _together(*pair, [want[both] for want in wanted], [old[both] for old in stale])
        corrected = _together(*pair, [contact.correction for contact in pair], [nothing, nothing])
        for number in (0, 1):
            impulses[number][both], corrections[number][both] = at_once[number], corrected[number]
    for number, contact in enumerate(contacts):
        memory.keep(number, impulses[number] + stale[number], contact.touches)
    one, other = (
        (impulse + correction) * contact.touches
        for impulse, correction, contact in zip(impulses, corrections, contacts, strict=True)
    )
    return (
        (one * first.x + other * second.x) / MASS,
        (one * first.y + other * second.y) / MASS,
        (one * first.lever + other * second.lever) / MOMENT,
    )


def _together(
    first: _Contact, second: _Contact, wanted: list[np.ndarray], stale: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Impulses of two simultaneous contacts: each reaches at least its wanted velocity, exactly if it pushes.

    Pymunk iterates towards this solution, and its ten iterations reach it in a corner of the T. Here it is found by
    trying which of the two push. An impulse is at least minus the stale one.
    """
    coupling = (first.x * second.x + first.y * second.y) / MASS + first.lever * second.lever / MOMENT
    size = 1 / (first.mass * second.mass) - coupling * coupling
    both = (
        (wanted[0] / second.mass - coupling * wanted[1]) / size,
        (wanted[1] / first.mass - coupling * wanted[0]) / size,
    )
    only_second = np.maximum((wanted[1] + coupling * stale[0]) * second.mass, -stale[1])
    only_first = np.maximum((wanted[0] + coupling * stale[1]) * first.mass, -stale[0])
    push = (both[0] >= -stale[0]) & (both[1] >= -stale[1])
    first_rests = coupling * only_second - stale[0] / first.mass >= wanted[0]
    return (
        np.where(push, both[0], np.where(first_rests, -stale[0], only_first)),
        np.where(push, both[1], np.where(first_rests, only_second, -stale[1])),
    )


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


def _simulate(start: list[float], pose: list[float], velocities: list[list[float]], every: int) -> list[list[float]]:
    """Move the agent by one velocity per tick; return the poses of the T after the last tick and `every` ticks before.

    The T rests at `pose` in the first tick, and moves from the second on. Walls and bodies are those of
    `swm/PushT-v1`: without friction, and with damping 0, so that nothing glides on.

    A space of pymunk remembers impulses of contacts and the order of its shapes, so every simulation has a new space:
    its result depends on its state alone. The C functions behind pymunk's classes are many times as fast.
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
    move, tick = lib.cpBodySetVelocity, lib.cpSpaceStep
    poses, left = [], len(velocities)
    for velocity in velocities:
        move(agent, velocity)
        tick(space, SECONDS)
        left -= 1
        if left % every == 0:
            position = lib.cpBodyGetPosition(block)
            poses.append([position.x, position.y, lib.cpBodyGetAngle(block)])
    for shape in shapes:
        lib.cpSpaceRemoveShape(space, shape)
        lib.cpShapeFree(shape)
    for body in (agent, block):
        lib.cpSpaceRemoveBody(space, body)
        lib.cpBodyFree(body)
    lib.cpSpaceFree(space)
    return poses


def push_by_pymunk(starts: np.ndarray, poses: np.ndarray, velocities: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Poses [N, 3] after the ticks from `first` [N] on, each row in its own space.

    The agent is at `starts` [N, 2], the T at `poses` [N, 3] until then; velocities are the agent's [N, ticks, 2].
    """
    rows = zip(starts.tolist(), poses.tolist(), velocities.tolist(), first.tolist(), strict=True)
    found = [_simulate(start, pose, moves[tick:], len(moves))[-1] for start, pose, moves, tick in rows]
    return np.array(found).reshape(-1, 3)


def push_in_one_space(starts: np.ndarray, poses: np.ndarray, velocities: np.ndarray, every: int) -> np.ndarray:
    """Poses [N, steps, 3] after tick 0 and each `every` further ticks: [N, 2], [N, 3], [N, 1 + steps * every, 2]."""
    rows = zip(starts.tolist(), poses.tolist(), velocities.tolist(), strict=True)
    found = [_simulate(start, pose, moves, every)[1:] for start, pose, moves in rows]
    return np.array(found).reshape(len(poses), -1, 3)
