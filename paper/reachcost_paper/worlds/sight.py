"""Exact dynamics behind an encoder: a world model whose only errors are those of its latents."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import fingerprint_arrays
from reachcost.core.seeding import generator
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.models import history_of
from reachcost.errors import ReachcostError
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
    """A world model with the shapes and actions of another one."""

    def __init__(self, model: WorldModel) -> None:
        self.model, self.latent_dim, self.action_dim = model, model.latent_dim, model.action_dim
        self.actions, self.history = blocks_of(model), history_of(model)


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
    eye = getattr(model, "eye", None)
    if not isinstance(eye, Eye):
        raise ReachcostError(f"{model!r} has no `eye`: make a Blind with another `lose`")

    def lose(latents: Tensor) -> Tensor:
        states = eye.states(latents)
        states[:, number] = value
        return eye.see(eye.task.place(eye.task.features(states)))

    return Blind(model, lose, f"number {number} of a state of {eye.task.name}")
