"""Contacts by pymunk: one space whose bodies are put into a state, moved on, and read."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, BAR, CENTRE_OF_GRAVITY, STEM

SECONDS = 0.01
"""Between two ticks of the physics."""
LEFT_LOW, LEFT_HIGH, RIGHT_LOW, RIGHT_HIGH = (5.0, 5.0), (5.0, 506.0), (506.0, 5.0), (506.0, 506.0)
WALLS = ((LEFT_HIGH, LEFT_LOW), (LEFT_LOW, RIGHT_LOW), (RIGHT_LOW, RIGHT_HIGH), (LEFT_HIGH, RIGHT_HIGH))
WALL_RADIUS = 2.0
COG = tuple(CENTRE_OF_GRAVITY.tolist())
MASS, MOMENT = 1.0, 3000.0
"""Of the T. The public environment takes the bar's moment for the stem's too, without moving it to the stem's place."""


def require_pymunk() -> Any:
    """The package, or an error that says where it comes from."""
    try:
        import pymunk
    except ImportError as error:
        raise ReachcostError(f"PushT needs pymunk ({error}): pip install 'reachcost[pusht]'") from error
    return pymunk


class PymunkSpace:
    """Agent, T and walls as `swm/PushT-v1` sets them up: no friction, and damping 0, so that nothing glides on.

    A space of pymunk remembers: the impulses of contacts, from which its next solution starts, and the order of its
    shapes, which settles who pushes first. So every run has a space of its own, and its result belongs to its state.
    It is made by the C functions behind pymunk's classes, which are many times as fast, and used only here.
    """

    def __init__(self) -> None:
        pymunk = require_pymunk()
        from pymunk._chipmunk_cffi import ffi, lib

        self._lib = lib
        self._parts = [ffi.new("cpVect[]", [tuple(corner) for corner in part.tolist()]) for part in (BAR, STEM)]
        self._unmoved = pymunk.Transform.identity()

    def run(
        self, start: list[float], pose: list[float], velocities: list[list[float]], every: int
    ) -> list[list[float]]:
        """Move the agent by one velocity a tick, from `start`; return the poses (x, y, angle) of the T on the way.

        The T rests at `pose` in the first tick, and moves from the second on. Poses are those after the last tick, and
        after `every` so many before it.
        """
        lib = self._lib
        space = lib.cpSpaceNew()
        lib.cpSpaceSetDamping(space, 0.0)
        around = lib.cpSpaceGetStaticBody(space)
        agent, block = lib.cpBodyNewKinematic(), lib.cpBodyNew(MASS, MOMENT)
        shapes = [lib.cpSegmentShapeNew(around, *ends, WALL_RADIUS) for ends in WALLS]
        shapes.append(lib.cpCircleShapeNew(agent, AGENT_RADIUS, (0.0, 0.0)))
        shapes += [lib.cpPolyShapeNew(block, 4, part, self._unmoved, 0.0) for part in self._parts]
        lib.cpBodySetCenterOfGravity(block, COG)
        lib.cpBodySetPosition(agent, start)
        lib.cpBodySetVelocity(agent, velocities[0])
        lib.cpBodySetAngle(block, pose[2])
        lib.cpBodySetPosition(block, pose[:2])
        for body in (agent, block):
            lib.cpSpaceAddBody(space, body)
        for shape in shapes:
            lib.cpSpaceAddShape(space, shape)
        move, tick = lib.cpBodySetVelocity, lib.cpSpaceStep
        poses, to_come = [], len(velocities)
        for velocity in velocities:
            move(agent, velocity)
            tick(space, SECONDS)
            to_come -= 1
            if to_come % every == 0:
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


@cache
def shared_space() -> PymunkSpace:
    """The one of this process."""
    return PymunkSpace()


def push_by_pymunk(starts: np.ndarray, poses: np.ndarray, velocities: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Poses [N, 3] after the ticks from `first` [N] on, each row on its own.

    Args:
        starts: Where the agent is before its first tick [N, 2].
        poses: Of the T until then [N, 3].
        velocities: Of the agent in every tick [N, ticks, 2].
        first: The tick to begin with [N].
    """
    space = shared_space()
    rows = zip(starts.tolist(), poses.tolist(), velocities.tolist(), first.tolist(), strict=True)
    found = [space.run(start, pose, moves[tick:], len(moves))[-1] for start, pose, moves, tick in rows]
    return np.array(found).reshape(-1, 3)


def push_in_one_space(starts: np.ndarray, poses: np.ndarray, velocities: np.ndarray, every: int) -> np.ndarray:
    """Poses [N, steps, 3] after tick 0 and `every` so many ticks each: [N, 2], [N, 3], [N, 1 + steps * every, 2]."""
    space = shared_space()
    rows = zip(starts.tolist(), poses.tolist(), velocities.tolist(), strict=True)
    found = [space.run(start, pose, moves, every)[1:] for start, pose, moves in rows]
    return np.array(found).reshape(len(poses), -1, 3)
