"""Logs in the formats of others: npz, D4RL, Minari and lists of episodes."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from reachcost.core.hdf5 import ColumnOnDisk
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import episode_lengths
from reachcost.data.logs_formats import FramesOfEpisodes
from reachcost.data.logs_hdf5 import open_logs, write_logs
from reachcost.errors import ReachcostError

LENGTHS = np.array([3, 5])
STATES = np.arange(16.0).reshape(8, 2)
ACTIONS = np.linspace(-1, 1, 8)[:, None]
FRAMES = np.random.default_rng(0).integers(0, 256, (8, 6, 6, 3), dtype=np.uint8)
ENDS = np.isin(np.arange(8), [2, 7])
SLICES = (slice(0, 3), slice(3, 8))


def require_equal(logs: Logs, action: np.ndarray = ACTIONS) -> None:
    assert logs.lengths.tolist() == LENGTHS.tolist()
    np.testing.assert_array_equal(logs.columns["state"], STATES)
    np.testing.assert_array_equal(logs.columns["action"], action)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path / "logs.npz", **arrays)
    return path / "logs.npz"


@pytest.mark.parametrize(
    "marks",
    [
        {"lengths": LENGTHS},
        {"terminals": ENDS},
        {"terminals": np.zeros(8), "timeouts": ENDS.astype(float)},
        {"timeouts": ENDS & (np.arange(8) < 5)},  # the last episode was still running
        {"episode_idx": np.repeat([4, 9], LENGTHS)},
    ],
)
def test_npz_of_concatenated_episodes(tmp_path: Path, marks: dict[str, np.ndarray]) -> None:
    require_equal(open_logs(npz(tmp_path, observations=STATES, actions=ACTIONS, note="mine", **marks)))


def test_npz_of_episodes_by_name_and_by_axis(tmp_path: Path) -> None:
    named = {f"episode_{n}/state": STATES[part] for n, part in enumerate(SLICES)}
    named |= {f"episode_{n}/action": ACTIONS[part] for n, part in enumerate(SLICES)}
    require_equal(open_logs(npz(tmp_path, **named)))
    padded = {"state": np.zeros((2, 5, 2)), "action": np.zeros((2, 5, 1))}
    for number, part in enumerate(SLICES):
        padded["state"][number, : LENGTHS[number]] = STATES[part]
        padded["action"][number, : LENGTHS[number]] = ACTIONS[part]
    require_equal(open_logs(npz(tmp_path, **padded, lengths=LENGTHS)))
    even = open_logs(npz(tmp_path, states=STATES.reshape(2, 4, 2), actions=np.zeros((2, 3, 1))))
    assert even.lengths.tolist() == [4, 4]
    assert np.isnan(even.columns["action"]).ravel().tolist() == 2 * [False, False, False, True]


def test_npz_of_frames(tmp_path: Path) -> None:
    opened = open_logs(npz(tmp_path, observations=FRAMES, actions=ACTIONS, lengths=LENGTHS))
    np.testing.assert_array_equal(opened.columns["pixels"], FRAMES)
    opened = open_logs(npz(tmp_path, observations=FRAMES.reshape(2, 4, 6, 6, 3)))
    np.testing.assert_array_equal(opened.columns["pixels"], FRAMES)


def test_frames_of_states_are_rendered_when_read(tmp_path: Path) -> None:
    opened = open_logs(npz(tmp_path, state=STATES, lengths=LENGTHS), lambda states: {"pixels": 2 * states})
    np.testing.assert_array_equal(opened.observations(slice(0, 2))["pixels"], 2 * STATES[:2])


WRONG_NPZ: list[tuple[dict[str, Any], str]] = [
    ({"observations": STATES}, "add `lengths`"),
    ({"observations": STATES, "lengths": [3, 4]}, "lengths add up to 7"),
    ({"observations": STATES, "lengths": [3.0, 5.0]}, "lengths is float64"),
    ({"observations": STATES, "lengths": [13, -5]}, "lengths holds 13"),
    ({"observations": STATES, "lengths": [-5, 8, 5]}, "lengths holds -5"),
    ({"observations": STATES, "lengths": np.array([2**63, 2**63, 8], np.uint64)}, f"lengths holds {2**63}"),
    ({"observations": STATES, "lengths": LENGTHS, "timeouts": np.arange(8) == 5}, "row 5 by timeouts"),
    ({"observations": STATES, "lengths": [7, 1]}, "no step, first episode 1"),
    ({"observations": STATES, "terminals": ENDS.astype(str)}, "terminals holds <U5"),
    ({"observations": STATES, "terminals": np.zeros(8)}, "terminals mark no row"),
    ({"observations": STATES, "terminals": ENDS[1:]}, "terminals has 7 values"),
    ({"observations": STATES, "episode_idx": np.array(["a"] * 8)}, "episode_idx holds <U1"),
    ({"observations": STATES, "episode_idx": np.zeros(8, [("a", int)])}, "episode_idx holds"),
    ({"observations": STATES, "episode_idx": np.tile([0, 1], 4)}, "episode_idx repeat"),
    ({"observations": STATES, "actions": ACTIONS[1:], "lengths": LENGTHS}, "action has 7 rows"),
    ({"observations": STATES * np.nan, "lengths": LENGTHS}, "state is not finite"),
    ({"observations": np.array([{}] * 8), "lengths": LENGTHS}, "Python objects"),
    ({"actions": ACTIONS, "lengths": LENGTHS}, "only action, lengths"),
    ({"obs": STATES, "state": STATES, "lengths": LENGTHS}, "has 'state' twice"),
    ({"state": STATES, "lengths": LENGTHS, "ep_len": LENGTHS}, "lengths and ep_len"),
    ({"state": STATES.reshape(2, 4, 2), "lengths": [3, 5]}, "up to 4 rows"),
    ({"state": STATES.reshape(2, 4, 2), "lengths": [3, 4], "ep_len": [4, 3]}, "lengths and ep_len"),
    ({"state": STATES.reshape(2, 4, 2), "action": ACTIONS}, r"action is \(8, 1\)"),
    ({"episode_0/state": STATES, "rest": STATES}, "'rest'"),
    ({"episode_0/state": STATES, "episode_00/state": STATES}, "episode 0 has 'state' twice"),
    ({"episode_0/state": STATES, f"episode_{'9' * 5000}/state": STATES}, "'episode_9+"),
]


@pytest.mark.parametrize(("arrays", "message"), WRONG_NPZ)
def test_wrong_npz_files_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        open_logs(npz(tmp_path, **arrays))


def test_loading_runs_no_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (tmp_path / "ran").write_text, ("code",)

    trap = npz(tmp_path, observations=np.array([Trap()], object), lengths=[1])
    with pytest.raises(ReachcostError, match="could run code"):
        open_logs(trap)
    assert not (tmp_path / "ran").exists()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    whole = npz(tmp_path, state=STATES, lengths=LENGTHS)
    (tmp_path / "half.npz").write_bytes(whole.read_bytes()[:200])
    with pytest.raises(ReachcostError, match="npz"):
        open_logs(tmp_path / "half.npz")
    (tmp_path / "logs.pkl").write_bytes(pickle.dumps([1]))
    with pytest.raises(ReachcostError, match="stable-worldmodel"):
        open_logs(tmp_path / "logs.pkl")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_group("demo")
    with pytest.raises(ReachcostError, match="demo"):
        open_logs(tmp_path / "other.h5")


def d4rl(path: Path, change: Callable[[h5py.File], None] = lambda file: None) -> Path:
    with h5py.File(path / "d4rl.hdf5", "w") as file:
        for name, values in {"observations": STATES, "actions": ACTIONS, "rewards": np.arange(8.0)}.items():
            file[name] = values
        file["terminals"], file["timeouts"] = np.zeros(8, bool), ENDS
        file["next_observations"] = STATES
        file["infos/qpos"] = STATES[:, :1]
        file["metadata/algorithm"] = "walk"
        change(file)
    return path / "d4rl.hdf5"


def test_d4rl_files(tmp_path: Path) -> None:
    opened = open_logs(d4rl(tmp_path))
    require_equal(opened)
    assert sorted(opened.columns) == ["action", "info.qpos", "reward", "state"]
    write_logs(opened, tmp_path / "ours.h5")
    assert open_logs(tmp_path / "ours.h5").fingerprint == opened.fingerprint


def test_frames_of_d4rl_files_stay_on_disk(tmp_path: Path) -> None:
    def with_frames(file: h5py.File) -> None:
        del file["observations"]
        file["observations"] = FRAMES

    pixels = open_logs(d4rl(tmp_path, with_frames)).columns["pixels"]
    assert isinstance(pixels, ColumnOnDisk)
    np.testing.assert_array_equal(pixels[2:6], FRAMES[2:6])


def remove(*names: str) -> Callable[[h5py.File], None]:
    def apply(file: h5py.File) -> None:
        for name in names:
            del file[name]

    return apply


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("actions",), r"\(D4RL\) has no `actions`"),
        (("terminals", "timeouts"), "add `lengths`"),
        (("timeouts",), r"\(D4RL\): terminals mark no row"),
    ],
)
def test_wrong_d4rl_files_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        open_logs(d4rl(tmp_path, remove(*names)))


def minari(path: Path, change: Callable[[h5py.File], None] = lambda file: None, **observations: Any) -> Path:
    """As Minari 0.5.4 writes it: `observations` and infos of one more row than there are actions."""
    (path / "mine" / "data").mkdir(parents=True, exist_ok=True)
    with h5py.File(path / "mine" / "data" / "main_data.hdf5", "w") as file:
        for number, part in enumerate(SLICES):
            group = file.create_group(f"episode_{number}")
            group.attrs.update({"id": number, "seed": number, "total_steps": LENGTHS[number] - 1})
            for name, values in (observations or {"observations": STATES}).items():
                group[name] = values[part]
            group["actions"] = ACTIONS[part][:-1]
            group["rewards"] = np.zeros(LENGTHS[number] - 1)
            group["terminations"], group["truncations"] = np.zeros((2, LENGTHS[number] - 1), bool)
            group["infos/q"] = STATES[part]
        change(file)
    return path / "mine"


def test_minari_datasets(tmp_path: Path) -> None:
    for place in (minari(tmp_path), tmp_path / "mine" / "data", tmp_path / "mine" / "data" / "main_data.hdf5"):
        opened = open_logs(place)
        expected = ACTIONS.copy()
        expected[[2, 7]] = np.nan
        require_equal(opened, expected)
        assert sorted(opened.columns) == ["action", "info.q", "reward", "state"]
    assert ActionBlocks.of(opened, length=1).high == (ACTIONS[6, 0],)


def test_wrong_counts_in_the_metadata_of_minari_are_refused(tmp_path: Path) -> None:
    data = minari(tmp_path) / "data"
    metadata = {"total_episodes": 2, "total_steps": 6}
    for written, refused in (
        (json.dumps({**metadata, "data_format": "hdf5"}), ""),
        (json.dumps({**metadata, "total_episodes": 3}), "metadata.json has .*total_episodes.: 3"),
        (json.dumps({**metadata, "total_steps": "7"}), "metadata.json has .*total_steps.: '7'"),
        ("{", r"metadata.json cannot be read \("),
    ):
        (data / "metadata.json").write_text(written)
        if refused:
            with pytest.raises(ReachcostError, match=refused):
                open_logs(tmp_path / "mine")
        else:
            assert len(open_logs(tmp_path / "mine")) == 2


def test_minari_episodes_are_ordered_by_number(tmp_path: Path) -> None:
    def add(file: h5py.File) -> None:
        for number in range(2, 12):
            file.copy("episode_0", f"episode_{number}")

    logs = open_logs(minari(tmp_path, add))
    assert logs.lengths.tolist() == [3, 5, *[3] * 10]


def test_dict_observations_of_minari_become_columns(tmp_path: Path) -> None:
    parts = {"observation": STATES, "achieved_goal": STATES[:, :1], "image": FRAMES, "n/deep": np.arange(8)}
    opened = open_logs(minari(tmp_path, **{f"observations/{name}": values for name, values in parts.items()}))
    assert {"state", "achieved_goal", "pixels", "n.deep"} <= opened.columns.keys()
    frames = opened.columns["pixels"]
    assert isinstance(frames, FramesOfEpisodes)
    again = pickle.loads(pickle.dumps(frames))
    np.testing.assert_array_equal(again[1:6], FRAMES[1:6])
    np.testing.assert_array_equal(again[np.array([7, 0])], FRAMES[[7, 0]])
    np.testing.assert_array_equal(again[4], FRAMES[4])
    assert again[:0].shape == (0, 6, 6, 3)


def test_encoded_frames_of_minari_are_decoded(tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image")
    smooth = np.repeat(np.arange(8, dtype=np.uint8) * 20, 32 * 32 * 3).reshape(8, 32, 32, 3)

    def encoded(frame: np.ndarray) -> np.ndarray:
        buffer = io.BytesIO()
        images.fromarray(frame).save(buffer, format="JPEG")
        return np.frombuffer(buffer.getvalue(), np.uint8)

    def encode(file: h5py.File) -> None:
        for number, part in enumerate(SLICES):
            del file[f"episode_{number}/observations"]
            blobs = [encoded(frame) for frame in smooth[part]]
            stored = file.create_dataset(
                f"episode_{number}/observations", (len(blobs),), dtype=h5py.vlen_dtype(np.uint8)
            )
            for row, blob in enumerate(blobs):
                stored[row] = blob

    pixels = open_logs(minari(tmp_path, encode)).columns["pixels"]
    assert pixels.shape == (8, 32, 32, 3)
    assert np.abs(pixels[:].astype(int) - smooth).max() <= 3


def second_episode(name: str, values: Any) -> Callable[[h5py.File], None]:
    def apply(file: h5py.File) -> None:
        del file[f"episode_1/{name}"]
        file[f"episode_1/{name}"] = values

    return apply


def lattice(file: h5py.File) -> None:
    del file["episode_0/observations"]
    group = file.create_group("episode_0/observations")
    for _ in range(16):
        below = group.create_group("left")
        group["right"] = below
        group = below
    group["state"] = STATES[:3]


def same_episode(file: h5py.File) -> None:
    file["episode_2"] = file["episode_0"]


def empty(part: str) -> Callable[[h5py.File], None]:
    def apply(file: h5py.File) -> None:
        del file[f"episode_1/{part}"]
        file.create_group(f"episode_1/{part}")

    return apply


def copied(name: str) -> Callable[[h5py.File], None]:
    return lambda file: file.copy("episode_1", name)


def seen_twice(file: h5py.File) -> None:
    del file["episode_0/observations"]
    file["episode_0/observations/observation"] = STATES[:3]
    file["episode_0/observations/state"] = -STATES[:3]


WRONG_MINARI = [
    (lattice, r"left/right is the same group"),
    (same_episode, "episode_2 is the same group"),
    (empty("observations"), "episode_1 has no observations"),
    (empty("actions"), "episode_1 has no actions"),
    (remove("episode_1/actions"), "episode_1 has no actions"),
    (remove("episode_0"), "each number once"),
    (copied("episode_01"), "each number once"),
    (copied("episode_3"), "each number once"),
    (copied("episode_2_new"), "'episode_2_new'"),
    (copied("Episode_2\n"), r"'Episode_2\\n'"),
    (copied(f"episode_{'9' * 5000}"), "'episode_9+'"),
    (lambda file: file.create_dataset("note", data="mine"), "'note'"),
    (seen_twice, "episode_0 has 'state' twice"),
    (remove("episode_1/rewards"), "differ in reward"),
    (second_episode("actions", ACTIONS[:2]), "action of episode 1 has 2 rows"),
    (second_episode("observations", STATES[:5, :1]), r"state is \(1,\)"),
    (second_episode("observations", STATES[:1]), "no step, first episode 1"),
    (second_episode("observations", STATES[:5] + np.inf), "state is not finite"),
    (second_episode("observations", FRAMES[:5]), "1 of 2 episodes have frames"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_MINARI)
def test_wrong_minari_datasets_are_refused(tmp_path: Path, change: Callable[[h5py.File], None], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        open_logs(minari(tmp_path, change))


def test_mixed_frame_sizes_are_refused(tmp_path: Path) -> None:
    change = second_episode("observations", FRAMES[:5, :4])
    with pytest.raises(ReachcostError, match=r"pixels is \(4, 6, 3\)"):
        open_logs(minari(tmp_path, change, observations=FRAMES))


def test_minari_in_arrow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data" / "0").mkdir(parents=True)
    (tmp_path / "data" / "metadata.json").write_text("{}")
    (tmp_path / "data" / "0" / "part-0.arrow").write_bytes(b"")
    with pytest.raises(ReachcostError, match="Arrow"):
        open_logs(tmp_path)


def episodes() -> list[dict[str, Any]]:
    return [{"state": STATES[part], "action": ACTIONS[part], "pixels": FRAMES[part]} for part in SLICES]


def test_logs_from_a_list_of_episodes() -> None:
    logs = Logs.of_episodes(episodes())
    require_equal(logs)
    np.testing.assert_array_equal(logs.columns["pixels"], FRAMES)
    walk = [{"observations": STATES[part].tolist(), "actions": [0] * (len(STATES[part]) - 1)} for part in SLICES]
    logs = Logs.of_episodes(walk, observe=lambda states: {"pixels": states})
    assert logs.columns["action"].shape == (8, 1)
    assert logs.columns["action"].dtype.kind == "i"
    assert logs.observations(slice(0, 3))["pixels"].shape == (3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: [], "no episodes"),
        (lambda e: e[0], "a dict"),
        (lambda e: [e[0]["state"]], "episode 0 is a ndarray"),
        (lambda e: [e[0], {"state": STATES}], "differ in action, pixels"),
        (lambda e: [{"action": ACTIONS}], "neither 'state' nor 'pixels'"),
        (lambda e: [e[0], {**e[1], "pixels": FRAMES[:5, :3]}], "pixels is"),
        (lambda e: [e[0], {**e[1], "pixels": FRAMES[:3]}], "pixels of episode 1 has 3 rows"),
        (lambda e: [{"state": STATES[:1]}], "no step, first episode 0"),
        (lambda e: [{"state": STATES * np.nan}], "first in step 0 of episode 0"),
        (lambda e: [{"state": [[1.0], [1.0, 2.0]]}], "is not an array"),
        (lambda e: [{"state": STATES, "obs": STATES}], "has 'state' twice, also as 'obs'"),
        (lambda e: [{"pixels": FRAMES / 255}], "uint8"),
    ],
)
def test_wrong_episodes_are_refused(change: Callable[[list[dict[str, Any]]], Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        Logs.of_episodes(change(episodes()))


def members(path: Path, *arrays: tuple[str, np.ndarray]) -> Path:
    """A zip file, which may hold a name twice."""
    with zipfile.ZipFile(path / "logs.npz", "w") as file:
        for name, values in arrays:
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values)
    return path / "logs.npz"


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("twice", ["state", "lengths"])
def test_npz_with_two_arrays_of_one_name_is_refused(tmp_path: Path, twice: str) -> None:
    path = members(tmp_path, ("state", STATES), ("lengths", LENGTHS), (twice, LENGTHS[::-1]))
    with pytest.raises(ReachcostError, match=f"has '{twice}' twice"):
        open_logs(path)


NOTHING, NO_FRAMES = np.zeros((8, 0)), np.zeros((8, 4, 0, 3), np.uint8)
OFFSETS = np.cumsum(LENGTHS) - LENGTHS


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("state", {"state": NOTHING, "action": ACTIONS}),
        ("action", {"state": STATES, "action": NOTHING}),
        ("proprio", {"state": STATES, "proprio": NOTHING}),
        ("pixels", {"state": STATES, "pixels": NO_FRAMES}),
    ],
)
def test_empty_rows_are_refused(tmp_path: Path, name: str, columns: dict[str, np.ndarray]) -> None:
    def hdf5() -> Logs:
        with h5py.File(tmp_path / "logs.h5", "w") as file:
            for stored, values in {**columns, "ep_len": LENGTHS, "ep_offset": OFFSETS}.items():
                file[stored] = values
        return open_logs(tmp_path / "logs.h5")

    by_axis = {part: values.reshape(2, 4, *values.shape[1:]) for part, values in columns.items()}
    by_name = {f"episode_0/{part}": values for part, values in columns.items()}
    for made in (
        hdf5,
        lambda: open_logs(npz(tmp_path, **columns, lengths=LENGTHS)),
        lambda: open_logs(npz(tmp_path, **by_axis)),
        lambda: open_logs(npz(tmp_path, **by_name)),
        lambda: Logs(columns, LENGTHS),
        lambda: Logs.of_episodes([columns]),
    ):
        with pytest.raises(ReachcostError, match=f"{name} is .* rows are empty"):
            made()


@pytest.mark.parametrize("name", ["observations", "actions"])
def test_empty_rows_of_d4rl_and_minari_are_refused(tmp_path: Path, name: str) -> None:
    def change(file: h5py.File) -> None:
        for place in (place for place in (name, f"episode_1/{name}", f"episode_0/{name}") if place in file):
            rows = len(np.asarray(file[place]))
            del file[place]
            file[place] = np.zeros((rows, 0))

    for path in (d4rl(tmp_path, change), minari(tmp_path, change)):
        with pytest.raises(ReachcostError, match="rows are empty"):
            open_logs(path)


def test_an_episode_ends_at_a_flag_or_another_episode_number() -> None:
    marks = {"terminals": np.array([0, 0, 1, 0, 0, 0]), "episode_idx": np.array([0, 0, 0, 1, 1, 2])}
    assert episode_lengths("mine", marks, rows=6).tolist() == [3, 2, 1]


def test_a_damaged_compressed_file_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "logs.npz", state=STATES, lengths=LENGTHS)
    whole = (tmp_path / "logs.npz").read_bytes()
    refused = 0
    for place in range(40, len(whole), 4):
        data = bytearray(whole)
        data[place] ^= 0xFF
        (tmp_path / "logs.npz").write_bytes(data)
        try:
            open_logs(tmp_path / "logs.npz")
        except ReachcostError:
            refused += 1
    assert refused > 20
