"""What the agent does to a T that no wall touches, for many rows at once: the solution of pymunk, written out.

Frictionless contacts of a disc with two rectangles on one body are simple enough for that: the nearest point of a
rectangle gives the contact, and an impulse along its normal stops the approach. What is not so simple (walls, an agent
whose centre is within the T) is marked, and left to pymunk itself.
"""

from __future__ import annotations

import numpy as np

from reachcost.tasks.pusht.geometry import AGENT_RADIUS, CENTRE_OF_GRAVITY, INNER, touches_walls, turned
from reachcost.tasks.pusht.pymunk_space import MASS, MOMENT, SECONDS

RECTANGLES = ((-60.0, -45.0, 60.0, -15.0), (-15.0, -15.0, 15.0, 75.0))
"""Bar and stem around the centre of gravity: their smallest x, y, and their largest."""
SLOP = float(np.float32(0.1))
CORRECTION = 1 - 0.0017970074436457143**SECONDS
"""Pixels of overlap that pymunk leaves alone, and the share of the rest that it takes back in a tick."""
FORGOTTEN = 4
"""Ticks after which pymunk has forgotten a contact."""
FARTHEST = float(np.hypot(15.0, 75.0))
"""Pixels from its centre of gravity to the farthest corner of the T."""
AT_ONCE = 8192
"""Rows that are solved together: enough to make up for the cost of a call."""


def push_away_from_walls(path: np.ndarray, velocities: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Poses [N, 3] after all ticks, and the rows that must be left to pymunk: bool [N].

    Args:
        path: Where the agent is in every tick [N, ticks, 2].
        velocities: Its velocity in every tick [N, ticks, 2].
        poses: Of the T, at rest before the first tick [N, 3].
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
    """A vector in the frame that is turned by an angle."""
    return cosine * x + sine * y, cosine * y - sine * x


class _Contact:
    """Of the disc at x, y with one rectangle, in the T's frame around its centre of gravity, for N rows.

    Attributes:
        inside: Whether the disc's centre is within the rectangle; the rest is then meaningless.
        touches: Whether they touch.
        x, y: Direction in which the disc pushes.
        lever: What a unit of that push turns.
        mass: Impulse that changes the velocity at the contact by one.
        correction: Velocity that takes the overlap back.
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
        """The same for some rows."""
        some = object.__new__(_Contact)
        some.__dict__.update({name: values[rows] for name, values in vars(self).items()})
        return some


class _Memory:
    """Impulse of each of the two contacts when it last touched [2, N], and how many ticks ago that was."""

    def __init__(self, rows: int) -> None:
        self.impulses, self.age = np.zeros((2, rows)), np.full((2, rows), FORGOTTEN)

    def stale(self, number: int) -> np.ndarray:
        """What a contact still counts from its last time although it did not last until now [N].

        Pymunk counts a contact that comes back after a tick or two from where it was, and only keeps the count from
        falling below 0: such an agent can pull the T for a tick.
        """
        back = (self.age[number] > 1) & (self.age[number] < FORGOTTEN)
        return np.where(back, self.impulses[number], 0)

    def keep(self, number: int, impulses: np.ndarray, touches: np.ndarray) -> None:
        """Remember a tick."""
        self.impulses[number] = np.where(touches, impulses, self.impulses[number])
        self.age[number] = np.where(touches, 1, self.age[number] + 1)


def _solve(contacts: list[_Contact], fast: tuple[np.ndarray, np.ndarray], memory: _Memory) -> tuple[np.ndarray, ...]:
    """Velocity x, y [N] and turn [N] of the T that its contacts with a disc of velocity `fast` lead to."""
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
    """Impulses of two contacts that give both at least the velocity they want, and no more where they push.

    Pymunk iterates towards this, and ten iterations are enough where both are in a corner of the T: it is solved by
    trying which of the two push. An impulse is at least minus what is stale.
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
