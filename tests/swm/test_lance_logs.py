"""Lance tables, as the real stable-worldmodel writes them."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow
import pytest

from reachcost.data.logs_files import open_logs
from reachcost.errors import ReachcostError
from reachcost.swm.evaluation import import_stable_worldmodel
from reachcost.tasks.tworoom import TwoRoom


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
        rendered = TwoRoom().render(logs.columns["state"][[0, 5]])
        assert np.abs(frames[np.array([0, 5])].astype(int) - rendered).mean() < 3  # JPEG
        assert np.array_equal(frames[2:4], pickle.loads(pickle.dumps(frames))[2:4])


def write(path: Path, **columns: Any) -> Path:
    """A small table of two episodes of two rows, with other columns in place of the default ones."""
    rows = {"episode_idx": [0, 0, 1, 1], "step_idx": [0, 1, 0, 1], "state": positions(0.0), **columns}
    lance.write_dataset(pyarrow.table({name: values for name, values in rows.items() if values is not None}), str(path))
    return path


def positions(first: float) -> pyarrow.Array:
    numbers = pyarrow.array(np.arange(8, dtype=np.float32) + first)
    return pyarrow.FixedSizeListArray.from_arrays(numbers, 2)


def test_of_two_names_of_one_column_ours_is_read(tmp_path: Path) -> None:
    logs = open_logs(write(tmp_path / "both.lance", pos_agent=positions(100.0)))
    assert logs.lengths.tolist() == [2, 2]
    assert logs.columns["state"][0].tolist() == [0, 1]


def test_other_images_than_frames_stay_on_disk(tmp_path: Path) -> None:
    blobs = pyarrow.array([b"a large picture"] * 4, pyarrow.large_binary())
    assert "goal" not in open_logs(write(tmp_path / "goals.lance", goal=blobs)).columns


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no episodes": ({"episode_idx": None}, "episode_idx"),
    "mixed episodes": ({"episode_idx": [0, 1, 0, 1]}, "episode_idx repeat"),
    "mixed steps": ({"step_idx": [1, 0, 0, 1]}, "step after step"),
    "missing numbers": ({"episode_idx": [0, None, 1, 1]}, "'episode_idx' has 1 rows"),
    "no image": ({"pixels": [b"?"] * 4}, "JPEG or PNG"),
    "program": ({"pixels": [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"] * 4}, "JPEG or PNG"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_tables_are_refused(case: str, tmp_path: Path) -> None:
    columns, message = BROKEN[case]
    with pytest.raises(ReachcostError, match=message):
        open_logs(write(tmp_path / "broken.lance", **columns))


def test_incomplete_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "empty.lance").mkdir()
    (data,) = (write(tmp_path / "cut.lance") / "data").iterdir()
    data.write_bytes(data.read_bytes()[:40])
    write(tmp_path / "rows.lance", episode_idx=[], step_idx=[], state=positions(0.0)[:0])
    for name, message in {
        "none": "0 Lance",
        "empty.lance": "Lance",
        "cut.lance": "Lance",
        "rows.lance": "no rows",
    }.items():
        with pytest.raises(ReachcostError, match=message):
            open_logs(tmp_path / name)
