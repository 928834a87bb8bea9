"""Public LeWM and PLDM checkpoints, as `stable_worldmodel.wm.utils.save_pretrained` writes them.

A checkpoint is a state dict `*.pt` and a `config.json` (see `public_config`). Loading one runs no code from it.
"""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.files import expand_path, require_regular, sha256_of
from reachcost.core.json_files import read_json
from reachcost.core.repositories import is_name
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.public_config import describe, read_architecture, refuse

VIT_RENAMED = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
"""Names of the parts of a ViT layer in transformers 4, which saved the released weights, and in transformers 5."""


def load_checkpoint(
    source: str | Path,
    *,
    logs: Logs | None = None,
    actions: ActionBlocks | None = None,
    clamp: bool = False,
    device: str = "cpu",
    trust_pickle: bool = False,
) -> JepaWorldModel:
    """Load a public LeWM or PLDM checkpoint as a frozen world model; for the arguments see `load_world_model`.

    The source is a directory with one `*.pt` and `config.json`, a `.pt` file next to its `config.json`, a name in
    stable-worldmodel's cache, such as the Hugging Face id `user/repo`, or a pickled model, `*.ckpt`.
    """
    name, path = _find(source)
    if path.suffix == ".ckpt":
        config, state = _unpickle(path, trust_pickle)
    else:
        config, state = _read_config(path.with_name("config.json")), _read_weights(path)
    family, architecture = read_architecture(path, config)
    blocks = _action_blocks(source, architecture.action_dim, logs, actions)
    parts = _assemble(path, architecture, state)
    card = {"name": name, "source": str(source), "sha256": sha256_of(path), "family": family}
    return JepaWorldModel(parts, blocks, clamp, card, device)


def _find(source: str | Path) -> tuple[str, Path]:
    """Name and weights of a checkpoint on disk or in stable-worldmodel's cache, which is where that package looks."""
    here, name = expand_path(source), str(source)
    cache = expand_path(os.environ.get("STABLEWM_HOME", "~/.stable_worldmodel")) / "checkpoints"
    for path in (here, cache / name, cache / f"models--{name.replace('/', '--')}"):
        if path.is_file():
            return _file_name(path), path
        weights = sorted(path.glob("*.pt"))
        if len(weights) > 1:
            names = ", ".join(path.name for path in weights[:4])
            refuse(path, f"the directory holds {len(weights)} .pt files ({names}): name the one you want")
        if weights:
            return here.resolve().name if path == here else name, weights[0]
    if here.is_dir():
        pickles = sorted(path.name for path in here.glob("*.ckpt"))
        none = "no weights (weights.safetensors or *.pt): name the right one, or finish its training"
        refuse(source, f"the directory holds {f'a pickle; name {pickles[0]} itself' if pickles else none}")
    kind = "file" if here.suffix in (".pt", ".ckpt") else "directory"
    on_hub = f", or write hf://{name} for one on the Hugging Face Hub" if is_name(name) else ""
    return refuse(source, f"there is no such {kind}, nor one in {cache}: check the path{on_hub}")


def _file_name(path: Path) -> str:
    """Name of a checkpoint that is a file."""
    if path.suffix == ".ckpt":
        return path.stem.removesuffix("_object")
    if path.suffix != ".pt":
        refuse(path, "it is neither weights (.pt) nor a pickled model (.ckpt): name the directory of the model")
    return f"{path.resolve().parent.name}/{path.stem}"


def _read_config(path: Path) -> object:
    try:
        return read_json(path)
    except (OSError, ValueError) as error:
        refuse(path.parent, f"config.json cannot be read ({error}): copy it again, next to the weights", error)


