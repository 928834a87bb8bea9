"""Logs in the formats of others: npz, D4RL, Minari and lists of episodes."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from reachcost.core.hdf5 import Column
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import episode_lengths
from reachcost.data.logs_files import open_logs, write_logs
from reachcost.data.logs_formats import FramesOfEpisodes
from reachcost.errors import ReachcostError

Change = Callable[[h5py.File], Any]
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


def test_an_episode_ends_at_a_flag_or_another_episode_number() -> None:
    marks = {"terminals": np.array([0, 0, 1, 0, 0, 0]), "episode_idx": np.array([0, 0, 0, 1, 1, 2])}
    assert episode_lengths("mine", marks, rows=6).tolist() == [3, 2, 1]


def d4rl(path: Path, change: Change = lambda file: None) -> Path:
    with h5py.File(path / "d4rl.hdf5", "w") as file:
        for name, values in {"observations": STATES, "actions": ACTIONS, "rewards": np.arange(8.0)}.items():
            file[name] = values
        file["terminals"], file["timeouts"] = np.zeros(8, bool), ENDS
        file["next_observations"] = STATES
        file["infos/qpos"] = STATES[:, :1]
        file["metadata/algorithm"] = "walk"
        change(file)
    return path / "d4rl.hdf5"


def stored(name: str, values: Any) -> Change:
    """Replaces a column."""

    def apply(file: h5py.File) -> None:
        file.pop(name, None)
        file[name] = values

    return apply


def without(*names: str) -> Change:
    return lambda file: [file.pop(name) for name in names]


def test_d4rl_files(tmp_path: Path) -> None:
    opened = open_logs(d4rl(tmp_path))
    require_equal(opened)
    assert sorted(opened.columns) == ["action", "info.qpos", "reward", "state"]
    write_logs(opened, tmp_path / "ours.h5")
    assert open_logs(tmp_path / "ours.h5").fingerprint == opened.fingerprint


def test_frames_of_d4rl_files_stay_on_disk(tmp_path: Path) -> None:
    pixels = open_logs(d4rl(tmp_path, stored("observations", FRAMES))).columns["pixels"]
    assert isinstance(pixels, Column)
    np.testing.assert_array_equal(pixels[2:6], FRAMES[2:6])


def minari(path: Path, change: Change = lambda file: None, **observations: Any) -> Path:
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
    metadata = minari(tmp_path) / "data" / "metadata.json"
    counts = {"total_episodes": 2, "total_steps": 6, "data_format": "hdf5"}
    metadata.write_text(json.dumps(counts))
    assert len(open_logs(tmp_path / "mine")) == 2
    for wrong in (json.dumps({**counts, "total_episodes": 3}), json.dumps({**counts, "total_steps": "7"}), "{"):
        metadata.write_text(wrong)
        with pytest.raises(ReachcostError, match=r"metadata\.json"):
            open_logs(tmp_path / "mine")


def test_minari_episodes_are_ordered_by_number(tmp_path: Path) -> None:
    def add(file: h5py.File) -> None:
        for number in range(2, 12):
            file.copy("episode_0", f"episode_{number}")

    assert open_logs(minari(tmp_path, add)).lengths.tolist() == [3, 5, *[3] * 10]


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
    smooth = np.repeat(np.arange(8, dtype=np.uint8) * 20, 32 * 32 * 3).reshape(8, 32, 32, 3)

    def encode(file: h5py.File) -> None:
        for number, part in enumerate(SLICES):
            del file[f"episode_{number}/observations"]
            kind, rows = h5py.vlen_dtype(np.uint8), len(smooth[part])
            column = file.create_dataset(f"episode_{number}/observations", (rows,), dtype=kind)
            for row, frame in enumerate(smooth[part]):
                buffer = io.BytesIO()
                Image.fromarray(frame).save(buffer, format="JPEG")
                column[row] = np.frombuffer(buffer.getvalue(), np.uint8)

    pixels = open_logs(minari(tmp_path, encode)).columns["pixels"]
    assert pixels.shape == (8, 32, 32, 3)
    assert np.abs(pixels[:].astype(int) - smooth).max() <= 3


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


def lattice(file: h5py.File) -> None:
    del file["episode_0/observations"]
    group = file.create_group("episode_0/observations")
    for _ in range(16):
        below = group.create_group("left")
        group["right"] = below
        group = below
    group["state"] = STATES[:3]


def of_episodes(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], Logs]:
    return lambda path: Logs.of_episodes(change(episodes()))


def of_npz(**arrays: Any) -> Callable[[Path], Logs]:
    return lambda path: open_logs(npz(path, **arrays))


def of_d4rl(change: Change) -> Callable[[Path], Logs]:
    return lambda path: open_logs(d4rl(path, change))


def of_minari(change: Change, **observations: Any) -> Callable[[Path], Logs]:
    return lambda path: open_logs(minari(path, change, **observations))


def arrow(path: Path) -> Logs:
    (path / "data" / "0").mkdir(parents=True)
    (path / "data" / "metadata.json").write_text("{}")
    (path / "data" / "0" / "part-0.arrow").write_bytes(b"")
    return open_logs(path)


EPISODES = STATES.reshape(2, 4, 2)
NOTHING = np.zeros((8, 0))
with_states, with_lengths = partial(of_npz, observations=STATES), partial(of_npz, lengths=LENGTHS)
second = partial(stored, "episode_1/observations")
WRONG: list[tuple[Callable[[Path], Logs], str]] = [
    (with_states(), "add `lengths`"),
    (with_states(lengths=[3, 4]), "lengths add up to 7"),
    (with_states(lengths=[3.0, 5.0]), "lengths is float64"),
    (with_states(lengths=[13, -5]), "lengths holds 13"),
    (with_states(lengths=np.array([2**63, 2**63, 8], np.uint64)), f"lengths holds {2**63}"),
    (with_states(lengths=LENGTHS, timeouts=np.arange(8) == 5), "row 5 by timeouts"),
    (with_states(lengths=[7, 1]), "first episode 1"),
    (with_states(terminals=np.zeros(8)), "terminals mark no row"),
    (with_states(terminals=ENDS[1:]), "terminals has 7 values"),
    (with_states(episode_idx=np.zeros(8, [("a", int)])), "episode_idx"),
    (with_states(episode_idx=np.tile([0, 1], 4)), "episode_idx repeat"),
    (with_states(lengths=LENGTHS, actions=ACTIONS[1:]), "action has 7 rows"),
    (with_lengths(observations=STATES * np.nan), "state is not finite"),
    (with_lengths(observations=np.array([{}] * 8)), "could run code"),
    (with_lengths(actions=ACTIONS), "only action, lengths"),
    (with_lengths(obs=STATES, state=STATES), "'state' twice"),
    (with_lengths(state=STATES, ep_len=LENGTHS), "lengths and ep_len"),
    (with_lengths(state=EPISODES), "up to 4 rows"),
    (of_npz(state=EPISODES, action=ACTIONS), r"action is \(8, 1\)"),
    (of_npz(**{"episode_0/state": STATES, "rest": STATES}), "'rest'"),
    (of_npz(**{"episode_0/state": STATES, f"episode_{'9' * 5000}/state": STATES}), "'episode_9+"),
    (of_d4rl(without("actions")), "`actions`"),
    (of_d4rl(without("timeouts")), "terminals mark no row"),
    (of_minari(lattice), "left/right is the same group"),
    (of_minari(lambda file: stored("episode_2", file["episode_0"])(file)), "episode_2 is the same group"),
    (of_minari(without("episode_1/observations")), "episode_1 has no observations"),
    (of_minari(without("episode_1/actions")), "episode_1 has no actions"),
    (of_minari(without("episode_0")), "each number once"),
    (of_minari(lambda file: file.copy("episode_1", "episode_01")), "each number once"),
    (of_minari(lambda file: file.copy("episode_1", "Episode_2\n")), r"'Episode_2\\n'"),
    (of_minari(lambda file: file.copy("episode_1", f"episode_{'9' * 5000}")), "'episode_9+'"),
    (of_minari(stored("note", "mine")), "'note'"),
    (of_minari(lambda file: None, **{"observations/obs": STATES, "observations/state": STATES}), "'state' twice"),
    (of_minari(without("episode_1/rewards")), "differ in reward"),
    (of_minari(stored("episode_1/actions", ACTIONS[:2])), "action of episode 1 has 2 rows"),
    (of_minari(second(STATES[:5, :1])), r"state is \(1,\)"),
    (of_minari(second(FRAMES[:5])), "1 of 2 episodes have frames"),
    (of_minari(second(FRAMES[:5, :4]), observations=FRAMES), r"pixels is \(4, 6, 3\)"),
    (arrow, "Arrow"),
    (of_episodes(lambda e: []), "no episodes"),
    (of_episodes(lambda e: [e[0]["state"]]), "episode 0 is a ndarray"),
    (of_episodes(lambda e: [e[0], {"state": STATES}]), "differ in action, pixels"),
    (of_episodes(lambda e: [{"action": ACTIONS}]), "neither 'state' nor 'pixels'"),
    (of_episodes(lambda e: [e[0], {**e[1], "pixels": FRAMES[:3]}]), "pixels of episode 1 has 3 rows"),
    (of_episodes(lambda e: [{"state": STATES * np.nan}]), "first in step 0 of episode 0"),
    (of_episodes(lambda e: [{"state": [[1.0], [1.0, 2.0]]}]), "is not an array"),
    (of_episodes(lambda e: [{"pixels": FRAMES / 255}]), "uint8"),
    (of_episodes(lambda e: [{"state": STATES, "proprio": NOTHING}]), "proprio is .* empty"),
    (lambda path: Logs({"state": NOTHING}, LENGTHS), "state is .* empty"),
    (with_lengths(state=STATES, pixels=np.zeros((8, 4, 0, 3), np.uint8)), "pixels is .* empty"),
    (of_d4rl(stored("actions", NOTHING)), "action is .* empty"),
]


@pytest.mark.parametrize(("read", "message"), WRONG)
def test_wrong_logs_are_refused(tmp_path: Path, read: Callable[[Path], Logs], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        read(tmp_path)


def test_loading_runs_no_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (tmp_path / "ran").write_text, ("code",)

    with pytest.raises(ReachcostError, match="could run code"):
        open_logs(npz(tmp_path, observations=np.array([Trap()], object), lengths=[1]))
    assert not (tmp_path / "ran").exists()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "logs.npz", state=STATES, lengths=LENGTHS)
    intact = bytearray((tmp_path / "logs.npz").read_bytes())
    (tmp_path / "half.npz").write_bytes(intact[:200])
    intact[200] ^= 255
    (tmp_path / "flipped.npz").write_bytes(intact)
    (tmp_path / "logs.pkl").write_bytes(pickle.dumps([1]))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_group("demo")
    cases = {"half.npz": "npz", "flipped.npz": "npz", "logs.pkl": "stable-worldmodel", "other.h5": "demo"}
    for name, message in cases.items():
        with pytest.raises(ReachcostError, match=message):
            open_logs(tmp_path / name)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("twice", ["state", "lengths"])
def test_npz_with_two_arrays_of_one_name_is_refused(tmp_path: Path, twice: str) -> None:
    with zipfile.ZipFile(tmp_path / "logs.npz", "w") as file:
        for name, values in (("state", STATES), ("lengths", LENGTHS), (twice, LENGTHS[::-1])):
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values)
    with pytest.raises(ReachcostError, match=f"'{twice}' twice"):
        open_logs(tmp_path / "logs.npz")
