"""TwoRoom's own dynamics as a world model: the latent is the state. A ceiling for diagnosis, never a repair."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reachcost.data.actions import ActionBlocks
from reachcost.protocols import Observations
from reachcost.tasks.tworoom import TwoRoom


class ExactTwoRoom:
    """Encodes a state as itself; a rollout executes the candidates in the simulator.

    Args:
        task: The world.
        actions: Statistics and length of the action blocks, as the world model it is compared with has them.

    >>> blocks = ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length=5)
    >>> model = ExactTwoRoom(TwoRoom(), blocks)
    >>> model.rollout(torch.tensor([[[60.0, 60.0]]]), torch.ones(1, 1, 1, 10)).tolist()
    [[[85.0, 85.0]]]
    """

    latent_dim = 2

    def __init__(self, task: TwoRoom, actions: ActionBlocks) -> None:
        self.task, self.actions, self.action_dim = task, actions, actions.size

    def encode(self, observations: Observations) -> Tensor:
        """Read `state` [N, 2]."""
        return torch.from_numpy(np.array(observations["state"], np.float32))

    def states(self, latents: Tensor) -> np.ndarray:
        """The states behind latents [..., 2]."""
        return latents.numpy()

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Execute candidates: context [B, 1, 2], actions [B, S, H, A] -> terminal [B, S, 2]."""
        batch, samples = actions.shape[:2]
        here = np.repeat(context[:, -1].numpy(), samples, axis=0)
        steps = self.actions.unroll(actions.numpy()).reshape(batch * samples, -1, len(self.actions.mean))
        for step in range(steps.shape[1]):
            here = self.task.step(here, steps[:, step])
        return torch.from_numpy(here).view(batch, samples, 2)