def _read_weights(path: Path) -> object:
    try:
        require_regular(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # its message recommends to load the file unsafely
        refuse(path, "it holds more than weights, and loading that could run any code: get a plain state dict", error)
    except Exception as error:  # a damaged file raises anything
        refuse(path, f"the file is damaged ({type(error).__name__}): copy it again", error)


def _unpickle(path: Path, trusted: bool) -> tuple[object, object]:
    """Config tree and state dict of a pickled model."""
    if not trusted:
        remedy = "pass trust_pickle=True (--trust-pickle) if you trust its author, or use config.json and weights.pt"
        refuse(path, f"loading a pickle can run any code: {remedy}")
    try:
        thing = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # unpickling runs foreign code
        remedy = "install stable-worldmodel and transformers<5, and put the modules `jepa` and `module` of the le-wm "
        remedy += "repository on PYTHONPATH; otherwise the file is damaged"
        refuse(path, f"unpickling failed ({type(error).__name__}: {error}): {remedy}", error)
    owned = ("encoder", "predictor", "action_encoder", "projector", "pred_proj")
    modules = thing.modules() if isinstance(thing, nn.Module) else ()
    model: Any = next((part for part in modules if all(hasattr(part, name) for name in owned)), None)
    if model is None:
        refuse(path, f"it holds a {type(thing).__name__}, not a LeWM or PLDM model: name the file of the model itself")
    try:
        return describe(model), model.state_dict()
    except (AttributeError, LookupError, TypeError, ArithmeticError) as error:
        refuse(path, f"its {type(model).__name__} is not built like the public one ({error}): use another", error)


def _assemble(where: Path, architecture: PublicArchitecture, state: object) -> PublicParts:
    """Parts with the checked weights of a state dict."""
    weights = _renamed(where, state)
    if sum(tensor.numel() * tensor.element_size() for tensor in weights.values()) > where.stat().st_size:
        refuse(where, "its tensors claim more numbers than the file holds: get the file again, from its author")
    with torch.device("meta"):  # shapes only: a wrong config must not allocate anything
        parts = PublicParts(architecture)
    expected = parts.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        if name not in weights:
            refuse(where, f"weight {name!r} is missing: its config.json belongs to another model")
        if name not in expected:
            refuse(where, f"weight {name!r} has no place in the model that its config.json describes")
        wanted, found = expected[name], weights[name]
        if wanted.shape != found.shape or wanted.is_floating_point() != found.is_floating_point():
            described, held = (f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (wanted, found))
            refuse(where, f"weight {name!r} is {held}, but its config.json describes {described}: use its own config")
        if not torch.isfinite(found).all():
            refuse(where, f"weight {name!r} is not finite: training failed or the file is damaged, use another")
        weights[name] = found.to(wanted.dtype)
    parts.load_state_dict(weights, assign=True)
    return parts


def _renamed(where: Path, state: object) -> dict[str, Tensor]:
    """The state dict with names of transformers 5, without the mask token, which only pretraining uses."""
    if not isinstance(state, dict):
        refuse(where, f"it holds a {type(state).__name__}: save the model's state dict alone")
    weights: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
            refuse(where, f"entry {name!r} is not a named, dense tensor: save the model's state dict alone")
        layer = re.fullmatch(r"encoder\.(?:encoder\.)?layers?\.(\d+)\.(.+)\.(weight|bias)", name, re.ASCII)
        if layer is not None:
            name = f"encoder.layers.{layer[1]}.{VIT_RENAMED.get(layer[2], layer[2])}.{layer[3]}"
        if name in weights:
            refuse(where, f"weight {name!r} is there twice, under its names of transformers 4 and 5")
        weights[name] = tensor
    weights.pop("encoder.embeddings.mask_token", None)
    return weights


def _action_blocks(where: object, size: int, logs: Logs | None, actions: ActionBlocks | None) -> ActionBlocks:
    """The given action statistics, or those of the logs, measured as in the public scripts."""
    if actions is None:
        if logs is None:
            remedy = "pass its training logs (`logs=`, --logs) or `actions=ActionBlocks(...)`"
            refuse(where, f"a checkpoint does not hold action statistics: {remedy}")
        shape = logs.columns["action"].shape if "action" in logs.columns else (0, 1)
        # Every row: the public code drops only rows with NaN, and divides by N for the variance.
        actions = ActionBlocks.of(logs, max(1, size // shape[-1]), taken=np.ones(logs.rows, bool))
    if actions.size != size:
        given = f"{actions.length} steps of {len(actions.mean)} numbers"
        refuse(where, f"its action blocks have {size} numbers, not {given}: give the actions it was trained with")
    return actions
