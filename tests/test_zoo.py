"""The published world models have the quality that their cards and the documentation state."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reachcost.cli import main
from reachcost.commands.explore import default_models
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.data.probe import fit_probe, score_probe
from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.custom import check_world_model
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import BUNDLED, load_world_model, zoo
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from tests.hubs import Folder

ROOT = Path(__file__).parent.parent
TWOROOM = [name for name in zoo() if "-tworoom-" in name]


@pytest.fixture(scope="module")
def fresh() -> Logs:
    """Episodes that are neither training data nor in an evaluation set."""
    return TwoRoom().generate_logs(episodes=120, seed=77)


def directory_of(name: str) -> Path:
    directory = zoo()[name]
    assert directory
    return directory


def test_three_seeds_of_both_kinds_are_published_and_one_is_bundled() -> None:
    worlds = ("lewm-pusht", "lewm-tworoom", "pldm-pusht", "pldm-tworoom")
    named = [f"{world}-{seed}" for world in worlds for seed in (3072, 3073, 3074)]
    assert [*zoo()] == sorted([*named, "lewm-layouts-3072"])
    assert [path.name for path in BUNDLED.iterdir() if path.is_dir()] == ["lewm-tworoom-3072"]
    assert {directory_of(name).parent for name in zoo()} == {BUNDLED, ROOT / "zoo"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation outside of a checkout, with a model in another directory."""
    monkeypatch.setattr("reachcost.worldmodels.loading.CHECKOUT", tmp_path / "none")
    shutil.copytree(ROOT / "zoo" / "pldm-tworoom-3072", tmp_path / "me" / "pldm-tworoom-3072")
    return tmp_path


def test_a_missing_model_is_reported_with_its_source(installed: Path) -> None:
    assert [name for name, directory in zoo().items() if directory] == ["lewm-tworoom-3072"]
    assert "pldm-tworoom-3072" in zoo()
    assert default_models(TwoRoom()) == ("lewm-tworoom-3072",)
    with pytest.raises(ReachcostError, match="REACHCOST_ZOO"):
        load_world_model("pldm-tworoom-3072")


