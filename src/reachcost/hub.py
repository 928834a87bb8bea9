"""Publish a head or a world model on the Hugging Face Hub, with a card."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from reachcost.core.modules import FILES, stored_format
from reachcost.core.repositories import SCHEME, Hub, Repository, require_name
from reachcost.errors import ReachcostError
from reachcost.heads import storage as heads
from reachcost.heads.base import LearnedHead
from reachcost.worldmodels import loading as worldmodels


def push(
    source: str | Path, repo: str, *, private: bool = False, license: str | None = None, hub: Hub | None = None
) -> str:
    """Publish a saved head or world model as `user/name`, with a card, and return the line that loads it.

    Args:
        source: Directory of a saved head or world model, or a name that `zoo` lists.
        repo: `user/name`; an existing repository is updated.
        private: Create a private repository.
        license: License named on the card, such as `mit`; by default none.
        hub: Client; by default the Hugging Face Hub.
    """
    repo = require_name(repo.removeprefix(SCHEME))
    place = Repository(repo, None)
    directory = worldmodels.published(str(source)) if source in worldmodels.zoo() else Path(source)
    kind = stored_format(directory)
    if kind == heads.FORMAT:
        loading = f'rc.load_head("{place}")'
        card = _head_card(heads.load_head(directory), repo, loading)
    elif kind == worldmodels.FORMAT:
        worldmodels.read_world_model(directory)
        loading = f'rc.load_world_model("{place}")'
        card = _world_model_card(directory, loading)
    else:
        raise ReachcostError(f"{directory} is not a directory of a head or world model: name one")
    licensed = f"license: {license}\n" if license else ""
    front_matter = f"---\nlibrary_name: reachcost\n{licensed}tags:\n- world-model\n- planning\n---\n"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in FILES:
            shutil.copyfile(directory / name, folder / name)
        (folder / "README.md").write_text(front_matter + card, encoding="utf-8")
        place.upload(folder, private, hub)
    return loading


def _head_card(head: LearnedHead, repo: str, loading: str) -> str:
    """The README of a head, with facts from its record."""
    record = head.record
    pairs, recipe = record.get("pairs", {}), record.get("recipe", {})
    model, exclusion = pairs.get("model", {}), pairs.get("exclusion", {})
    weights = sum(part.numel() for part in head.parameters())
    facts = {
        "head": f"{head.kind}, {weights:,} weights, latents of {head.latent_dim}",
        "world model": model.get("name"),
        "sha256 of the world model": model.get("sha256"),
        "labels": pairs.get("labels"),
        "pairs per epoch": pairs.get("train_pairs"),
        "epochs": recipe.get("epochs"),
        "seed": record.get("seed"),
        "sha256 of the logs": pairs.get("logs_sha256"),
        "excluded evaluation episodes": exclusion.get("excluded_episodes"),
        "validation RMSE, in units of the labels": record.get("validation_rmse"),
    }
    rows = "\n".join(f"| {name} | {fact} |" for name, fact in facts.items() if fact is not None)
    return f"""# {repo.rpartition("/")[2]}

A terminal cost for latent planners: a small head of reachcost that estimates the distance from one latent to another.
It belongs to one world model.

    import reachcost as rc
    cost = rc.HeadCost({loading})

| | |
| --- | --- |
{rows}

Labels `temporal` are logged steps between two states. `stitched` labels are the fewest steps over the transitions of
all episodes, `imagined` over those that the world model imagines, `mixed` over both. `shuffled` labels are permuted (a
control that must fail), `oracle` labels are true distances. Loading runs no code: the weights are safetensors,
`config.json` is data, and both carry one checksum.
"""


def _world_model_card(directory: Path, loading: str) -> str:
    """The README that training wrote, without its front matter, and the line that loads the model."""
    path = directory / "README.md"
    written = path.read_text(encoding="utf-8") if path.is_file() else "# A world model of reachcost\n"
    card = re.sub(r"\A---\n.*?\n---\n", "", written, flags=re.DOTALL)
    return f"{card}\n    import reachcost as rc\n    model = {loading}\n"
