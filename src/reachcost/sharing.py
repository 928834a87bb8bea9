"""Publish a head or a world model on the Hugging Face Hub, with a card."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from reachcost.errors import ReachcostError
from reachcost.heads import storage as heads
from reachcost.heads.base import LearnedHead
from reachcost.hub import SCHEME, Hub, require_repository, upload
from reachcost.storage import FILES, stored_format
from reachcost.worldmodels import storage as worldmodels


def push(directory: str | Path, repo: str, *, private: bool = False, hub: Hub | None = None) -> str:
    """Publish a saved head or world model as `user/name` and return the line that loads it.

    It is loaded and checked first. Its two files go up with a card as README.md.

    Args:
        directory: What `save_head`, `reachcost fit` or `reachcost train-model` wrote.
        repo: `user/name`; a second time updates it.
        private: Make a new repository visible to its owner only.
        hub: Where to; by default the Hugging Face Hub.
    """
    directory = Path(directory)
    require_repository(repo)
    kind = stored_format(directory)
    if kind == heads.FORMAT:
        card, loading = head_card(heads.load_head(directory), repo), f'rc.load_head("{SCHEME}{repo}")'
    elif kind == worldmodels.FORMAT:
        worldmodels.read_world_model(directory)
        card, loading = world_model_card(directory), f'rc.load_world_model("{SCHEME}{repo}")'
    else:
        raise ReachcostError(f"{directory} holds no head or world model of reachcost: name one of their directories")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in FILES:
            shutil.copyfile(directory / name, folder / name)
        (folder / "README.md").write_text(card, encoding="utf-8")
        upload(folder, repo, private, hub)
    return loading


def head_card(head: LearnedHead, repo: str) -> str:
    """The README of a head on the hub."""
    record = head.record
    pairs, recipe = record.get("pairs", {}), record.get("recipe", {})
    model, exclusion = pairs.get("model", {}), pairs.get("exclusion")
    kept_out = f"{exclusion['excluded_episodes']} evaluation episodes" if exclusion else "no evaluation episodes"
    weights = sum(tensor.numel() for tensor in head.parameters())
    rows = {
        "world model": f"`{model.get('name', 'unknown')}`, sha256 `{model.get('sha256', 'unknown')}`",
        "head": f"{head.kind}, latents of {head.latent_dim}, {weights:,} weights",
        "labels": f"{pairs.get('labels', 'unknown')} ({pairs.get('sampling', 'unknown')} pairs)",
        "training": f"{pairs.get('train_pairs', 'unknown')} pairs an epoch, {recipe.get('epochs', 'unknown')} epochs, "
        f"seed {record.get('seed', 'unknown')}",
        "logs": f"sha256 `{pairs.get('logs_sha256', 'unknown')}`, {kept_out} kept out",
        "validation RMSE": f"{record['validation_rmse']:.2f}, in units of the labels"
        if "validation_rmse" in record
        else "unknown",
    }
    table = "\n".join(f"| {name} | {fact} |" for name, fact in rows.items())
    return f"""{_front_matter("reachability")}
# {repo.rpartition("/")[2]}

A terminal cost for latent planners: a small head that predicts how many steps lie between two latents, fitted on
logged trajectories by reachcost. It belongs to one world model.

    import reachcost as rc
    cost = rc.HeadCost(rc.load_head("{SCHEME}{repo}"))

| | |
| --- | --- |
{table}

Loading it runs no code: the weights are safetensors, `config.json` is data, and both carry one checksum.
"""


def world_model_card(directory: Path) -> str:
    """The card that training wrote, with what the hub reads."""
    return f"{_front_matter('joint-embedding')}\n{(directory / 'README.md').read_text(encoding='utf-8')}"


def _front_matter(tag: str) -> str:
    return f"---\nlibrary_name: reachcost\nlicense: mit\ntags:\n- world-model\n- planning\n- {tag}\n---"
