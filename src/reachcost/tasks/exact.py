"""Exact dynamics as a world model: the simulator executes the candidates. For diagnosis only, not a repair."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
import torch
from torch import Tensor

from reachcost.data.actions import ActionBlocks
from reachcost.data.models import digest, parts_of
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations
from reachcost.tasks.compatibility import example_states, stepped
from reachcost.tasks.contract import Task, require_task


class ExactDynamics:
    """Encodes a state as itself; a rollout executes the candidates in the simulator.

    Args:
        task: The world; its states are vectors of numbers that float32 holds.
        actions: Statistics and length of the action blocks, as the compared world model has them; None for discrete
            actions, one per step.
        example: States of the task [N, D], for their size and dtype; by default logged ones, or starts of its first
            evaluation set.

    >>> from reachcost import make_task
    >>> blocks = ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length=5)
    >>> model = ExactDynamics(make_task("tworoom"), blocks)
    >>> start = model.encode({"state": np.array([[60.0, 60.0]], np.float32)})
    >>> model.rollout(start[:, None], torch.ones(1, 1, 1, 10)).tolist()
    [[[85.0, 85.0]]]
    """

    def __init__(self, task: Task, actions: ActionBlocks | None = None, example: np.ndarray | None = None) -> None:
        require_task(task)
        require_type(actions, ActionBlocks | None, "actions", "give ActionBlocks, say model.actions")
        if actions is None and task.discrete_actions is None:
            raise ReachcostError(f"{task.name} has continuous actions: give their blocks with actions=")
        self.task, self.actions = task, actions
        self.action_dim = 1 if actions is None else actions.size
        example = example_states(task) if example is None else example
        if example is None or example.ndim != 2:
            known = "unknown, without logs and evaluation sets" if example is None else f"{example.shape[1:]} each"
            raise ReachcostError(f"states of {task.name} are {known}: pass example=, states that are vectors [N, D]")
        self.latent_dim, self._dtype = example.shape[1], example.dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task.name})"

    @property
    def fingerprint(self) -> str:
        """sha256 over the world, the action blocks and attributes of a subclass."""
        settings = {**vars(self), "task": self.task.world, "_dtype": str(self._dtype)}
        return digest(type(self).__qualname__, list(parts_of(settings)))

    def encode(self, observations: Observations) -> Tensor:
        """Read `state` [N, D]."""
        return torch.from_numpy(np.array(observations["state"], np.float32))

    def states(self, latents: Tensor) -> np.ndarray:
        """The states of latents [..., D]."""
        return latents.numpy().astype(self._dtype)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Execute candidates: context [B, 1, D], actions [B, S, H, A] -> terminal [B, S, D]."""
        batch, samples = actions.shape[:2]
        here = np.repeat(self.states(context[:, -1]), samples, axis=0)
        plans = actions.numpy()
        # A planner may sample uint8, and a world that subtracts from an index would wrap around.
        steps = plans.astype(np.int64) if self.actions is None else self.actions.unroll(plans)
        steps = steps.reshape(batch * samples, -1, steps.shape[-1]).swapaxes(0, 1)
        ends = reduce(partial(stepped, self.task), steps, here)
        return torch.from_numpy(np.asarray(ends, np.float32)).view(batch, samples, self.latent_dim)
