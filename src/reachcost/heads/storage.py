"""Saving and loading heads."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from reachcost.core.files import new_directory
from reachcost.core.modules import FILES, StoredModule, write_module
from reachcost.core.repositories import Hub, Repository, is_name
from reachcost.errors import ReachcostError, call_foreign, require_type
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import KINDS, is_same_class, refusal

FORMAT = "reachcost-head/1"


def save_head(head: LearnedHead, directory: str | Path) -> None:
    """Save the head as a new directory, all files or none. A head that `load_head` could not load is refused."""
    require_type(head, LearnedHead, "head", "give the result of rc.fit or rc.repair")
    with new_directory(Path(directory)) as partial:
        write_head(head, partial)


def write_head(head: LearnedHead, directory: Path) -> None:
    """Write the head's two files into an existing directory."""
    _require_loadable(head)
    config = {"format": FORMAT, "kind": head.kind, "arguments": head.config, "training": head.record}
    write_module(directory, head, config)


def load_head(directory: str | Path, hub: Hub | None = None) -> LearnedHead:
    """Load a head that `save_head` wrote, bit for bit, after checking both files.

    The directory may be `hf://user/name`, optionally with `@revision`, on the Hugging Face Hub. `hub` is the client for
    the Hub; None for the default.
    """
    require_type(directory, str | Path, "directory", "give the directory of a saved head, or hf://user/name")
    repo = Repository.of(directory)
    local = Path(directory) if repo is None else repo.download(FILES, hub)
    if not local.is_dir():
        on_hub = f", or write hf://{directory} for one on the hub" if is_name(str(directory)) else ""
        raise ReachcostError(f"there is no head at {directory}: make one with reachcost fit or save_head{on_hub}")
    stored = StoredModule(local, "the head", "fit the head again, or copy its directory again")
    config = stored.config(FORMAT)
    name, arguments = config.get("kind"), config.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict) or not isinstance(config.get("training"), dict):
        stored.refuse("config.json needs a kind, its `arguments` and `training`")
    if name not in KINDS:
        raise ReachcostError(
            f"the head at {directory} is of kind {name!r}, and only {', '.join(KINDS)} are registered: "
            "import the module that registers it (reachcost.heads.register_head), then load it again"
        )
    kind = KINDS[name]
    if wrong := refusal(kind, arguments):
        stored.refuse(f"config.json needs valid `arguments`: {wrong}")
    head = stored.fill(lambda: kind(**arguments), config)
    head.record = _require_record(stored, config["training"])
    _require_finite(stored, head)
    return head


@torch.no_grad()
def _require_finite(stored: StoredModule, head: LearnedHead) -> None:
    """Refuse weights or a scale that predict infinite numbers for ordinary latents."""
    latents = torch.tensor([0.0, 1.0, -1.0, 10.0])[:, None].expand(-1, head.latent_dim)
    predicted = call_foreign(lambda: head(latents[:, None], latents[None]), "the head cannot be used", "fit it again")
    if not torch.isfinite(torch.as_tensor(predicted)).all():
        stored.refuse(f"its weights or its scale ({head.scale:.3g}) are so large that it predicts no finite numbers")


def _require_record(stored: StoredModule, record: dict[str, Any]) -> dict[str, Any]:
    """Refuse a record without the structure that `fit` writes."""
    pairs = record.get("pairs", {})
    parts = [pairs, record.get("recipe", {})]
    parts += [pairs.get(name, {}) for name in ("model", "exclusion")] if isinstance(pairs, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        stored.refuse("`training` in config.json is not a record of `fit`")
    model, excluded = pairs.get("model"), pairs.get("exclusion", {}).get("evaluation_sets_sha256", [])
    named = model is None or all(isinstance(model.get(key), str) for key in ("name", "sha256"))
    if not named or not isinstance(excluded, list):
        stored.refuse("`training` in config.json does not name its world model and evaluation sets as `fit` does")
    return record


def _require_loadable(head: LearnedHead) -> None:
    """Refuse a head that `load_head` could not build again from its config and weights."""
    kind = KINDS.get(head.kind)
    if kind is None or not is_same_class(kind, type(head)):
        _refuse(head, "its class is not registered", "give it a unique `kind` and the decorator register_head")
    missing = [f"`config` leaves out {name!r}" for name in signature(kind).parameters if name not in head.config]
    if wrong := "".join(missing[:1]) or refusal(kind, head.config):
        _refuse(head, wrong, "let `config` return every argument of the constructor, as JSON values")
    weights = head.state_dict()
    loose = [name for name, _ in head.named_buffers() if name not in weights]
    loose += [name for part in head.modules() for name, value in vars(part).items() if isinstance(value, Tensor)]
    if loose:
        _refuse(head, f"tensor {loose[0]!r} is not among its weights", "make it a parameter or a persistent buffer")
    try:
        with torch.device("meta"):  # as `load_head` builds it
            again = kind(**head.config)
    except Exception as error:
        _refuse(head, f"its constructor reads tensors of device 'meta' ({error})", "let it only create them")
    rebuilt, shapes = (
        {name: (value.shape, value.dtype) for name, value in w.items()} for w in (again.state_dict(), weights)
    )
    if rebuilt != shapes:
        _refuse(head, "`config` builds one with other weights", "let it return what this head was built with")


def _refuse(head: LearnedHead, problem: str, remedy: str) -> NoReturn:
    raise ReachcostError(f"cannot save this {type(head).__name__}: {problem}: {remedy}")