@pytest.mark.parametrize("place", ["{}/me", "hf://me"])
def test_models_are_found_by_name_in_another_directory_or_on_the_hub(
    place: str, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACHCOST_ZOO", place.format(installed))
    hub = Folder(installed)
    model = load_world_model("pldm-tworoom-3072", hub=hub)
    assert model.card["name"] == "pldm-tworoom-3072"
    assert (zoo()["pldm-tworoom-3072"] is None) == place.startswith("hf:")
    assert load_world_model("lewm-tworoom-3072", hub=hub).card["name"] == "lewm-tworoom-3072"
    with pytest.raises(ReachcostError, match="pldm-tworoom-3073"):
        load_world_model("pldm-tworoom-3073", hub=hub)


@pytest.mark.parametrize("name", TWOROOM)
def test_a_published_model_has_its_documented_quality(name: str, fresh: Logs) -> None:
    model = load_world_model(name)
    check_world_model(model, fresh.observations(np.array([0, 40, 300])), torch.randn(3, 6, 5, 10))
    assert sum(path.stat().st_size for path in directory_of(name).iterdir()) <= 6_000_000
    states = fresh.columns["state"]
    latents = model.encode(fresh.observations(slice(None)))
    half = fresh.offsets[60]
    score = score_probe(fit_probe(latents[:half], states[:half]), latents[half:], states[half:])
    assert score.r2 >= 0.998
    probe = fit_probe(latents, states)
    starts = fresh.window_starts(26)
    starts = starts[starts >= half][::7]
    taken = fresh.columns["action"][starts[:, None] + np.arange(25)].reshape(len(starts), 1, 5, 5, 2)
    ends = model.rollout(latents[starts][:, None], model.blocks(taken))[:, 0]
    assert score_probe(probe, ends, states[starts + 25]).rmse <= 8
    metrics = model.card["training"]["metrics"]
    assert metrics["probe_r2"] >= 0.998
    assert metrics["rollout_rmse"] <= 8


@pytest.mark.parametrize("name", TWOROOM)
def test_documentation_and_card_state_the_recorded_metrics(name: str) -> None:
    metrics = load_world_model(name).card["training"]["metrics"]
    (row,) = re.findall(rf"^\| `{name}` \|(.*)\|$", (ROOT / "docs" / "world-models.md").read_text(), re.MULTILINE)
    assert [cell.strip() for cell in row.split("|")] == [
        f"{metrics['probe_r2']:.4f}",
        f"{metrics['probe_rmse']:.2f} px",
        f"{metrics['rollout_rmse']:.2f} px",
    ]
    assert f"| probe_r2 | {metrics['probe_r2']:.5g} |" in (directory_of(name) / "README.md").read_text()


def test_stored_frames_encode_like_rendered_ones(fresh: Logs) -> None:
    model, states = load_world_model("lewm-tworoom-3072"), fresh.columns["state"]
    probe = fit_probe(model.encode(fresh.observations(slice(None))), states)
    frames = TwoRoom().render(states[::40])  # 224 px, and not a multiple of a group
    shrunk = model.encode({"pixels": frames})
    assert score_probe(probe, shrunk, states[::40]).rmse <= 8
    assert torch.allclose(shrunk[:100], model.encode({"pixels": frames[:100]}))


def test_actions_outside_the_logs_are_clamped_by_default(fresh: Logs) -> None:
    model, free = load_world_model("lewm-tworoom-3072"), load_world_model("lewm-tworoom-3072", clamp=False)
    context = model.encode(fresh.observations(np.array([5])))[:, None]
    beyond = model.blocks(np.full((1, 1, 1, 5, 2), 1.7))
    bound = model.blocks(np.full((1, 1, 1, 5, 2), 1.0))
    assert torch.equal(model.rollout(context, beyond), model.rollout(context, bound))
    assert not torch.equal(free.rollout(context, beyond), free.rollout(context, bound))


def test_the_check_command_uses_frames_of_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    for named in ([], ["--task", "toponav"]):
        assert main(["check", "lewm-tworoom-3072", *named]) == 0
        assert "holds" in capsys.readouterr().out
    assert main(["check", "lewm-tworoom-3072", "--task", "maze"]) == 1
    assert "unknown task 'maze': choose one of tworoom, toponav" in capsys.readouterr().err


def test_a_directory_with_a_published_name_is_loaded_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(directory_of("lewm-tworoom-3073"), tmp_path / "lewm-tworoom-3072")
    other = load_world_model("lewm-tworoom-3073").fingerprint
    assert load_world_model("lewm-tworoom-3072").fingerprint != other
    for path in ("./lewm-tworoom-3072", Path("lewm-tworoom-3072"), "~/lewm-tworoom-3072"):
        assert load_world_model(path).fingerprint == other


def test_the_architecture_is_part_of_the_fingerprint() -> None:
    blocks = ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), 5)
    prints = set()
    for heads in (1, 2, 3):
        torch.manual_seed(0)
        parts = PublicParts(PublicArchitecture(image_size=28, encoder_depth=1, depth=1, encoder_heads=heads))
        prints.add(JepaWorldModel(parts, blocks).fingerprint)
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("context", "actions", "named"),
    [
        (torch.zeros(2, 192), torch.zeros(2, 7, 5, 10), "D = 192"),
        (torch.zeros(2, 1, 8), torch.zeros(2, 7, 5, 10), "D = 192"),
        (torch.zeros(2, 1, 192), torch.zeros(2, 7, 5, 2), "A = 10"),
        (torch.zeros(2, 1, 192), torch.zeros(2, 7, 5, 5, 2), "A = 10"),
        (torch.zeros(2, 1, 192), torch.zeros(3, 7, 5, 10), "B = 2"),
        (torch.zeros(2, 1, 192), torch.zeros(2, 7, 5, 10).double(), "float32"),
        (torch.zeros(2, 1, 192), np.zeros((2, 7, 5, 10), np.float32), "ndarray"),
    ],
)
def test_a_rollout_reports_the_required_shapes(context: Tensor, actions: Any, named: str) -> None:
    with pytest.raises(ReachcostError, match=named):
        load_world_model("lewm-tworoom-3072").rollout(context, actions)


def test_an_unknown_name_or_device_is_reported() -> None:
    with pytest.raises(ReachcostError, match="mean lewm-tworoom"):
        load_world_model("lewm-threeroom")
    with pytest.raises(ReachcostError, match="quantum"):
        load_world_model("lewm-tworoom-3072", device="quantum")
