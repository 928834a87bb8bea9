"""Logs on disk: written completely or not at all, read by slices, refused when damaged."""

import pickle
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from reachcost.core.hdf5 import Column
from reachcost.data.logs import Logs
from reachcost.data.logs_files import open_logs, write_logs
from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom import TwoRoom

TASK = TwoRoom(pixels=32)


@pytest.fixture
def logs() -> Logs:
    return TASK.generate_logs(episodes=4)


def test_states_are_read_back_and_frames_are_rendered_when_read(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5")
    opened = open_logs(tmp_path / "logs.h5", TASK.observe)
    assert opened.fingerprint == logs.fingerprint
    assert "pixels" not in opened.columns
    np.testing.assert_array_equal(opened.observations(slice(3, 9))["pixels"], TASK.render(logs.columns["state"][3:9]))


def test_pixels_are_streamed_and_read_by_slices(logs: Logs, tmp_path: Path) -> None:
    sizes = []

    def render(states: np.ndarray) -> np.ndarray:
        sizes.append(len(states))
        return TASK.render(states)

    write_logs(logs, tmp_path / "logs.h5", render=render)
    opened = open_logs(tmp_path / "logs.h5")
    assert max(sizes) <= 256
    assert isinstance(opened.columns["pixels"], Column)
    again = pickle.loads(pickle.dumps(opened))
    np.testing.assert_array_equal(again.columns["pixels"][5:6], TASK.render(logs.columns["state"][5:6]))
    write_logs(opened, tmp_path / "copy.h5")
    np.testing.assert_array_equal(open_logs(tmp_path / "copy.h5").columns["pixels"][:], opened.columns["pixels"][:])
    np.testing.assert_array_equal(opened.observations(slice(3, 9))["pixels"], TASK.render(logs.columns["state"][3:9]))


def test_the_fingerprint_covers_frames_only_without_states(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5", render=TASK.render)
    stored = open_logs(tmp_path / "logs.h5")
    assert stored.fingerprint == logs.fingerprint
    frames = stored.columns["pixels"][:]
    alone = Logs({"pixels": frames}, logs.lengths).fingerprint
    frames[3, 0, 0, 0] ^= 1
    assert Logs({"pixels": frames}, logs.lengths).fingerprint != alone


def test_episodes_and_windows_end_with_the_episode(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5", render=TASK.render)
    opened = open_logs(tmp_path / "logs.h5")
    for number in range(4):
        episode = opened.episode(number)
        assert set(episode["episode_idx"]) == {number}
        assert len(episode["pixels"]) == logs.lengths[number]
        np.testing.assert_array_equal(episode["step_idx"], np.arange(logs.lengths[number]))
    with pytest.raises(ReachcostError, match="episode 4"):
        opened.episode(4)
    with pytest.raises(ReachcostError, match="window"):
        opened.window_starts(0)
    for span in (1, 5, 21, 101, 200):
        starts = opened.window_starts(span)
        assert len(starts) == np.maximum(logs.lengths - span + 1, 0).sum()
        column = logs.columns["episode_idx"]
        assert all(len(set(column[start : start + span])) == 1 for start in starts)


def test_rows_of_empty_episodes() -> None:
    logs = Logs({"state": np.zeros((5, 1))}, np.array([0, 2, 0, 3, 0]))
    assert logs.episode_of(np.arange(5)).tolist() == [1, 1, 3, 3, 3]
    assert logs.in_episodes(np.array([0, 3])).tolist() == [False, False, True, True, True]
    assert logs.window_starts(2).tolist() == [0, 2, 3]


def test_a_failed_write_leaves_the_old_file(logs: Logs, tmp_path: Path) -> None:
    path = tmp_path / "logs.h5"
    write_logs(logs, path)
    before = path.read_bytes()

    def fail(states: np.ndarray) -> np.ndarray:
        if len(states) > 1:
            raise KeyboardInterrupt
        return TASK.render(states)

    with pytest.raises(KeyboardInterrupt):
        write_logs(logs, path, render=fail, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_logs_that_appear_while_others_are_written_are_kept(logs: Logs, tmp_path: Path) -> None:
    def render(states: np.ndarray) -> np.ndarray:
        if not (tmp_path / "logs.h5").exists():
            write_logs(logs, tmp_path / "logs.h5")
        return TASK.render(states)

    with pytest.raises(ReachcostError, match=r"logs\.h5"):
        write_logs(logs, tmp_path / "logs.h5", render=render)
    assert "pixels" not in open_logs(tmp_path / "logs.h5").columns


def test_existing_files_and_impossible_places_are_refused(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5")
    for place in (tmp_path / "logs.h5", tmp_path):
        with pytest.raises(ReachcostError, match="exists already"):
            write_logs(logs, place)
    write_logs(logs, tmp_path / "logs.h5", overwrite=True)
    with pytest.raises(ReachcostError, match=r"cannot write .*choose another place"):
        write_logs(logs, tmp_path / "logs.h5" / "below.h5")


def replace_column(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[h5py.File], None]:
    def apply(file: h5py.File) -> None:
        values = change(np.asarray(file[name]))
        del file[name]
        file.create_dataset(name, data=values)

    return apply


def nan_in_row_two(values: np.ndarray) -> np.ndarray:
    values[2] = np.nan
    return values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replace_column("ep_offset", lambda values: values + 1), "contradict"),
        (replace_column("ep_len", lambda values: values[:-1]), "ep_len add up to"),
        (replace_column("state", lambda values: values[:-3]), "state has .* rows"),
        (replace_column("action", nan_in_row_two), "action is not finite in 1 rows, first in step 2"),
        (replace_column("state", nan_in_row_two), "state is not finite in 1 rows"),
        (replace_column("state", lambda values: values[:, 0]), "state is float32"),
        (replace_column("action", lambda values: values.astype("S8")), "action is"),
        (replace_column("pixels", lambda values: values.astype(np.float32)), "uint8"),
        (replace_column("pixels", lambda values: values.transpose(0, 3, 1, 2)), "pixels"),
        (lambda file: file.pop("ep_offset"), "has no ep_offset"),
        (lambda file: file.create_group("extra"), "'extra' is not a column"),
    ],
)
def test_wrong_files_are_refused(logs: Logs, tmp_path: Path, change: Callable[[h5py.File], None], message: str) -> None:
    write_logs(logs, tmp_path / "logs.h5", render=TASK.render)
    with h5py.File(tmp_path / "logs.h5", "r+") as file:
        change(file)
    with pytest.raises(ReachcostError, match=message):
        open_logs(tmp_path / "logs.h5")


def test_truncated_and_missing_files_are_refused(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5")
    (tmp_path / "half.h5").write_bytes((tmp_path / "logs.h5").read_bytes()[:4000])
    for name, message in {"half.h5": "HDF5", "nowhere.h5": "no logs"}.items():
        with pytest.raises(ReachcostError, match=message):
            open_logs(tmp_path / name)


def test_text_columns_survive(logs: Logs, tmp_path: Path) -> None:
    named = Logs({**logs.columns, "env_name": np.array(["TwoRoom"] * logs.rows)}, logs.lengths)
    write_logs(named, tmp_path / "logs.h5")
    assert set(open_logs(tmp_path / "logs.h5").columns["env_name"]) == {"TwoRoom"}


def test_frames_of_a_damaged_file_are_refused_when_read(logs: Logs, tmp_path: Path) -> None:
    write_logs(logs, tmp_path / "logs.h5", render=TASK.render)
    opened = open_logs(tmp_path / "logs.h5")
    (tmp_path / "logs.h5").unlink()
    (tmp_path / "logs.h5").write_bytes(b"nothing")
    with pytest.raises(ReachcostError, match="changed"):
        opened.columns["pixels"][:3]


def test_the_last_action_of_an_episode_may_be_nan(logs: Logs, tmp_path: Path) -> None:
    actions = logs.columns["action"].copy()
    actions[logs.offsets + logs.lengths - 1] = np.nan
    write_logs(Logs({**logs.columns, "action": actions}, logs.lengths), tmp_path / "logs.h5")
    assert open_logs(tmp_path / "logs.h5").rows == logs.rows
