"""Formats of heads, world models, public checkpoints, and the state of a training."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reachcost.data.actions import ActionBlocks
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.data.models import predict_ends
from reachcost.heads.kinds import PairHead
from reachcost.heads.storage import load_head, save_head
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import STATE, load_world_model
from reachcost.worldmodels.objectives import TrainingPlan
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.public_config import read_architecture
from reachcost.worldmodels.training import Training, restore_state, save_state, write_world_model
from reachcost_tools.faults import DATA
from reachcost_tools.faults.formats import Format, digest, require_finite

BLOCKS = ActionBlocks(mean=(0.0, 0.1), std=(1.0, 0.5), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)
PLAN = TrainingPlan(
    seed=5, steps=4, refinement=4, windows=8, transitions=32, validate_every=2, holdout=0.2, threads=1, projections=16
)
FRAMES = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
PUBLIC = json.loads((DATA / "config.json").read_text())


def head(directory: Path) -> None:
    """Write a head with a record of its training."""
    torch.manual_seed(0)
    made = PairHead(latent_dim=4, hidden=8, scale=20.0)
    made.record = {"pairs": {"model": {"name": "m", "sha256": "0" * 64}, "count": 10}, "curve": [{"loss": 0.5}]}
    save_head(made, directory / "head")


def read_head(directory: Path) -> str:
    """Digest of predictions, weights and record."""
    found = load_head(directory / "head")
    latents = torch.linspace(-2, 2, 12).reshape(3, 4)
    with torch.no_grad():
        predicted = found(latents, latents.flip(0)).numpy()
    require_finite("what the head predicts", predicted)
    return digest({"predicted": predicted, "record": found.record, "config": found.config, **_arrays(found)})


def world_model(directory: Path) -> None:
    """Write an untrained compact model."""
    torch.manual_seed(0)
    parts = CompactParts(CompactArchitecture(action_dim=10)).eval()
    plan = {"kind": "lewm", "size": "compact", "seed": 0, "steps": 1, "refinement": 0}
    training: dict[str, Any] = {"plan": plan, "metrics": {"one_step": 1.0}, "best_step": 1, "seconds": 1}
    training |= {"episodes": 2, "held_out_episodes": 1, "logs_sha256": "0" * 64, "versions": {"torch": "2"}}
    (directory / "model").mkdir()
    write_world_model(directory / "model", parts, BLOCKS, training, [{"step": 1, "rollout": 1.0}])


def read_world_model(directory: Path) -> str:
    """Digest of its card, weights, latents and predictions."""
    return _used(load_world_model(directory / "model", device="cpu"))


def checkpoint(directory: Path) -> None:
    """Write a small checkpoint of the public architecture."""
    torch.manual_seed(0)
    _, architecture = read_architecture(directory, PUBLIC)
    assert isinstance(architecture, PublicArchitecture)
    (directory / "public").mkdir()
    torch.save(PublicParts(architecture).state_dict(), directory / "public" / "weights.pt")
    (directory / "public" / "config.json").write_text(json.dumps(PUBLIC, indent=1))


def _read_checkpoint(directory: Path) -> str:
    return _used(load_world_model(directory / "public", actions=BLOCKS, device="cpu"))


def _used(model: JepaWorldModel) -> str:
    logs = Logs({"pixels": FRAMES}, np.array([4]))
    latents = encode_logs(model, logs, cache=False).values
    ends = predict_ends(model, latents[:1, None], torch.linspace(-1, 1, 40).reshape(1, 2, 2, 10))
    content = {"latents": latents.numpy(), "ends": ends.numpy(), "card": {**model.card, "source": ""}}
    return digest({**content, **_arrays(model.parts)})


def _arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {f"weight {name}": tensor.numpy() for name, tensor in module.state_dict().items()}


@cache
def _logs() -> Logs:
    return TwoRoom().generate_logs(episodes=10, seed=3)


def _state(directory: Path) -> None:
    """Write the state of a training after two updates."""
    training = Training(_logs(), PLAN)
    for step in (1, 2):
        training.update(step)
    point = {"step": 2, "loss": 1.0, "one_step": 1.0, "rollout": 1.0, "seconds": 1.0}
    save_state(training, directory / STATE, [point], training.parts.state_dict())


def read_state(directory: Path) -> str:
    """Digest of everything from which the training continues."""
    training = Training(_logs(), PLAN)
    curve, best = restore_state(training, directory / STATE)
    moments = [value for kept in training.phase.optimizer.state_dict()["state"].values() for value in kept.values()]
    arrays = {f"moment {number}": value.numpy() for number, value in enumerate(moments)}
    arrays |= {f"best {name}": tensor.numpy() for name, tensor in best.items()}
    return digest({"curve": curve, **arrays, **_arrays(training.parts)})


MODELS = (
    Format("head", head, read_head, sealed=True),
    Format("world model", world_model, read_world_model, sealed=True, ignored=("curve.csv", "README.md")),
    Format("public checkpoint", checkpoint, _read_checkpoint),
    Format("state of a training", _state, read_state, sealed=True),
)
