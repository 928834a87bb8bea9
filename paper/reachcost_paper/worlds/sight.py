"""Exact dynamics behind an encoder: what a world model would be that makes no mistake but those of its latents."""

from __future__ import annotations

from abc import abstractmethod
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
from reachcost.tasks.contract import Task
from reachcost.tasks.exact import ExactDynamics

BENT, BEND = 12, 0.3
"""How many numbers of a latent are not linear in the features, and how large they are."""


class Placed(Task):
    """A task whose states can be written as features and read back from them."""

    @abstractmethod
    def features(self, states: np.ndarray) -> np.ndarray:
        """What a latent is made of, each about -1 to 1: [N, ...] -> [N, F]; angles as sine, cosine."""

    @abstractmethod
    def place(self, features: np.ndarray) -> np.ndarray:
        """The states of features [N, F], also of some that are a little off: [N, ...]."""

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        """The features."""
        return np.asarray(self.features(states), np.float64)


class Eye:
    """An encoder that can be read back: the features of a state, bent and rotated.

    >>> from reachcost_paper.worlds.open import Open
    >>> eye = Eye(Open())
    >>> latents = eye.see(np.array([[3.0, 4.0]], np.float32))
    >>> latents.shape, eye.states(latents).round(3).tolist()
    (torch.Size([1, 14]), [[3.0, 4.0]])
    """

    def __init__(self, task: Placed) -> None:
        self.task = task
        rng = generator(0, f"eye-{task.name}")
        self.known = task.features(np.asarray(task.generate_logs(1).columns["state"][:1])).shape[1]
        self.size = self.known + BENT
        self._turn = np.linalg.qr(rng.standard_normal((self.size, self.size)))[0]
        self._bend = rng.standard_normal((self.known, BENT))

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over what makes the latents."""
        return fingerprint_arrays(self._turn, self._bend, np.array([self.task.world]))

    def paint(self, features: np.ndarray) -> Tensor:
        """The latents of features [N, F] -> [N, D]."""
        whole = np.concatenate([features, BEND * np.sin(features @ self._bend)], axis=1)
        return torch.from_numpy((whole @ self._turn).astype(np.float32))

    def see(self, states: np.ndarray) -> Tensor:
        """The latents of states [N, ...] -> [N, D]."""
        return self.paint(np.asarray(self.task.features(states), np.float64))

    def read(self, latents: Tensor) -> np.ndarray:
        """The features behind latents [N, D] -> [N, F]."""
        return latents.numpy().astype(np.float64) @ self._turn[: self.known].T

    def states(self, latents: Tensor) -> np.ndarray:
        """The states behind latents [..., D]."""
        placed = self.task.place(self.read(latents.reshape(-1, self.size)))
        return placed.reshape(*latents.shape[:-1], *placed.shape[1:])


class Sight:
    """An encoder before exact dynamics: a rollout executes candidates in the simulator.

    Args:
        task: The world.
        actions: How blocks stand for its actions; None where they are discrete.

    >>> from reachcost_paper.worlds.open import Open
    >>> task = Open()
    >>> model = Sight(task, ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length=1))
    >>> start = model.encode(task.observe(np.array([[3.0, 4.0]], np.float32)))
    >>> model.states(model.rollout(start[:, None], torch.ones(1, 1, 2, 2))).round(3).tolist()
    [[[5.0, 6.0]]]
    """

    def __init__(self, task: Placed, actions: ActionBlocks | None = None) -> None:
        self.task, self.actions, self.eye = task, actions, Eye(task)
        self._exact = ExactDynamics(task, actions)
        self.latent_dim, self.action_dim = self.eye.size, self._exact.action_dim

    def __repr__(self) -> str:
        return f"Sight({self.task.name})"

    @property
    def fingerprint(self) -> str:
        """sha256 over what makes the latents."""
        return self.eye.fingerprint

    def encode(self, observations: Observations) -> Tensor:
        """Read `state` [N, ...]."""
        return self.eye.see(np.asarray(observations["state"]))

    def states(self, latents: Tensor) -> np.ndarray:
        """The states behind latents [..., D]."""
        return self.eye.states(latents)

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Execute candidates: context [B, 1, D], actions [B, S, H, A] -> terminal [B, S, D]."""
        here = torch.from_numpy(self.states(context[:, -1:]).astype(np.float32))
        ends = self._exact.states(self._exact.rollout(here, actions))
        return self.eye.see(ends.reshape(-1, ends.shape[-1])).view(*actions.shape[:2], self.latent_dim)


class Blind:
    """A world model whose encoder, and with it every prediction, has lost something.

    Args:
        model: The whole model.
        lose: What is left of latents [N, D] -> [N, D].
        lost: What is lost, for people.
    """

    def __init__(self, model: WorldModel, lose: Callable[[Tensor], Tensor], lost: str) -> None:
        self._model, self._lose, self.lost = model, lose, lost
        self.latent_dim, self.action_dim = model.latent_dim, model.action_dim
        self.actions, self.history = blocks_of(model), history_of(model)

    def __repr__(self) -> str:
        return f"Blind({self._model!r}, lost {self.lost})"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the whole model's and what is lost."""
        return fingerprint_arrays(np.array([str(getattr(self._model, "fingerprint", "")), self.lost]))

    def encode(self, observations: Observations) -> Tensor:
        """Encode, then lose."""
        return self._lose(self._model.encode(observations))

    def rollout(self, context: Tensor, actions: Tensor) -> Tensor:
        """Predict from what is left, then lose: shapes as in the whole model."""
        ends = self._model.rollout(context, actions)
        return self._lose(ends.reshape(-1, self.latent_dim)).view(ends.shape)


def lose_number(model: WorldModel, number: int, value: float) -> Blind:
    """A model behind an `Eye` to which one number of every state looks the same."""
    eye = getattr(model, "eye", None)
    if not isinstance(eye, Eye):
        raise ReachcostError(f"{model!r} has no `eye`: make a Blind with a `lose` of its own")

    def lose(latents: Tensor) -> Tensor:
        left = eye.states(latents)
        left[:, number] = value
        return eye.see(eye.task.place(eye.task.features(left)))

    return Blind(model, lose, f"number {number} of a state of {eye.task.name}")
