"""A small trained world model: an encoder that can be read back, and a network that predicts one step of features."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW

from reachcost.base.hashing import fingerprint_arrays
from reachcost.base.parallel import one_thread
from reachcost.base.seeding import torch_seed
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.protocols import Observations
from reachcost.worlds.sight import Eye, Placed

HIDDEN, BATCH, UPDATES, RATE = 128, 256, 6000, 3e-3


class Learned:
    """Dynamics learned from logs; a rollout predicts the features step by step and encodes the last ones.

    Args:
        task: Names the features; its dynamics are not used.
        logs: What it learns from.
        length: Environment steps per action block.
        seed: Of weights and batches.
    """

    def __init__(self, task: Placed, logs: Logs, length: int, seed: int = 0) -> None:
        self.eye, self.actions = Eye(task), ActionBlocks.of(logs, length)
        self.latent_dim, self.action_dim = self.eye.size, self.actions.size
        self._name = task.name
        features = torch.from_numpy(np.asarray(task.features(np.asarray(logs.columns["state"])), np.float32))
        taken = torch.from_numpy(np.asarray(logs.columns["action"], np.float32))
        last = np.zeros(logs.rows, bool)
        last[logs.offsets + logs.lengths - 1] = True
        rows = torch.from_numpy(np.flatnonzero(~last))
        moved = features[rows + 1] - features[rows]
        self._step = moved.std(0)
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(seed, "learned-dynamics"))
            self.network = _train(torch.cat([features, taken], 1)[rows], moved / self._step)

    def __repr__(self) -> str:
        return f"Learned({self._name})"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the encoder and the weights."""
        return fingerprint_arrays(np.array([self.eye.fingerprint]), *(p.numpy() for p in self.network.parameters()))

    def encode(self, observations: Observations) -> Tensor:
        """Read `state` [N, ...]."""
        return self.eye.see(np.asarray(observations["state"]))

    @torch.no_grad()
    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict: context [B, 1, D], actions [B, S, H, A] -> terminal [B, S, D]."""
        batch, samples = actions.shape[:2]
        here = torch.from_numpy(self.eye.read(context[:, -1]).astype(np.float32)).repeat_interleave(samples, 0)
        steps = torch.from_numpy(np.clip(self.actions.unroll(actions.numpy()), self.actions.low, self.actions.high))
        for step in steps.float().flatten(0, 1).unbind(1):
            here = here + self._step * self.network(torch.cat([here, step], 1))
        return self.eye.paint(here.double().numpy()).view(batch, samples, self.latent_dim)


def _train(inputs: Tensor, targets: Tensor) -> nn.Module:
    network = nn.Sequential(
        *(nn.Linear(inputs.shape[1], HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU()),
        nn.Linear(HIDDEN, targets.shape[1]),
    )
    optimizer = AdamW(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=UPDATES)
    for _ in range(UPDATES):
        rows = torch.randint(len(inputs), (BATCH,))
        loss = functional.smooth_l1_loss(network(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval().requires_grad_(False)
