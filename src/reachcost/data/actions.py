"""Action blocks: the actions of one model step, standardised by the statistics of the logs.

A model step lasts several environment steps (the frameskip). Planners sample blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, require_type


@dataclass(frozen=True)
class ActionBlocks:
    """Standardised blocks of actions.

    Attributes:
        mean, std, low, high: Statistics of each action component in the logs.
        length: Environment steps per block.

    >>> blocks = ActionBlocks(mean=(0.0, 1.0), std=(1.0, 2.0), low=(-1.0, -1.0), high=(1.0, 1.0), length=2)
    >>> blocks.standardise(np.array([[[0.5, 1.0], [0.5, -1.0]]])).tolist()
    [[0.5, 0.0, 0.5, -1.0]]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    length: int

    def __post_init__(self) -> None:
        for name in ("mean", "std", "low", "high"):
            values = tuple(float(value) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if len(values) != len(self.mean) or not np.isfinite(values).all():
                raise ReachcostError(f"action blocks: {name} is {values}: give one finite number per component")
        require_type(self.length, int, "action blocks: length", "give the environment steps of a block")
        if self.length < 1:
            raise ReachcostError(f"action blocks: length is {self.length}: give one step or more")
        if not self.mean or min(self.std) <= 0:
            raise ReachcostError(
                f"action blocks: the deviations are {list(self.std)}: log actions that vary in every component"
            )

    @classmethod
    def of(cls, logs: Logs, length: int, taken: np.ndarray | None = None) -> ActionBlocks:
        """Measure logged actions; `taken` selects rows [R], by default all but the last of each episode."""
        if "action" not in logs.columns:
            raise ReachcostError("these logs have no column 'action': log the actions")
        if len(shape := logs.columns["action"].shape) != 2:
            raise ReachcostError(f"the column 'action' is {shape}: log actions as [rows, components]")
        taken = logs.window_starts(2) if taken is None else taken
        actions = np.asarray(logs.columns["action"][:], np.float64)[taken]
        actions = actions[np.isfinite(actions).all(1)]
        if not len(actions):
            raise ReachcostError("these logs hold no finite action: log the action of every step")
        statistics = actions.mean(0), actions.std(0), actions.min(0), actions.max(0)
        blocks = cls(*(tuple(numbers.tolist()) for numbers in statistics), length=length)
        if length >= (longest := int(logs.lengths.max())):
            raise ReachcostError(
                f"a block of {length} actions is as long as the longest episode, {longest} rows: give a smaller length"
            )
        return blocks

    @property
    def size(self) -> int:
        """A, the number of values in a block."""
        return self.length * len(self.mean)

    def standardise(self, actions: np.ndarray) -> np.ndarray:
        """Environment actions [..., length, a] -> blocks float32 [..., A]."""
        scaled = (np.asarray(actions, np.float64) - self.mean) / self.std
        return scaled.reshape(*scaled.shape[:-2], self.size).astype(np.float32)

    def environment(self, blocks: np.ndarray) -> np.ndarray:
        """Blocks [..., A] -> environment actions float32 [..., length, a]."""
        shape = (*np.shape(blocks)[:-1], self.length, len(self.mean))
        return (np.reshape(blocks, shape) * np.array(self.std) + self.mean).astype(np.float32)

    def unroll(self, plans: np.ndarray) -> np.ndarray:
        """Sequences of blocks [..., H, A] -> environment actions float32 [..., H * length, a]."""
        return self.environment(plans).reshape(*plans.shape[:-2], -1, len(self.mean))

    def bounds(
        self, low: float | Sequence[float] | None = None, high: float | Sequence[float] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The smallest and largest action of each component, by default the logged ones, as blocks float32 [A]."""
        ends = self._bound(self.low if low is None else low), self._bound(self.high if high is None else high)
        if not (ends[0] <= ends[1]).all():
            raise ReachcostError(f"action bounds are {low} to {high}: give the lower ones first")
        return ends

    def _bound(self, values: float | Sequence[float]) -> Tensor:
        if np.ndim(values) and np.shape(values) != (len(self.mean),):
            raise ReachcostError(f"action bounds are {values}: give one number, or one for each of {len(self.mean)}")
        return torch.from_numpy(self.standardise(np.broadcast_to(values, (self.length, len(self.mean)))))


def blocks_of(model: object) -> ActionBlocks | None:
    """The action blocks of a world model, its `actions`; None for a model that takes single actions of the task."""
    blocks = getattr(model, "actions", None)
    if blocks is not None and not isinstance(blocks, ActionBlocks):
        raise ReachcostError(
            f"`actions` of the world model is a {type(blocks).__name__}: give rc.ActionBlocks.of(logs, length)"
        )
    if blocks is not None and blocks.size != getattr(model, "action_dim", blocks.size):
        raise ReachcostError(
            f"`actions` of the world model has blocks of {blocks.size} numbers, but its `action_dim` is "
            f"{getattr(model, 'action_dim', None)}: give both the same size"
        )
    return blocks


def discrete_actions(model: object, logs: Logs) -> int | None:
    """Number of discrete actions in the logs; None for a model that has action blocks."""
    if blocks_of(model) is not None:
        return None
    logged = np.asarray(logs.columns["action"]) if "action" in logs.columns else np.empty(0)
    if logged.dtype.kind not in "iub" or not len(logged) or logged.min() < 0:
        raise ReachcostError(
            "logged actions are not whole numbers from 0: call rc.with_actions(model, logs, length) for action blocks"
        )
    return int(logged.max()) + 1
