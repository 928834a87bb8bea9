"""World models of the suite: exact dynamics behind an encoder, and small networks that predict action blocks."""

import copy
from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.parallel import one_thread
from reachcost.core.seeding import generator, torch_seed
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.logs import Logs
from reachcost.data.models import history_of
from reachcost.protocols import Observations, WorldModel
from reachcost.tasks.exact import ExactDynamics
from reachcost_paper.worlds.tasks import FeatureTask

BENT, BEND = 12, 0.3
"""Number and size of the entries of a latent that are not linear in the features."""


class Eye:
    """An invertible encoder: the features of a state, with nonlinear entries added, rotated."""

    def __init__(self, task: FeatureTask) -> None:
        self.task = task
        rng = generator(0, f"eye-{task.name}")
        self.known = task.features(np.asarray(task.generate_logs(1).columns["state"][:1])).shape[1]
        self.size = self.known + BENT
        self._turn = np.linalg.qr(rng.standard_normal((self.size, self.size)))[0]
        self._bend = rng.standard_normal((self.known, BENT))

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_arrays(self._turn, self._bend, np.array([self.task.world]))

    def paint(self, features: np.ndarray) -> Tensor:
        """The latents of features [N, F] -> [N, D]."""
        bent = np.concatenate([features, BEND * np.sin(features @ self._bend)], axis=1)
        return torch.from_numpy((bent @ self._turn).astype(np.float32))

    def see(self, states: np.ndarray) -> Tensor:
        """The latents of states [N, ...] -> [N, D]."""
        return self.paint(np.asarray(self.task.features(states), np.float64))

    def read(self, latents: Tensor) -> np.ndarray:
        """The features behind latents [N, D] -> [N, F]."""
        return latents.numpy().astype(np.float64) @ self._turn[: self.known].T

    def states(self, latents: Tensor) -> np.ndarray:
        placed = self.task.place(self.read(latents.reshape(-1, self.size)))
        return placed.reshape(*latents.shape[:-1], *placed.shape[1:])


