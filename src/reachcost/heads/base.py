"""The base class of heads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from inspect import signature
from typing import Any

from torch import Tensor, nn

from reachcost.errors import ReachcostError


class LearnedHead(nn.Module, ABC):
    """A learned function of two latents: z [..., D] and goal [..., D], broadcast against each other, to [...].

    Its output times `scale` is in the unit of its labels (steps, pixels). A custom head implements `compare`;
    `fit(pairs, head=...)` trains it. To be saved it also needs a `kind` and the decorator `register_head`, and it keeps
    the arguments of its constructor in attributes of the same names.
    """

    kind: str = ""
    """Name in files and recipes."""

    def __init__(self, latent_dim: int, scale: float) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise ReachcostError(f"the scale of a head is {scale}: make it positive, about as large as its labels")
        self.latent_dim, self.scale = latent_dim, scale
        self.record: dict[str, Any] = {}
        """How the head was trained; saved with the weights."""

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head, as JSON values: attributes with the names of constructor arguments."""
        names = ("latent_dim", "scale", *signature(type(self)).parameters)
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def scaled(self, z: Tensor, goal: Tensor) -> Tensor:
        """Predict label / scale, the quantity the loss sees."""
        require_dimension(self.latent_dim, z=z, goal=goal)
        return self.compare(z, goal)

    @abstractmethod
    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """The scaled prediction for z [..., D] and goal [..., D] -> [...]."""

    def forward(self, z: Tensor, goal: Tensor) -> Tensor:
        """Predict the label."""
        return self.scale * self.scaled(z, goal)


def require_dimension(latent_dim: int, **latents: Tensor) -> None:
    """Refuse latents of another dimension than a network was trained on."""
    for name, latent in latents.items():
        if latent.shape[-1] != latent_dim:
            raise ReachcostError(
                f"this network was trained on latents of dimension {latent_dim} but {name} has {latent.shape[-1]}: "
                "use one fitted on latents of this world model"
            )


def two_hidden_layers(inputs: int, hidden: int, outputs: int = 1) -> nn.Sequential:
    """The paper's MLP: two hidden layers of one width with SiLU, by default one output."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs)
    )
