"""TwoRoom as a task: two rooms, a wall with doors, an agent that moves in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from reachcost.core.machine import require_memory
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.logs import Logs
from reachcost.data.observations import LazyColumns
from reachcost.errors import ReachcostError
from reachcost.protocols import Observations
from reachcost.tasks.contract import Distance, PublicEnvironment, Task
from reachcost.tasks.plane import Handle, Plane
from reachcost.tasks.tworoom import evaluation_sets, handles, policy, renderer, simulator, statistics
from reachcost.tasks.tworoom.layout import BORDER, CENTRE, SIZE, SUCCESS_DISTANCE, Layout

NEAR, FAR = 70.0, 95.0
"""Pixels to the nearest door: what the paper calls doorway coverage keeps farther away, or comes nearer, than these."""
CELL = 4.0
"""Pixels between the places of a map."""
LAYOUTS_MODEL = "lewm-layouts-3072"
"""Trained in 4,000 layouts: either wall, one door or two (see `split.py`)."""
MODELS = (*(f"{kind}-tworoom-{seed}" for kind in ("lewm", "pldm") for seed in (3072, 3073, 3074)), LAYOUTS_MODEL)
"""World models that know the public layout."""


@dataclass(frozen=True)
class Outcome:
    """How N episodes came out.

    Attributes:
        success: Whether the goal was within 16 px at any time after the start, bool [N].
        first_success: Step of the first success, -1 without one [N].
        category: Name of the outcome, str [N].
    """

    success: np.ndarray
    first_success: np.ndarray
    category: np.ndarray


class TwoRoom(Task):
    """The public navigation task `swm/TwoRoom-v1`, batched; states are (x, y) positions, float32.

    Args:
        layout: Wall, doors and agent.
        collision: `endpoint` tests the end of a step, as the public environment and the paper do; `swept` all of it.
        pixels: Side of the frames that `observe` draws.

    >>> task = TwoRoom()
    >>> task.step(np.array([[90.0, 150.0]]), np.array([[1.0, 0.0]])).tolist()
    [[95.0, 150.0]]
    """

    name = "tworoom"
    action_budget = 50
    distance_unit = "px"
    stops_at_success = False
    action_dim = 2
    sets = tuple(evaluation_sets.RULES)
    models = MODELS
    public = PublicEnvironment(
        "swm/TwoRoom-v1",
        (
            {"method": "_set_state", "args": {"state": {"value": "state"}}},
            {"method": "_set_goal_state", "args": {"goal_state": {"value": "goal_state"}}},
        ),
        SIZE,
        {"transitions": 500.0, "frames": 10.0},
    )

    def __init__(
        self,
        layout: Layout | None = None,
        collision: Literal["endpoint", "swept"] = "endpoint",
        pixels: int = SIZE,
    ) -> None:
        if not 8 <= pixels <= SIZE:
            raise ReachcostError(f"TwoRoom draws frames of 8 to {SIZE} px, not {pixels}")
        steps = {"endpoint": simulator.step_endpoint, "swept": simulator.step_swept}
        if collision not in steps:
            raise ReachcostError(f"unknown collision mode {collision!r}: choose endpoint or swept")
        self.layout, self.pixels = layout or Layout(), pixels
        if self.layout != Layout():
            self.sets = ()  # they are frozen for the public layout
            self.models = (LAYOUTS_MODEL,) if self.layout.is_variant else ()
        self.collision: Literal["endpoint", "swept"] = collision
        self._step = steps[collision]

    def __repr__(self) -> str:
        return f"TwoRoom({self.layout}, collision={self.collision!r}, pixels={self.pixels})"

    @property
    def world(self) -> str:
        """What tells this world from others: an evaluation set of one layout means nothing in another."""
        return f"TwoRoom with {self.layout}"

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: float [N, 2], [N, 2] -> float32 [N, 2]; actions are clipped to [-1, 1]."""
        if np.shape(states)[-1:] != (2,) or np.shape(actions) != np.shape(states):
            raise ReachcostError(
                f"TwoRoom steps states [N, 2] by actions [N, 2], not {np.shape(states)} by {np.shape(actions)}"
            )
        if not np.isfinite(actions).all():
            row = int(np.flatnonzero(~np.isfinite(actions).all(-1))[0])
            raise ReachcostError(f"action {row} is {np.asarray(actions)[row].tolist()}: actions must be finite")
        return self._step(self.layout, np.asarray(states), np.asarray(actions))

    def render(self, states: np.ndarray, size: int | None = None) -> np.ndarray:
        """Draw uint8 [N, size, size, 3]; the goal is not drawn."""
        return renderer.render(self.layout, states, self.pixels if size is None else size)

    def observe(self, states: np.ndarray) -> Observations:
        """The columns `state`, `proprio`, `pixels` and `pixels_64` (for compact models); drawn only when read."""
        return LazyColumns(
            {
                "state": states,
                "proprio": states,
                "pixels": lambda: self.render(states),
                "pixels_64": lambda: self.render(states, 64),
            }
        )

    def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Approximate geodesic distance in pixels [N]."""
        return self.layout.geodesic(np.asarray(states), np.asarray(goals))

    def euclidean(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Straight distance in pixels [N]."""
        return np.linalg.norm(np.asarray(states, np.float64) - goals, axis=-1)

    @property
    def further_distances(self) -> Mapping[str, Distance]:
        """The straight distance beside the geodesic one."""
        return {"euclidean": self.euclidean}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether the goal is nearer than 16 px."""
        return self.euclidean(states, goals) < SUCCESS_DISTANCE

    def category(self, starts: np.ndarray, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Outcome of episodes by their last state.

        `success`; `wrong_room`; `stuck` (within one speed unit of the wall, outside every door);
        `crossed_not_precise` or `same_room_not_precise` (in the right room, too far from the goal).
        """
        layout = self.layout
        gap = np.abs(states[..., layout.across] - CENTRE) - layout.half - layout.radius
        near_miss = np.where(layout.room(starts) == layout.room(goals), "same_room_not_precise", "crossed_not_precise")
        stuck = (gap <= layout.speed) & ~layout.in_door(states[..., layout.along])
        name = np.where(stuck, "stuck", near_miss)
        name = np.where(layout.room(states) != layout.room(goals), "wrong_room", name)
        return np.where(self.success(states, goals), "success", name)

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        """Episodes that stay in their room, and those that lead through a door."""
        same = np.asarray(self.layout.room(starts) == self.layout.room(goals))
        return {"same room": same, "cross wall": ~same}

    def bottleneck(self, states: np.ndarray) -> np.ndarray:
        """2 within 70 px of the nearest door, 0 at 95 px and beyond, 1 in between: int [N]."""
        distance = self.layout.door_distance(np.asarray(states))
        return np.select([distance <= NEAR, distance < FAR], [2, 1], 0)

    def plane(self) -> Plane:
        """The picture within its border; nobody can be in the wall."""
        low, high = (BORDER, BORDER), (SIZE - BORDER, SIZE - BORDER)
        return Plane(low, high, CELL, np.asarray, self._at, lambda places: ~self.layout.solid(places))

    @staticmethod
    def _at(places: np.ndarray) -> np.ndarray:
        return np.asarray(places, np.float32)

    def handles(self) -> tuple[Handle, ...]:
        """The first door along its wall, and the wall by its end."""
        return handles.handles(self.layout)

    def moved(self, name: str, value: float) -> TwoRoom:
        """Another layout: the first door elsewhere, or the wall in the other direction."""
        return TwoRoom(handles.moved(self.layout, name, value), self.collision, self.pixels)

    def outcome(self, paths: np.ndarray, goals: np.ndarray) -> Outcome:
        """Judge whole paths [N, T + 1, 2] from start to end: success after any of the T steps counts."""
        if paths.ndim != 3 or paths.shape[1] < 2 or paths.shape[::2] != goals.shape or not np.isfinite(paths).all():
            raise ReachcostError(
                f"paths {paths.shape} for goals {goals.shape}: give finite [N, T + 1, 2] with T >= 1, and [N, 2]"
            )
        near = np.asarray(self.success(paths[:, 1:], goals[:, None]))
        success = np.asarray(near.any(1))
        category = self.category(paths[:, 0], paths[:, -1], goals)
        return Outcome(success, np.where(success, near.argmax(1) + 1, -1), np.where(success, "success", category))

    def generate_logs(self, episodes: int = 10_000, seed: int = 0, noise: float = 2.0, steps: int = 100) -> Logs:
        """Log the public data policy: expert direction plus noise, ended by success or after `steps`.

        Every episode has its reset row first; the action of its last row is zero, as none was taken there.
        """
        if episodes < 1 or steps < 1:
            raise ReachcostError(f"cannot log {episodes} episodes of {steps} steps: ask for at least one of each")
        require_memory(72 * episodes * steps, f"{episodes} episodes", "log fewer at a time")
        states, actions, goals, executed = policy.collect(self.layout, self._step, episodes, seed, noise, steps)
        lengths = executed + 1
        row = np.arange(steps + 1) < lengths[:, None]
        actions = np.concatenate([actions, np.zeros((episodes, 1, 2), np.float32)], axis=1)
        columns = {
            "state": states[row],
            "proprio": states[row],
            "goal_state": np.repeat(goals, lengths, axis=0),
            "action": actions[row],
            "episode_idx": np.repeat(np.arange(episodes), lengths),
            "step_idx": np.broadcast_to(np.arange(steps + 1), row.shape)[row],
        }
        return Logs(columns, lengths, self.observe)

    def describe_logs(self, logs: Logs) -> Mapping[str, tuple[float, float | None]]:
        """Length of episodes and displacement per step, beside those that the paper gives for the public logs."""
        return {name: (value, statistics.PUBLIC_CACHE[name]) for name, value in statistics.log_statistics(logs).items()}

    def evaluation_set(self, name: str) -> EvaluationSet:
        """Return a frozen set of the public layout, one of `sets`."""
        if self.layout != Layout():
            raise ReachcostError(
                "the frozen evaluation sets belong to the public layout: draw one of this layout's own logs with "
                "draw_evaluation_set(name, logs, seed)"
            )
        return replace(evaluation_sets.load(name), world=self.world)

    def draw_evaluation_set(self, name: str, logs: Logs, seed: int) -> EvaluationSet:
        """Draw a fresh set by the rule of that name from logs of this layout."""
        return replace(evaluation_sets.draw(name, logs, self.layout, seed), world=self.world)
