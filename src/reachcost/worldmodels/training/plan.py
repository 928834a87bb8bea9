"""How a world model is trained: every number of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from reachcost.errors import ReachcostError, require_numbers

Size = Literal["compact", "wide", "objects", "paper"]


@dataclass(frozen=True)
class TrainingPlan:
    """How a world model is trained; the defaults are for the compact size on two CPU cores."""

    kind: Literal["lewm", "pldm"] = "lewm"
    """The objective."""
    size: Size = "compact"
    """`compact` for two CPU cores; `wide` too, for logs of many worlds, and `objects`, for worlds of few moving
    colours; `paper` is the public ViT-tiny at 224 px, for a GPU."""
    seed: int = 3072
    """Of initial weights, windows and projections."""
    steps: int = 3000
    """Updates of all parts together."""
    refinement: int = 4000
    """Updates of the predictor alone, afterwards."""
    windows: int = 128
    """Windows of an update. SIGReg grows with it."""
    worlds: int = 0
    """Worlds that the windows of an update are of, as many of each, in logs of several (column `world_idx`). SIGReg
    then looks at each world by itself, too: otherwise what differs between worlds and never moves fills the latent. 0
    mixes all windows."""
    frames: int = 4
    """Frames of a window, one action block apart."""
    transitions: int = 1024
    """Transitions of an update of the predictor alone."""
    ahead: int = 1
    """Action blocks that the predictor alone learns to foresee from its own predictions."""
    action_block: int = 5
    """Environment steps of an action block."""
    learning_rate: float = 1e-3
    """Peak of the warm-up and cosine schedule of AdamW, of all parts together."""
    refinement_rate: float = 1e-3
    """The same of the predictor alone."""
    weight_decay: float = 1e-3
    """Of AdamW."""
    warmup: int = 100
    """Updates until the peak."""
    clip: float = 1.0
    """Largest norm of a gradient."""
    projections: int = 512
    """Random directions of SIGReg."""
    holdout: float = 0.05
    """Share of the episodes, the last ones, that judge the model and are never trained on."""
    validate_every: int = 500
    """Updates between validations; each saves the state that a resumed training continues from."""
    threads: int = 2
    """CPU threads; more or fewer round differently."""
    device: str = "cpu"
    """Where to train; `cuda` for the paper's size."""

    def __post_init__(self) -> None:
        require_numbers(self)
        if self.kind not in ("lewm", "pldm") or self.size not in get_args(Size):
            sizes = ", ".join(get_args(Size))
            raise ReachcostError(f"training: no {self.kind!r} of size {self.size!r}: lewm or pldm; {sizes}")
        counts = ("steps", "transitions", "ahead", "action_block", "warmup", "projections", "validate_every", "threads")
        for name in (*counts, "learning_rate", "refinement_rate", "clip"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ReachcostError(f"training: {name} is {getattr(self, name)}: make it positive")
        if self.worlds < 0 or (self.worlds and self.windows % self.worlds):
            raise ReachcostError(f"training: {self.windows} windows cannot be of {self.worlds} worlds, as many of each")
        if self.windows < 2 or self.frames < 2 or self.refinement < 0 or not 0 < self.holdout < 1:
            raise ReachcostError(
                "training: needs two or more windows of two or more frames, refinement >= 0, and 0 < holdout < 1"
            )

    @classmethod
    def paper(cls, **options: Any) -> TrainingPlan:
        """The public training script's settings: about ten passes over the public cache, all parts together."""
        plan = cls(size="paper", steps=50_000, refinement=0, learning_rate=5e-5, warmup=500, validate_every=2000)
        return replace(plan, **options)

    @classmethod
    def of_size(cls, size: Size) -> TrainingPlan:
        """The defaults of a size."""
        if size == "wide":
            return cls(size=size, steps=6000, refinement=10_000, worlds=16, ahead=3)
        if size == "objects":
            return cls(size=size, steps=1500, refinement=6000, refinement_rate=6e-3, validate_every=1000)
        return cls.paper() if size == "paper" else cls()
