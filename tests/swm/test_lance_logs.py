"""Lance tables, as the real stable-worldmodel writes them."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

from reachcost.errors import ReachcostError
from reachcost.latents import encode_logs
from reachcost.logs.hdf5 import open_logs
from reachcost.swm.package import import_stable_worldmodel
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.loading import load_world_model


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import_stable_worldmodel()
    import stable_worldmodel as swm
    from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy

    path = tmp_path_factory.mktemp("lance") / "tworoom.lance"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = swm.World("swm/TwoRoom-v1", num_envs=2, image_shape=(224, 224))
        world.set_policy(ExpertPolicy(action_noise=2.0, seed=1))
        world.collect(path, episodes=3, seed=0, progress=False)
        world.close()
    return path


def test_a_table_of_their_own_world_is_read(table: Path) -> None:
    for path in (table, table.parent):
        logs = open_logs(path)
        assert len(logs) == 3
        assert logs.columns["state"].shape == (logs.rows, 2)
        frames = logs.columns["pixels"]
        assert frames.shape == (logs.rows, 224, 224, 3)
        drawn = TwoRoom().render(logs.columns["state"][[0, 5]])
        assert np.abs(frames[np.array([0, 5])].astype(int) - drawn).mean() < 3  # JPEG
        assert np.array_equal(frames[2:4], pickle.loads(pickle.dumps(frames))[2:4])


def test_latents_of_a_table_are_near_those_of_its_states(table: Path) -> None:
    model, logs = load_world_model("lewm-tworoom-3072"), open_logs(table)
    seen = encode_logs(model, logs, cache=False).values
    drawn = model.encode(TwoRoom().observe(logs.columns["state"]))
    assert (seen - drawn).norm(dim=1).median() < 0.5 * drawn.std(0).norm()


def test_directories_without_a_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="holds 0 Lance tables"):
        open_logs(tmp_path)
    broken = tmp_path / "broken.lance"
    broken.mkdir()
    with pytest.raises(ReachcostError, match="is not a whole Lance table"):
        open_logs(broken)
