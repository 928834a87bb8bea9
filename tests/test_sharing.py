"""Heads and world models through a hub: a folder, and the real client with a local server."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reachcost.errors import ReachcostError
from reachcost.heads.kinds import PairHead
from reachcost.heads.storage import load_head, save_head
from reachcost.hub import push
from reachcost.worldmodels.loading import BUNDLED, CHECKOUT, load_world_model

from .hubs import Folder, serve

LEWM = "lewm-tworoom-3072"


def test_a_pushed_head_is_loaded_bit_for_bit_and_has_a_card(head: PairHead, tmp_path: Path) -> None:
    hub = Folder(tmp_path / "hub")
    save_head(head, tmp_path / "saved")
    assert push(tmp_path / "saved", "me/toponav-head", hub=hub) == 'rc.load_head("hf://me/toponav-head")'
    back = load_head("hf://me/toponav-head", hub=hub)
    assert all(torch.equal(old, new) for old, new in zip(head.parameters(), back.parameters(), strict=True))
    assert back.record == head.record
    card = (hub.root / "me" / "toponav-head" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: reachcost\ntags:")
    assert 'rc.load_head("hf://me/toponav-head")' in card
    assert f"| {head.record['validation_rmse']} |" in card
    assert "| pairs per epoch | 6000 |\n| epochs | 3 |\n| seed | 1 |" in card
    assert "unknown" not in card
    push(tmp_path / "saved", "me/toponav-head", license="mit", hub=hub)  # a second time is an update
    assert "\nlicense: mit\n" in (hub.root / "me" / "toponav-head" / "README.md").read_text()


def test_a_pushed_world_model_keeps_its_card(tmp_path: Path) -> None:
    hub = Folder(tmp_path)
    push(LEWM, "me/my-lewm", hub=hub)
    back = load_world_model("hf://me/my-lewm", hub=hub)
    assert back.fingerprint == load_world_model(LEWM).fingerprint
    assert (back.card["name"], back.card["source"]) == ("me/my-lewm", "hf://me/my-lewm")
    card = (tmp_path / "me" / "my-lewm" / "README.md").read_text()
    assert (BUNDLED / LEWM / "README.md").read_text() in card
    assert card.endswith('model = rc.load_world_model("hf://me/my-lewm")\n')
    push(tmp_path / "me" / "my-lewm", "me/again", hub=hub)  # what came from a hub
    assert (tmp_path / "me" / "again" / "README.md").read_text().count("---\nlibrary_name") == 1
    (tmp_path / "me" / "again" / "README.md").unlink()
    push(tmp_path / "me" / "again", "me/bare", hub=hub)


def test_a_hub_address_wins_over_a_directory_of_that_name(
    head: PairHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Folder(tmp_path / "hub")
    push(LEWM, "me/model", hub=hub)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CHECKOUT / "lewm-tworoom-3073", tmp_path / "me" / "model")
    assert load_world_model("hf://me/model", hub=hub).fingerprint == load_world_model(LEWM).fingerprint
    assert load_world_model(Path("hf://me/model"), hub=hub).card["source"] == "hf://me/model"
    assert load_world_model("hf://me/model@v1", hub=hub).card["source"] == "hf://me/model@v1"


def test_mistakes_are_explained(head: PairHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Folder(tmp_path / "hub")
    save_head(head, tmp_path / "saved")
    for name in ("head", "a/b/c", "me/", "../x", "me/x y"):
        with pytest.raises(ReachcostError, match="user/name"):
            push(tmp_path / "saved", name, hub=hub)
        with pytest.raises(ReachcostError, match="user/name"):
            load_head(f"hf://{name}", hub=hub)
    assert not hub.root.exists()
    with pytest.raises(ReachcostError, match="hf://me/head"):
        load_head("me/head")
    with pytest.raises(ReachcostError, match="head or world model"):
        push(tmp_path, "me/head", hub=hub)
    for load in (load_head, load_world_model):
        with pytest.raises(ReachcostError, match="FileNotFoundError"):
            load("hf://me/nothing", hub=hub)
    push(BUNDLED / LEWM, "me/model", hub=hub)
    with pytest.raises(ReachcostError, match="reachcost-world-model/1"):
        load_head("hf://me/model", hub=hub)
    push(tmp_path / "saved", "me/head", hub=hub)
    with pytest.raises(ReachcostError, match="hf://me/head"):
        load_world_model("hf://me/head", hub=hub)
    (tmp_path / "saved" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(ReachcostError, match=r"weights\.safetensors"):
        push(tmp_path / "saved", "me/head", hub=hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ReachcostError, match="pip install"):
        load_head("hf://me/head")


ROUND_TRIP = f"""
import reachcost as rc
from reachcost.cli import main
from reachcost.worldmodels.loading import BUNDLED
assert main(["push", str(BUNDLED / "{LEWM}"), "me/my-lewm", "--private"]) == 0
assert rc.load_world_model("hf://me/my-lewm").fingerprint == rc.load_world_model("{LEWM}").fingerprint
assert main(["push", "{LEWM}", "me/my-lewm"]) == 0
assert rc.load_world_model("hf://me/my-lewm@main").card["source"] == "hf://me/my-lewm@main"
assert main(["check", "hf://me/nothing"]) == 1
assert main(["push", "{LEWM}", "me/open"]) == 0
assert main(["push", "{LEWM}", "me/open", "--private"]) == 1
"""


def test_the_real_client_uploads_and_downloads(tmp_path: Path) -> None:
    """With a local server as its hub, in a separate process."""
    hub, own = tmp_path / "hub", {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_test"}
    with serve(hub) as address:
        own |= {"HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1", "HF_ENDPOINT": address}
        command = [sys.executable, "-W", "ignore", "-c", ROUND_TRIP]
        ran = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert 'rc.load_world_model("hf://me/my-lewm")' in ran.stdout
    assert "RepositoryNotFoundError" in ran.stderr
    assert "me/open exists already" in ran.stderr  # and it is public
    stored = hub / "me" / "my-lewm"
    assert sorted(path.name for path in stored.iterdir()) == ["README.md", "config.json", "weights.safetensors"]
    assert (hub / "me" / "my-lewm.private").read_text() == "true"
