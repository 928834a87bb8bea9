"""The actions of a Gymnasium environment: which there are, and none other is executed."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from reachcost.errors import ReachcostError

ROUNDING = 1e-5
"""Share of its range by which an action may leave it: actions pass through float32 and back."""


class Actions:
    """A `Discrete` space, whose actions are indices int64 [N, 1], or a `Box`, whose actions are vectors [N, a].

    Args:
        space: The environment's action space.
        name: What error messages call the environment.
        clip: Execute the nearest action of the box in place of one outside; by default that is refused.

    >>> Actions(spaces.Box(-1, 1, (1,)), "world", clip=True).checked(np.array([[0.5], [3.0]]), 2).tolist()
    [[0.5], [1.0]]
    """

    def __init__(self, space: spaces.Space[Any], name: str, clip: bool = False) -> None:
        self._name, self._clip, self._space = name, clip, space
        self.count: int | None = None
        """How many there are; None for a box."""
        if isinstance(space, spaces.Discrete):
            self.count, self.size = int(space.n), 1
        elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            self._low, self._high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
            self.size = len(self._low)
        else:
            raise ReachcostError(
                f"{name}: its actions are {space}: only Discrete ones and a Box of floats are planned in, so wrap the "
                "environment, say with gymnasium.wrappers.TransformAction"
            )

    @property
    def bounded(self) -> bool:
        """Whether there is a uniform random one."""
        return self.count is not None or bool(np.isfinite([self._low, self._high]).all())

    def draw(self, rng: np.random.Generator, *shape: int) -> np.ndarray:
        """Random actions [*shape, a]: uniform, or standard normal within an unbounded box."""
        if self.count is not None:
            return rng.integers(self.count, size=(*shape, 1))
        if self.bounded:
            return rng.uniform(self._low, self._high, (*shape, self.size)).astype(self._space.dtype)
        return rng.standard_normal((*shape, self.size)).clip(self._low, self._high).astype(self._space.dtype)

    def checked(self, actions: np.ndarray, rows: int) -> np.ndarray:
        """Actions [N, a] as they are executed; refuse those that the environment does not have."""
        actions = np.asarray(actions)
        if actions.shape != (rows, self.size):
            raise ReachcostError(
                f"{self._name}: actions of shape {actions.shape} for {rows} states: give {(rows, self.size)}"
            )
        if self.count is not None:
            if actions.dtype.kind not in "iu" or (rows and not 0 <= actions.min() <= actions.max() < self.count):
                odd = next(iter(actions[(actions < 0) | (actions >= self.count)]), actions.flat[0])
                raise ReachcostError(
                    f"{self._name}: its actions are the integers 0 to {self.count - 1}, not {odd} ({actions.dtype}): "
                    f"plan with CategoricalCEM({self.count})"
                )
            return actions.astype(np.int64)
        if not np.isfinite(actions).all():
            raise ReachcostError(f"{self._name}: an action is not finite: check the planner and its action blocks")
        within = actions.clip(self._low, self._high)
        rounding = ROUNDING * np.maximum(1, np.abs(within))
        outside = (np.abs(actions - within) > rounding).any(1)
        if outside.any() and not self._clip:
            raise ReachcostError(
                f"{self._name}: the action {_show(actions[outside][0])} lies outside of {self._space}: pass clip=True "
                "to execute the nearest one, as a planner samples beyond, or bound the planner"
            )
        return within.astype(self._space.dtype)

    def native(self, action: np.ndarray) -> Any:
        """One checked action [a] as the environment takes it."""
        if isinstance(self._space, spaces.Discrete):
            return int(self._space.start + action[0])
        return action.reshape(self._space.shape or ())


def _show(action: np.ndarray) -> str:
    return str(np.round(action.astype(np.float64), 4).tolist())
