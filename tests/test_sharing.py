"""Heads and world models through a hub: a folder, and the real client with a server on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reachcost.errors import ReachcostError
from reachcost.heads.pair import PairHead
from reachcost.heads.storage import load_head, save_head
from reachcost.sharing import push
from reachcost.worldmodels.loading import ZOO, load_world_model

from .hubs import Folder, serve

LEWM = "lewm-tworoom-3072"


def test_a_head_comes_back_bit_for_bit_with_a_card(head: PairHead, tmp_path: Path) -> None:
    hub = Folder(tmp_path / "hub")
    save_head(head, tmp_path / "saved")
    assert push(tmp_path / "saved", "me/toponav-head", hub=hub) == 'rc.load_head("hf://me/toponav-head")'
    back = load_head("hf://me/toponav-head", hub=hub)
    assert all(torch.equal(old, new) for old, new in zip(head.parameters(), back.parameters(), strict=True))
    assert back.record == head.record
    card = (hub.root / "me" / "toponav-head" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: reachcost\nlicense: mit\n")
    assert 'rc.load_head("hf://me/toponav-head")' in card
    assert f"{head.record['validation_rmse']:.2f}" in card
    assert "6000 pairs an epoch, 3 epochs, seed 1" in card
    push(tmp_path / "saved", "me/toponav-head", hub=hub)  # a second time is an update


def test_a_world_model_comes_back_with_its_own_card(tmp_path: Path) -> None:
    hub = Folder(tmp_path)
    push(ZOO / LEWM, "me/my-lewm", hub=hub)
    back = load_world_model("hf://me/my-lewm", hub=hub)
    assert back.fingerprint == load_world_model(LEWM).fingerprint
    assert (back.card["name"], back.card["source"]) == ("me/my-lewm", "hf://me/my-lewm")
    card = (tmp_path / "me" / "my-lewm" / "README.md").read_text()
    assert card.endswith((ZOO / LEWM / "README.md").read_text())


def test_mistakes_are_named(head: PairHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Folder(tmp_path / "hub")
    save_head(head, tmp_path / "saved")
    for name in ("head", "a/b/c", "me/", "../x", "me/x y"):
        with pytest.raises(ReachcostError, match="is no name on the hub: give user/name"):
            push(tmp_path / "saved", name, hub=hub)
        with pytest.raises(ReachcostError, match="is no name on the hub: give user/name"):
            load_head(f"hf://{name}", hub=hub)
    assert not hub.root.exists()
    with pytest.raises(ReachcostError, match="holds no head or world model of reachcost"):
        push(tmp_path, "me/head", hub=hub)
    for load in (load_head, load_world_model):
        with pytest.raises(ReachcostError, match=r"hf://me/nothing cannot be read \(FileNotFoundError: .*\): check"):
            load("hf://me/nothing", hub=hub)
    push(ZOO / LEWM, "me/model", hub=hub)
    with pytest.raises(ReachcostError, match=r"config\.json is of format 'reachcost-world-model/1', not"):
        load_head("hf://me/model", hub=hub)
    (tmp_path / "saved" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(ReachcostError, match="do not belong together"):
        push(tmp_path / "saved", "me/head", hub=hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ReachcostError, match=r"needs its client: pip install 'reachcost\[hub\]'"):
        load_head("hf://me/head")


ROUND_TRIP = f"""
import reachcost as rc
from reachcost.cli import main
from reachcost.worldmodels.loading import ZOO
assert main(["push", str(ZOO / "{LEWM}"), "me/my-lewm", "--private"]) == 0
assert rc.load_world_model("hf://me/my-lewm").fingerprint == rc.load_world_model("{LEWM}").fingerprint
assert main(["push", str(ZOO / "{LEWM}"), "me/my-lewm"]) == 0
assert main(["check", "hf://me/nothing"]) == 1
"""


def test_the_real_client_uploads_and_downloads(tmp_path: Path) -> None:
    home = {
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": "hf_test",
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }
    with serve(tmp_path / "hub") as address:
        command = [sys.executable, "-W", "ignore", "-c", ROUND_TRIP]
        ran = subprocess.run(
            command, env={**os.environ, **home, "HF_ENDPOINT": address}, capture_output=True, text=True
        )
    assert ran.returncode == 0, ran.stderr
    assert 'rc.load_world_model("hf://me/my-lewm")' in ran.stdout
    assert "RepositoryNotFoundError" in ran.stderr
    stored = tmp_path / "hub" / "me" / "my-lewm"
    assert sorted(path.name for path in stored.iterdir()) == ["README.md", "config.json", "weights.safetensors"]
    assert (tmp_path / "hub" / "private").read_text() == "true"
