"""TwoRoom as a task: two rooms, a wall with doors, an agent that moves in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from reachcost.core.machine import require_memory
from reachcost.data.evaluation import EvaluationSet, read_evaluation_set
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import (
    Distance,
    Handle,
    Plane,
    PublicEnvironment,
    Task,
    frames_of_two_sizes,
    require_finite,
)
from reachcost.tasks.gym import EpisodeEnv
from reachcost.tasks.tworoom import logs as policy
from reachcost.tasks.tworoom import renderer
from reachcost.tasks.tworoom.layout import (
    BORDER,
    CENTRE,
    SIZE,
    SUCCESS_DISTANCE,
    WALLS,
    Layout,
    step_endpoint,
    step_swept,
)

NEAR, FAR = 70.0, 95.0
"""Pixels to the nearest door: at most NEAR and at least FAR are the paper's classes of doorway coverage."""
CELL = 4.0  # pixels between neighbouring places of a map
GRIP = 10.0  # pixels between the border and the handle of the wall
STEPS = {"endpoint": step_endpoint, "swept": step_swept}
LAYOUTS_MODEL = "lewm-layouts-3072"  # trained in 4,000 layouts: either wall direction, one door or two


class TwoRoom(Task):
    """The public navigation task `swm/TwoRoom-v1`, batched; states are (x, y) positions, float32.

    Args:
        layout: Wall, doors and agent.
        collision: `endpoint` tests the end of a step, as the public environment and the paper do; `swept` all of it.
        pixels: Side of the frames of `observe`.

    >>> task = TwoRoom()
    >>> task.step(np.array([[90.0, 150.0]]), np.array([[1.0, 0.0]])).tolist()
    [[95.0, 150.0]]
    """

    name = "tworoom"
    action_budget = 50
    distance_unit = "px"
    action_dim = 2
    sets = tuple(policy.RULES)
    models = (*(f"{kind}-tworoom-{seed}" for kind in ("lewm", "pldm") for seed in (3072, 3073, 3074)), LAYOUTS_MODEL)
    public = PublicEnvironment("swm/TwoRoom-v1", SIZE)

    def __init__(
        self, layout: Layout | None = None, collision: Literal["endpoint", "swept"] = "endpoint", pixels: int = SIZE
    ) -> None:
        if not 8 <= pixels <= SIZE:
            raise ReachcostError(f"TwoRoom cannot render frames of {pixels} px: choose 8 to {SIZE}")
        if collision not in STEPS:
            raise ReachcostError(f"unknown collision mode {collision!r}: choose endpoint or swept")
        self.layout, self.pixels = layout or Layout(), pixels
        self.collision: Literal["endpoint", "swept"] = collision
        if self.layout != Layout():
            self.sets = ()  # they are frozen for the public layout
            varied = replace(self.layout, wall=Layout.wall, doors=Layout.doors) == Layout()
            self.models = (LAYOUTS_MODEL,) if varied and len(self.layout.doors) <= 2 else ()

    def __repr__(self) -> str:
        return f"TwoRoom({self.layout}, collision={self.collision!r}, pixels={self.pixels})"

    @property
    def world(self) -> str:
        """Name of the world; it includes the layout."""
        return f"TwoRoom with {self.layout}"

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: float [N, 2], [N, 2] -> float32 [N, 2]; actions are clipped to [-1, 1]."""
        states, actions = np.asarray(states), np.asarray(actions)
        if states.shape[-1:] != (2,) or actions.shape != states.shape:
            raise ReachcostError(f"states are {states.shape} and actions {actions.shape}: give TwoRoom [N, 2] of both")
        require_finite("action", actions)
        return STEPS[self.collision](self.layout, states, actions)

    def render(self, states: np.ndarray, size: int | None = None) -> np.ndarray:
        """Render uint8 [N, size, size, 3], without the goal."""
        return renderer.render(self.layout, states, self.pixels if size is None else size)

    def observe(self, states: np.ndarray) -> Observations:
        """The columns `state`, `proprio`, `pixels` and `pixels_64` (for compact models), rendered when read."""
        return frames_of_two_sizes(states, states[..., :2], self.render)

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Approximate geodesic distance in pixels [N]."""
        return self.layout.geodesic(np.asarray(states), np.asarray(goals))

    def euclidean(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Straight distance in pixels [N]."""
        return np.linalg.norm(np.asarray(states, np.float64) - goals, axis=-1)

    @property
    def further_distances(self) -> Mapping[str, Distance]:
        """The straight distance."""
        return {"euclidean": self.euclidean}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the goal is nearer than 16 px."""
        return self.euclidean(states, goals) < SUCCESS_DISTANCE

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Outcomes of episodes by their last state.

        `success`; `wrong_room`; `stuck` (within one speed unit of the wall, outside every door);
        `crossed_not_precise` or `same_room_not_precise` (in the right room, too far from the goal).
        """
        layout = self.layout
        gap = np.abs(states[..., layout.across] - CENTRE) - layout.half - layout.radius
        stuck = (gap <= layout.speed) & ~layout.in_door(states[..., layout.along])
        crossed = layout.room(starts) != layout.room(goals)
        conditions = [self.success(states, goals), layout.room(states) != layout.room(goals), stuck, crossed]
        return np.select(conditions, ["success", "wrong_room", "stuck", "crossed_not_precise"], "same_room_not_precise")

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Episodes within one room, and those through a door."""
        same = np.asarray(self.layout.room(starts) == self.layout.room(goals))
        return {"same room": same, "cross wall": ~same}

    def bottleneck(self, states: np.ndarray) -> np.ndarray:
        """2 within 70 px of the nearest door, 0 at 95 px and beyond, 1 in between: int [N]."""
        distance = self.layout.door_distance(np.asarray(states))
        return np.select([distance <= NEAR, distance < FAR], [2, 1], 0)

    def plane(self) -> Plane:
        """The frame within its border; the wall is not free."""
        low, high = (BORDER, BORDER), (SIZE - BORDER, SIZE - BORDER)
        return Plane(low, high, CELL, np.asarray, lambda p: np.asarray(p, np.float32), lambda p: ~self.layout.solid(p))

    def handles(self) -> tuple[Handle, ...]:
        """The first door, dragged along its wall, and the end of the wall, dragged to turn it."""
        (low, high), edge = self._door_range(), SIZE - BORDER - GRIP
        turned = self.layout.wall == WALLS[1]
        ends = ((low, CENTRE), (high, CENTRE)) if turned else ((CENTRE, low), (CENTRE, high))
        value = min(1.0, max(0.0, (self.layout.doors[0][0] - low) / (high - low)))
        wall = Handle("wall", (CENTRE, edge), (edge, CENTRE), float(turned), len(WALLS))
        return Handle("door", *ends, value), wall

    def moved(self, name: str, value: float) -> TwoRoom:
        """The world with its first door or its wall moved."""
        if name not in ("door", "wall") or not 0 <= value <= 1:
            raise ReachcostError(f"TwoRoom cannot move {name!r} to {value}: move door or wall, to a value from 0 to 1")
        (low, high), ((_, half), *others) = self._door_range(), self.layout.doors
        change: Any = {"doors": ((low + value * (high - low), half), *others)}
        layout = replace(self.layout, **(change if name == "door" else {"wall": WALLS[round(value)]}))
        return TwoRoom(layout, self.collision, self.pixels)

    def _door_range(self) -> tuple[float, float]:
        """Smallest and largest centre of the first door between the borders."""
        half = self.layout.doors[0][1]
        return BORDER + half, SIZE - BORDER - half

    def sample_pair(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Start and goal [2], as those of logged episodes."""
        start, goal, _ = policy.sample_episode(self.layout, int(rng.integers(2**31)), 0)
        return start.astype(np.float32), goal.astype(np.float32)

    def generate_logs(self, episodes: int = 10_000, seed: int = 0) -> Logs:
        """Log the public data policy: expert direction plus noise, until success or for 100 steps.

        An episode starts with its reset row. The action of its last row is zero, as none was executed there.
        """
        if episodes < 1:
            raise ReachcostError(f"cannot log {episodes} episodes: log at least one")
        require_memory(72 * episodes * policy.STEPS, f"{episodes} episodes", "log fewer at a time")
        return policy.make_logs(self.layout, self.step, self.observe, episodes, seed)

    def describe_logs(self, logs: Logs) -> Mapping[str, tuple[float, float | None]]:
        """Lengths of episodes and displacements per step, each with the paper's value for the public logs."""
        before = logs.window_starts(2)
        states = logs.columns["state"].astype(np.float64)
        moved = np.linalg.norm(states[before + 1] - states[before], axis=1)
        return {
            "episodes": (len(logs), 10_000),
            "observations": (logs.rows, 632_749),
            "shortest episode": (int(logs.lengths.min()), 2),
            "longest episode": (int(logs.lengths.max()), 101),
            "median length": (float(np.median(logs.lengths)), 67),
            "mean length": (float(logs.lengths.mean()), 63.3),
            "mean displacement, px": (float(moved.mean()), 5.92),
            "median displacement, px": (float(np.median(moved)), 6.19),
            "steps below 0.1 px, %": (float(100 * (moved < 0.1).mean()), 0.037),
        }

    def evaluation_set(self, name: str) -> EvaluationSet:
        """The frozen set of that name, one of `sets`; only the public layout has them."""
        if name not in self.sets:
            known = f"choose one of {', '.join(self.sets)}, or " if self.sets else ""
            remedy = f"{known}sample one by sample_evaluation_set(name, logs, seed)"
            raise ReachcostError(f"{self.world} has no evaluation set {name!r}: {remedy}")
        return read_evaluation_set(policy.FROZEN / f"{name}.json", np.float32, name=name, world=self.world)

    def sample_evaluation_set(self, name: str, logs: Logs, seed: int) -> EvaluationSet:
        """Sample a set by the rule of that name from logs of this layout."""
        return policy.sample_set(name, logs, self.layout, seed, self.world)


class TwoRoomEnv(EpisodeEnv):
    """One TwoRoom episode as a Gymnasium environment: pixels in, a velocity in [-1, 1]^2 out, reward 0.

    >>> import gymnasium, reachcost
    >>> observation, info = gymnasium.make("reachcost/TwoRoom-v0").reset(seed=0)
    >>> observation.shape, sorted(info)
    ((224, 224, 3), ['distance', 'goal_state', 'state'])
    """

    make_task = TwoRoom
