"""World models of comparisons, and the side of stable-worldmodel: its models with our weights, and its solver.

Shapes: E episodes, H action blocks of A numbers.
"""

import copy
import warnings
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from reachcost.core.seeding import EpisodeStreams
from reachcost.data.actions import ActionBlocks
from reachcost.planning.cem import CEM
from reachcost.swm.evaluation import import_stable_worldmodel, silence
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model, zoo
from reachcost.worldmodels.public import IMAGENET_MEAN, IMAGENET_STD, PublicArchitecture, PublicParts

Family = Literal["LeWM", "PLDM"]
BLOCKS = ActionBlocks(mean=(0.0, 0.0), std=(1.0, 1.0), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)


@cache
def official(architecture: PublicArchitecture) -> JepaWorldModel:
    """A model of the size of the public checkpoints, with random weights, as speed does not depend on them."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        parts = PublicParts(architecture)
        for name, tensor in parts.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2)
            elif "adaLN" in name:  # initially zero, so that actions would have no effect
                tensor.add_(0.02 * torch.randn_like(tensor))
    return JepaWorldModel(parts, BLOCKS, clamp=False)


@cache
def compact() -> JepaWorldModel:
    """The first bundled model of the first world, without its clamp, which stable-worldmodel does not have."""
    name = next(name for name in zoo() if name.startswith(f"lewm-{make_task().name}-"))
    return load_world_model(name, clamp=False, device="cpu")


def random_frames(count: int, pixels: int) -> np.ndarray:
    """Frames uint8 [count, pixels, pixels, 3]."""
    return np.random.default_rng(0).integers(0, 256, (count, pixels, pixels, 3), dtype=np.uint8)


class SolverStreams(EpisodeStreams):
    """The numbers that a `CEMSolver` with this seed draws: all rounds of an episode, then those of the next."""

    def __init__(self, seed: int, episodes: int, rounds: int) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self._episodes, self._rounds = episodes, rounds
        self._drawn: list[np.ndarray] = []

    def normal(self, *shape: int) -> np.ndarray:
        """Numbers of the next round, float32 [E, *shape]."""
        if not self._drawn:
            episodes = [[self._draw(shape) for _ in range(self._rounds)] for _ in range(self._episodes)]
            self._drawn = [np.concatenate(drawn) for drawn in zip(*episodes, strict=True)]
        return self._drawn.pop(0)

    def _draw(self, shape: tuple[int, ...]) -> np.ndarray:
        return torch.randn(1, *shape, generator=self._random).numpy()


@cache
def public_model(model: JepaWorldModel, family: Family = "LeWM") -> nn.Module:
    """A model of the package with the size and weights of one of ours of official size."""
    import_stable_worldmodel()
    package = f"stable_worldmodel.wm.{family.lower()}"
    modules, build = import_module(f"{package}.module"), getattr(import_module(f"{package}.{family.lower()}"), family)
    sizes: PublicArchitecture = model.parts.architecture
    width = sizes.latent_dim
    predictor = modules.Predictor(
        num_frames=sizes.history,
        depth=sizes.depth,
        heads=sizes.heads,
        mlp_dim=sizes.mlp,
        input_dim=width,
        hidden_dim=sizes.predictor_width,
        dim_head=sizes.dim_head,
        dropout=sizes.dropout,
    )
    actions = modules.Embedder(sizes.action_dim, sizes.action_smoothed_dim, width)
    projectors = (
        modules.MLP(sizes.encoder_width, sizes.projector_hidden, width, nn.BatchNorm1d),
        modules.MLP(width, sizes.pred_proj_hidden, width, nn.BatchNorm1d),
    )
    theirs = build(_public_encoder(sizes), predictor, actions, *projectors)
    theirs.load_state_dict(model.parts.state_dict())
    return theirs.eval().requires_grad_(False)


def _public_encoder(sizes: PublicArchitecture) -> nn.Module:
    """The `ViTModel` of transformers as the package builds it, with random weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=sizes.encoder_width,
        num_hidden_layers=sizes.encoder_depth,
        num_attention_heads=sizes.encoder_heads,
        intermediate_size=sizes.encoder_mlp,
        image_size=sizes.image_size,
        patch_size=sizes.patch,
        layer_norm_eps=sizes.encoder_eps,
    )
    return ViTModel(config, add_pooling_layer=False)


@cache
def public_compact(model: JepaWorldModel) -> nn.Module:
    """`LeWM` of the package around a copy of our compact parts, with weights in the layout of torch."""
    import_stable_worldmodel()
    from stable_worldmodel.wm.lewm.lewm import LeWM

    parts: Any = copy.deepcopy(model.parts)
    for part in parts.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = part.weight.data.contiguous()
    return LeWM(_Encoder(parts.encoder), _Predictor(parts.predictor), parts.action_encoder, parts.projector).eval()


class _Encoder(nn.Module):
    """A compact encoder with the interface that `LeWM` expects: it reads the first token."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pixels: Tensor, interpolate_pos_encoding: bool) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.encoder(pixels.to(torch.uint8))[:, None])


class _Predictor(nn.Module):
    """A compact predictor with the interface that `LeWM` expects: latents [N, 1, D], action embeddings [N, 1, E]."""

    num_frames = 1

    def __init__(self, predictor: nn.Module) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, latents: Tensor, actions: Tensor) -> Tensor:
        return self.predictor(latents.flatten(0, 1), actions.flatten(0, 1)).view_as(latents)


def normalised(frames: np.ndarray) -> Tensor:
    """Frames uint8 [N, height, width, 3] as the public encoder reads them, float32 [N, 3, height, width]."""
    scaled = (torch.from_numpy(frames).float() / 255 - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)
    return scaled.permute(0, 3, 1, 2)


def information(starts: Tensor, goals: Tensor) -> dict[str, Tensor]:
    """Frames [E, ...] as the info dictionary of a solver, with actions of two numbers."""
    return {"pixels": starts[:, None], "goal": goals[:, None], "action": torch.zeros(len(starts), 1, 2)}


def solve(model: Any, info: dict[str, Tensor], planner: CEM, seed: int) -> Tensor:
    """Plans [E, H, A] of `CEMSolver` with a model. Release 0.1.1 takes one episode after the other."""
    from stable_worldmodel.policy import PlanConfig
    from stable_worldmodel.solver import CEMSolver

    solver = CEMSolver(model, 1, planner.candidates, n_steps=planner.iterations, topk=planner.elites, seed=seed)
    episodes = len(info["pixels"])
    plan = PlanConfig(planner.horizon, planner.executed, action_block=5)
    with silence():
        solver.configure(action_space=Box(-1, 1, (episodes, 2), np.float32), n_envs=episodes, config=plan)
        return solver.solve(dict(info))["actions"]
