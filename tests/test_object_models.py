"""The encoder of moving objects: its features, training and loading."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.worldmodels.compact import ObjectArchitecture, ObjectParts, moving_colours
from reachcost.worldmodels.custom import check_world_model
from reachcost.worldmodels.loading import load_world_model
from reachcost.worldmodels.objectives import TrainingPlan
from reachcost.worldmodels.training import train_world_model

WHITE, GREEN, BLUE, RED = (255, 255, 255), (144, 238, 144), (20, 40, 200), (200, 30, 30)
SHORT: dict[str, Any] = {"steps": 4, "refinement": 4, "windows": 8, "transitions": 32, "validate_every": 2}
TINY = TrainingPlan(size="objects", seed=5, holdout=0.2, threads=1, refinement_rate=6e-3, projections=16, **SHORT)


def rendered(places: np.ndarray, shift: float = 0.0) -> np.ndarray:
    """A blue bar of 12 x 4 and a red square of 3 x 3 at places [N, 2, 2] (y, x), before a white and green scene."""
    frames = np.empty((len(places), 64, 64, 3))
    frames[:], frames[:, 20:40, 20:40] = WHITE, GREEN
    for frame, ((y, x), (v, u)) in zip(frames, places, strict=True):
        bar = frame[y : y + 4, x : x + 13]
        share = np.ones(13)
        share[0], share[-1] = 1 - shift, shift
        bar[:] = bar * (1 - share[:, None]) + np.array(BLUE) * share[:, None]
        frame[v : v + 3, u : u + 3] = RED
    return np.rint(frames).astype(np.uint8)


@pytest.fixture(scope="module")
def places() -> np.ndarray:
    """Bars and squares that never overlap."""
    rng = np.random.default_rng(0)
    bars = np.stack([rng.integers(0, 60, 300), rng.integers(0, 25, 300)], axis=1)
    squares = np.stack([rng.integers(0, 61, 300), rng.integers(40, 61, 300)], axis=1)
    return np.stack([bars, squares], axis=1)


@pytest.fixture(scope="module")
def parts(places: np.ndarray) -> ObjectParts:
    made = ObjectParts(ObjectArchitecture(proprio=None))
    made.measure({"pixels": rendered(places)})
    return made.eval()


def test_moving_colours_are_the_most_frequent_ones(places: np.ndarray) -> None:
    frames = rendered(places)
    background = np.median(frames, axis=0)
    assert moving_colours(frames, background, 2).tolist() == [list(BLUE), list(RED)]
    with pytest.raises(ReachcostError, match="2 moving colours"):
        moving_colours(frames, background, 3)


def test_centroids_are_exact_on_any_background(parts: ObjectParts, places: np.ndarray) -> None:
    for shift in (0.0, 0.3, 0.7):
        seen = parts.inputs({"pixels": rendered(places, shift)})[:, 2 * 24**2 :]
        middle = places + np.array([[1.5, 5.5], [1.0, 1.0]]) + np.array([[0.0, shift], [0.0, 0.0]])
        found = torch.stack([seen[:, 0:2], seen[:, 3:5]], dim=1).numpy() * 16 + 31.5
        np.testing.assert_allclose(found, middle, atol=0.1)


def test_a_crop_moves_with_its_object(parts: ObjectParts, places: np.ndarray) -> None:
    crops = parts.inputs({"pixels": rendered(places)})[:, : 24**2]
    assert (crops - crops[0]).abs().max() < 0.1
    assert crops.sum(1).mean() == pytest.approx(2 * 48, rel=0.02)


def test_frames_without_objects_have_finite_latents(parts: ObjectParts) -> None:
    empty = np.full((2, 64, 64, 3), 255, np.uint8)
    assert torch.isfinite(parts.embed(parts.inputs({"pixels": empty}))).all()


def test_inputs_do_not_depend_on_the_batch(parts: ObjectParts, places: np.ndarray) -> None:
    frames = rendered(places)
    together = parts.inputs({"pixels": frames})
    for first, count in ((70, 1), (13, 66), (101, 199)):
        assert torch.equal(parts.inputs({"pixels": frames[first : first + count]}), together[first : first + count])


def logs_of(places: np.ndarray, proprio: bool) -> Logs:
    """Ten episodes of thirty rows, independent of the actions."""
    rng = np.random.default_rng(1)
    columns = {
        "pixels": rendered(places),
        "state": places.reshape(300, 4).astype(np.float64),
        "action": rng.normal(size=(300, 2)).astype(np.float32),
    }
    if proprio:
        columns["proprio"] = rng.normal(size=(300, 3))
    return Logs(columns, np.full(10, 30))


@pytest.mark.parametrize("proprio", [True, False])
@pytest.mark.slow
def test_training_from_stored_frames_is_reproducible(places: np.ndarray, tmp_path: Path, proprio: bool) -> None:
    logs = logs_of(places, proprio)
    train_world_model(logs, tmp_path / "one", TINY)
    train_world_model(logs, tmp_path / "two", TINY)
    one, two = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    model = load_world_model(tmp_path / "one")
    assert model.parts.architecture.proprio == (3 if proprio else None)
    check_world_model(model, logs.observations(np.array([0, 7, 130])), torch.randn(3, 5, 4, 10))
    assert "--size objects" in (tmp_path / "one" / "README.md").read_text()
    assert "probe_r2_least" in model.card["training"]["metrics"]


def test_missing_proprioception_is_reported(places: np.ndarray, tmp_path: Path) -> None:
    model = train_world_model(logs_of(places, proprio=True), tmp_path / "m", TINY)
    with pytest.raises(ReachcostError, match="proprio"):
        model.encode({"pixels": rendered(places)})


def test_logs_without_moving_objects_are_refused(places: np.ndarray, tmp_path: Path) -> None:
    logs = logs_of(places, proprio=False)
    still = np.repeat(rendered(places[:1]), 300, axis=0)
    with pytest.raises(ReachcostError, match="0 moving colours"):
        train_world_model(Logs({**logs.columns, "pixels": still}, logs.lengths), tmp_path / "m", TINY)
