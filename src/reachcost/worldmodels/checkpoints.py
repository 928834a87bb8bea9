"""Public LeWM and PLDM checkpoints, as `stable_worldmodel.wm.utils.save_pretrained` writes them.

A checkpoint is a state dict `*.pt` and a `config.json` (see `public_config`). Loading one runs no code from it.
"""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from reachcost.core.files import expand_path, require_regular, sha256_of
from reachcost.core.hub import is_name
from reachcost.core.json_files import read_json
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
    """Load a public LeWM or PLDM checkpoint as a frozen world model.

    Args:
        source: A directory with one `*.pt` and `config.json`; a `.pt` file next to its `config.json`; a name in
            stable-worldmodel's cache, such as the Hugging Face id `user/repo`; or a pickled model, `*.ckpt`.
        logs: Training logs, to measure the action statistics, which a checkpoint does not hold.
        actions: These statistics, if they are known.
        clamp: See `JepaWorldModel`. The public planner does not clamp.
        device: Device of the model.
        trust_pickle: Load a pickled model although it can run any code; needs the packages it was written with.
    """
    files = _find(source)
    if files.config is None:
        config, state = _unpickle(files.weights, trust_pickle)
    else:
        config, state = _read_config(files.config), _read_weights(files.weights)
    family, architecture = read_architecture(files.config or files.weights, config)
    blocks = _action_blocks(source, architecture.action_dim, logs, actions)
    parts = _assemble(files.weights, architecture, state)
    card = {"name": files.name, "source": str(source), "sha256": sha256_of(files.weights), "family": family}
    return JepaWorldModel(parts, blocks, clamp, card, device)


class _Files(NamedTuple):
    name: str
    weights: Path
    config: Path | None
    """None for a pickled model."""


def _find(source: str | Path) -> _Files:
    """Files of a checkpoint on disk or in stable-worldmodel's cache, which is where that package looks for it."""
    here, name = expand_path(source), str(source)
    cache = expand_path(os.environ.get("STABLEWM_HOME", "~/.stable_worldmodel")) / "checkpoints"
    for path in (here, cache / name):
        if path.is_file():
            return _from_file(path)
    if here.is_dir():
        files = _from_directory(here)
        if files is None:
            pickles = sorted(path.name for path in here.glob("*.ckpt"))
            none = "no weights (weights.safetensors or *.pt): name the right one, or finish its training"
            refuse(source, f"the directory holds {f'a pickle; name {pickles[0]} itself' if pickles else none}")
        return files
    if here.suffix in (".pt", ".ckpt"):
        refuse(source, f"there is no such file, nor one in {cache}: check the path")
    hub_id = is_name(name)
    for directory in (cache / name, *([cache / f"models--{name.replace('/', '--')}"] if hub_id else [])):
        # A directory without weights is what an interrupted download leaves behind.
        if (files := _from_directory(directory)) is not None:
            return files._replace(name=name)
    on_hub = f", or write hf://{name} for one on the Hugging Face Hub" if hub_id else ""
    return refuse(source, f"there is no such directory, nor one in {cache}: check the path{on_hub}")


def _from_file(path: Path) -> _Files:
    if path.suffix == ".ckpt":
        return _Files(path.name.removesuffix(".ckpt").removesuffix("_object"), path, None)
    if path.suffix != ".pt":
        refuse(path, "it is neither weights (.pt) nor a pickled model (.ckpt): name the directory of the model")
    return _Files(f"{path.resolve().parent.name}/{path.stem}", path, path.with_name("config.json"))


def _from_directory(directory: Path) -> _Files | None:
    weights = sorted(directory.glob("*.pt"))
    if len(weights) > 1:
        names = ", ".join(path.name for path in weights[:4])
        refuse(directory, f"the directory holds {len(weights)} .pt files ({names}): name the one you want")
    return _Files(directory.resolve().name, weights[0], directory / "config.json") if weights else None


def _read_config(path: Path) -> object:
    try:
        return read_json(path)
    except OSError as error:
        refuse(path.parent, f"config.json cannot be read ({error.strerror}): put it next to the weights", error)
    except ValueError as error:
        refuse(path.parent, f"config.json is not valid JSON ({error}): copy it again", error)


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
        refuse(
            path,
            "loading a pickle can run any code: pass trust_pickle=True (--trust-pickle) if you trust its author, or "
            "use the same model as config.json and weights.pt",
        )
    try:
        thing = torch.load(path, map_location="cpu", weights_only=False)
    except (ImportError, AttributeError) as error:
        refuse(
            path,
            f"the code that wrote the pickle is missing ({error}): install stable-worldmodel and transformers<5, and "
            "put the modules `jepa` and `module` of the le-wm repository on PYTHONPATH",
            error,
        )
    except Exception as error:  # unpickling runs foreign code
        refuse(path, f"unpickling failed ({type(error).__name__}: {error}): the file may be damaged", error)
    owned = ("encoder", "predictor", "action_encoder", "projector", "pred_proj")
    modules = thing.modules() if isinstance(thing, nn.Module) else ()
    model: Any = next((part for part in modules if all(hasattr(part, name) for name in owned)), None)
    if model is None:
        refuse(path, f"it holds a {type(thing).__name__}, not a LeWM or PLDM model: name the file of the model itself")
    try:
        return describe(model), model.state_dict()
    except (AttributeError, IndexError, KeyError, TypeError, ZeroDivisionError) as error:
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
            refuse(
                where,
                f"weight {name!r} is {found.dtype} {tuple(found.shape)}, but its config.json asks for "
                f"{wanted.dtype} {tuple(wanted.shape)}",
            )
        if not torch.isfinite(found).all():
            refuse(where, f"weight {name!r} is not finite: training failed or the file is damaged, use another")
        weights[name] = found.to(wanted.dtype)
    parts.load_state_dict(weights, assign=True)
    return parts


def _renamed(where: Path, state: object) -> dict[str, Tensor]:
    """The state dict with names of transformers 5, without the mask token, which only pretraining uses."""
    if not isinstance(state, dict):
        refuse(where, f"it holds a {type(state).__name__}, not a state dict of names and tensors")
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
    if actions is not None:
        if actions.size != size:
            refuse(
                where,
                f"its action blocks have {size} numbers, but `actions` have {actions.size} ({actions.length} steps of "
                f"{len(actions.mean)}): give the statistics and the frameskip it was trained with",
            )
        return actions
    if logs is None:
        refuse(
            where,
            "a checkpoint does not hold action statistics: pass its training logs (`logs=`, --logs) or "
            "`actions=ActionBlocks(...)`",
        )
    components = np.shape(logs.columns["action"][:1])[-1] if "action" in logs.columns else 1
    if size % components:
        refuse(
            where,
            f"its action blocks have {size} numbers, not a multiple of the {components} in the logs: give other logs",
        )
    # Every row: the public code drops only rows with NaN, and divides by N for the variance.
    return ActionBlocks.of(logs, size // components, taken=np.ones(logs.rows, bool))