class Sight:
    """A world model of exact dynamics behind an encoder: a rollout executes candidates in the simulator.

    `actions` are its action blocks; None for discrete actions.
    """

    def __init__(self, task: FeatureTask, actions: ActionBlocks | None = None) -> None:
        self.task, self.actions, self.eye = task, actions, Eye(task)
        self._exact = ExactDynamics(task, actions)
        self.latent_dim, self.action_dim = self.eye.size, self._exact.action_dim

    def __repr__(self) -> str:
        return f"Sight({self.task.name})"

    @property
    def fingerprint(self) -> str:
        return self.eye.fingerprint

    def encode(self, observations: Observations) -> Tensor:
        return self.eye.see(np.asarray(observations["state"]))

    def states(self, latents: Tensor) -> np.ndarray:
        return self.eye.states(latents)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Execute candidates: context [B, 1, D], actions [B, S, H, A] -> terminal [B, S, D]."""
        here = torch.from_numpy(self.states(context[:, -1:]).astype(np.float32))
        ends = self._exact.states(self._exact.rollout(here, actions))
        return self.eye.see(ends.reshape(-1, ends.shape[-1])).view(*actions.shape[:2], self.latent_dim)


class Wrapped:
    """A world model around another one; subclasses change its latents or its predictions."""

    def __init__(self, model: WorldModel) -> None:
        self.model, self.latent_dim, self.action_dim = model, model.latent_dim, model.action_dim
        self.actions, self.history = blocks_of(model), history_of(model)

    def encode(self, observations: Observations) -> Tensor:
        return self.model.encode(observations)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        return self.model.rollout(context, actions)


class Blind(Wrapped):
    """A world model whose encoder, and therefore every prediction, has lost something.

    `lose` removes it from latents [N, D] -> [N, D], and `lost` is its name.
    """

    def __init__(self, model: WorldModel, lose: Callable[[Tensor], Tensor], lost: str) -> None:
        super().__init__(model)
        self._lose, self.lost = lose, lost

    def __repr__(self) -> str:
        return f"Blind({self.model!r}, lost {self.lost})"

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_arrays(np.array([str(getattr(self.model, "fingerprint", "")), self.lost]))

    def encode(self, observations: Observations) -> Tensor:
        return self._lose(self.model.encode(observations))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        ends = self.model.rollout(context, actions)
        return self._lose(ends.reshape(-1, self.latent_dim)).view(ends.shape)


def lose_number(model: WorldModel, number: int, value: float) -> Blind:
    """A model behind an `Eye` for which one entry of every state has the same value."""
    eye = cast(Sight | Learned, model).eye

    def lose(latents: Tensor) -> Tensor:
        states = eye.states(latents)
        states[:, number] = value
        return eye.see(eye.task.place(eye.task.features(states)))

    return Blind(model, lose, f"number {number} of a state of {eye.task.name}")


HIDDEN, BATCH, UPDATES, RATE = 128, 256, 6000, 3e-3
CHECKS, HELD_OUT = 10, 0.1
"""Number of evaluations on held-out episodes during training, and their share; the best network is kept."""


class Learned:
    """Dynamics learned from logs; a rollout predicts the features block by block and encodes the last ones.

    A model of several frames, one block of `length` steps apart, sees velocities. Before the first frame of an episode
    the state is assumed to be at rest with no action, in training and in planning.
    """

    def __init__(self, task: FeatureTask, logs: Logs, length: int, history: int = 1, seed: int = 0) -> None:
        self.eye, self.actions, self.history = Eye(task), ActionBlocks.of(logs, length), history
        self.latent_dim, self.action_dim = self.eye.size, self.actions.size
        self._name = task.name
        episodes, frames, actions, moved = windows(task, logs, length, history)
        unseen = episodes >= (1 - HELD_OUT) * len(logs)
        self._step = moved[~unseen].std(0)
        inputs, targets = self._inputs(frames, actions), moved / self._step
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(seed, "learned-dynamics"))
            seen, held_out = ((inputs[rows], targets[rows]) for rows in (~unseen, unseen))
            self.network, self.error = _train(*seen, *held_out)

    def __repr__(self) -> str:
        return f"Learned({self._name})"

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_arrays(np.array([self.eye.fingerprint]), *(p.numpy() for p in self.network.parameters()))

    def encode(self, observations: Observations) -> Tensor:
        return self.eye.see(np.asarray(observations["state"]))

    def _inputs(self, frames: Tensor, actions: Tensor) -> Tensor:
        """Frames [N, history, F] and the actions since the first of them [N, history * length, a] -> [N, inputs]."""
        here = frames[:, -1]
        moved = (here[:, None] - frames[:, :-1]) / self._step
        return torch.cat([here, moved.flatten(1), actions.flatten(1)], 1)

    @torch.no_grad()
    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict: context [B, T, D], actions [B, S, T - 1 + H, A] -> terminal [B, S, D]."""
        batch, samples, blocks = actions.shape[:3]
        known, length = context.shape[1], self.actions.length
        read = torch.from_numpy(self.eye.read(context.flatten(0, 1)).astype(np.float32)).view(batch, known, -1)
        frames = torch.cat([read[:, :1].expand(-1, self.history - known, -1), read], 1).repeat_interleave(samples, 0)
        steps = np.clip(self.actions.unroll(actions.numpy()), self.actions.low, self.actions.high)
        taken = torch.from_numpy(steps).float().flatten(0, 1)
        taken = functional.pad(taken, (0, 0, (self.history - known) * length, 0))
        for block in range(blocks - known + 1):
            recent = taken[:, block * length : (block + self.history) * length]
            after = frames[:, -1] + self._step * self.network(self._inputs(frames, recent))
            frames = torch.cat([frames[:, 1:], after[:, None]], 1)
        return self.eye.paint(frames[:, -1].double().numpy()).view(batch, samples, self.latent_dim)


def windows(task: FeatureTask, logs: Logs, length: int, history: int) -> tuple[Tensor, ...]:
    """All N windows of the logs; before its first row an episode is at rest, with no action.

    Returns the episodes [N], the features one block apart, newest last [N, history, F], the actions from the first
    frame to the target [N, history * length, a], and the change of the features in the last block [N, F].
    """
    features = np.asarray(task.features(np.asarray(logs.columns["state"])), np.float32)
    taken = np.asarray(logs.columns["action"], np.float32)
    rows = logs.window_starts(length + 1)
    episodes = logs.episode_of(rows)
    first = logs.offsets[episodes][:, None]
    seen = np.maximum(rows[:, None] - length * np.arange(history)[::-1], first)
    steps = rows[:, None] + np.arange(-length * (history - 1), length)
    actions = np.where((steps >= first)[..., None], taken[np.maximum(steps, first)], np.float32(0))
    arrays = episodes, features[seen], actions, features[rows + length] - features[rows]
    return tuple(map(torch.from_numpy, arrays))


def _train(inputs: Tensor, targets: Tensor, unseen: Tensor, truth: Tensor) -> tuple[nn.Module, float]:
    """The network with the best predictions of held-out windows, and their mean squared error in units of change."""
    network = nn.Sequential(
        *(nn.Linear(inputs.shape[1], HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU()),
        nn.Linear(HIDDEN, targets.shape[1]),
    )
    optimizer = AdamW(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=UPDATES)
    best, kept = np.inf, network
    for update in range(1, UPDATES + 1):
        rows = torch.randint(len(inputs), (BATCH,))
        loss = functional.smooth_l1_loss(network(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if update % (UPDATES // CHECKS) == 0:
            with torch.no_grad():
                error = float((network(unseen) - truth).square().mean())
            if error < best:
                best, kept = error, copy.deepcopy(network)
    return kept.eval().requires_grad_(False), best
