"""What every head shares: how it is built, scaled and described."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from reachcost.errors import ReachcostError


class LearnedHead(nn.Module, ABC):
    """A function of two latents whose output, times `scale`, is what its labels count (steps, pixels).

    A head of one's own implements `compare`; `fit(pairs, head=...)` trains it. To be saved it also has a `kind`, a
    `config` with every argument of its constructor, and the decorator `register_head`.

    Args:
        latent_dim: D.
        scale: Units of the label per unit of the network's output; conditions the loss.

    Shape:
        z [..., D] and goal [..., D], broadcast against each other, to [...].
    """

    kind: str = ""
    """How files and recipes call it."""

    def __init__(self, latent_dim: int, scale: float) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise ReachcostError(f"the scale of a head is {scale}: make it positive, about as large as its labels")
        self.latent_dim, self.scale = latent_dim, scale
        self.record: dict[str, Any] = {}
        """How the head was trained; saved beside the weights."""

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this head, as JSON values."""
        return {"latent_dim": self.latent_dim, "scale": self.scale}

    def scaled(self, z: Tensor, goal: Tensor) -> Tensor:
        """Predict label / scale, the quantity the loss sees."""
        for name, latent in (("z", z), ("goal", goal)):
            if latent.shape[-1] != self.latent_dim:
                raise ReachcostError(
                    f"this head was trained on latents of dimension {self.latent_dim} but {name} has "
                    f"{latent.shape[-1]}: use a head fitted on latents of this world model"
                )
        return self.compare(z, goal)

    @abstractmethod
    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        """What the network makes of z [..., D] and goal [..., D] -> [...]."""

    def forward(self, z: Tensor, goal: Tensor) -> Tensor:
        """Predict the label."""
        return self.scale * self.scaled(z, goal)


def two_hidden_layers(inputs: int, hidden: int, outputs: int = 1) -> nn.Sequential:
    """The paper's MLP: two hidden layers of one width with SiLU, by default one output."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs)
    )
