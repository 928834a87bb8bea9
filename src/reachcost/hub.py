"""Heads and world models on the Hugging Face Hub: directories as they are saved, with a card. Needs the extra `hub`.

The network is behind `Hub`, two methods that a folder on disk can offer as well.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Protocol

from reachcost.errors import ReachcostError
from reachcost.heads.base import LearnedHead
from reachcost.heads.storage import load_head, write_head
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.storage import read_world_model

KEPT = ("config.json", "weights.safetensors", "README.md")


class Hub(Protocol):
    """Where repositories are."""

    def upload(self, folder: Path, repo: str) -> None:
        """Put the files of a folder into a repository, which is made if it is new."""
        ...

    def download(self, repo: str) -> Path:
        """A folder with the files of a repository."""
        ...


class HuggingFace:
    """The hub itself; private repositories need a token, as `hf auth login` keeps it."""

    def upload(self, folder: Path, repo: str) -> None:
        """Put the files of a folder into a repository, which is made if it is new."""
        api = _client().HfApi()
        api.create_repo(repo, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, allow_patterns=list(KEPT))

    def download(self, repo: str) -> Path:
        """A folder with the files of a repository, kept by the hub's own cache."""
        return Path(_client().snapshot_download(repo, allow_patterns=list(KEPT)))


def push_head(head: LearnedHead, repo: str, hub: Hub | None = None) -> None:
    """Publish a head as `user/name`, with a card that says how it was trained."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_head(head, directory)
        (directory / "README.md").write_text(head_card(head, repo), encoding="utf-8")
        _upload(directory, repo, hub)


def pull_head(repo: str, hub: Hub | None = None) -> LearnedHead:
    """Load a published head; its files are checked, and none of them can run code."""
    return load_head(_download(repo, hub))


def push_world_model(directory: str | Path, repo: str, hub: Hub | None = None) -> None:
    """Publish a directory of `reachcost train-model`, or of a bundled model, with its own card."""
    read_world_model(Path(directory), True, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        for name in KEPT:
            shutil.copyfile(Path(directory) / name, Path(folder) / name)
        _upload(Path(folder), repo, hub)


def pull_world_model(repo: str, clamp: bool = True, device: str = "cpu", hub: Hub | None = None) -> JepaWorldModel:
    """Load a published world model of ours."""
    return read_world_model(_download(repo, hub), clamp, device, name=repo)


def head_card(head: LearnedHead, repo: str) -> str:
    """The README of a head on the hub."""
    record = head.record
    pairs, recipe = record.get("pairs", {}), record.get("recipe", {})
    model = pairs.get("model", {})
    excluded = pairs.get("exclusion", {}).get("excluded_episodes", 0)
    return f"""---
library_name: reachcost
license: mit
tags: [world-model, planning, reachability]
---
# {repo.rpartition("/")[2]}

A terminal cost for latent planners, fitted by [reachcost](https://pypi.org/project/reachcost) on how many steps lie
between logged states. It belongs to one world model and refuses others.

    import reachcost as rc
    cost = rc.HeadCost(rc.pull_head("{repo}"))

| | |
| --- | --- |
| world model | `{model.get("name", "unknown")}`, sha256 `{model.get("sha256", "unknown")}` |
| head | {head.kind}, latents of {head.latent_dim} |
| labels | {pairs.get("labels", "unknown")}, {pairs.get("sampling", "unknown")} pairs |
| pairs | {pairs.get("train_pairs", "unknown")} an epoch, {recipe.get("epochs", "unknown")} epochs |
| seed | {record.get("seed", "unknown")} |
| logs | sha256 `{pairs.get("logs_sha256", "unknown")}`, {excluded} evaluation episodes kept out |
| validation RMSE | {record.get("validation_rmse", float("nan")):.2f} |

The weights are safetensors and `config.json` is data: loading runs no code.
"""


def _upload(directory: Path, repo: str, hub: Hub | None) -> None:
    _require_name(repo)
    (hub or HuggingFace()).upload(directory, repo)


def _download(repo: str, hub: Hub | None) -> Path:
    _require_name(repo)
    return (hub or HuggingFace()).download(repo)


def _require_name(repo: str) -> None:
    if repo.count("/") != 1 or not all(repo.split("/")) or ".." in repo:
        raise ReachcostError(f"{repo!r} is no name on the hub: give user/name")


def _client():
    try:
        import huggingface_hub
    except ImportError as error:
        raise ReachcostError("the hub needs its client: pip install 'reachcost[hub]'") from error
    return huggingface_hub
