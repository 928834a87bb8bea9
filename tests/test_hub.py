"""Heads and world models through a hub that is a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from reachcost.errors import ReachcostError
from reachcost.heads.pair import PairHead
from reachcost.hub import pull_head, pull_world_model, push_head, push_world_model
from reachcost.worldmodels.loading import ZOO, load_world_model


class Folder:
    """Repositories below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def upload(self, folder: Path, repo: str) -> None:
        shutil.copytree(folder, self.root / repo, dirs_exist_ok=True)

    def download(self, repo: str) -> Path:
        return self.root / repo


def test_a_head_comes_back_bit_for_bit_with_a_card(head: PairHead, tmp_path: Path) -> None:
    hub = Folder(tmp_path)
    push_head(head, "me/toponav-head", hub)
    back = pull_head("me/toponav-head", hub)
    assert all(torch.equal(old, new) for old, new in zip(head.parameters(), back.parameters(), strict=True))
    assert back.record == head.record
    card = (tmp_path / "me" / "toponav-head" / "README.md").read_text()
    assert 'rc.pull_head("me/toponav-head")' in card
    assert "license: mit" in card
    push_head(head, "me/toponav-head", hub)  # a second time is an update


def test_a_world_model_comes_back_with_its_own_card(tmp_path: Path) -> None:
    hub, name = Folder(tmp_path), "lewm-tworoom-3072"
    push_world_model(ZOO / name, f"me/{name}", hub)
    assert pull_world_model(f"me/{name}", hub=hub).fingerprint == load_world_model(name).fingerprint
    assert (tmp_path / "me" / name / "README.md").read_text() == (ZOO / name / "README.md").read_text()


def test_mistakes_are_named(head: PairHead, tmp_path: Path) -> None:
    for name in ("head", "a/b/c", "me/", "../x"):
        with pytest.raises(ReachcostError, match="is no name on the hub: give user/name"):
            push_head(head, name, Folder(tmp_path))
    with pytest.raises(ReachcostError, match="there is no head at"):
        pull_head("me/nothing", Folder(tmp_path))
