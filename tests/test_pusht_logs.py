"""PushT logs and evaluation sets: pushing, episodes that do not depend on each other, held-out pairs."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from reachcost.data.logs import Logs
from reachcost.data.logs_files import open_logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.tasks.pusht import PushT
from reachcost.tasks.pusht.logs import BUDGETS, KINDS, NAMES, held_out_logs, sample_set

pytestmark = pytest.mark.processor

TASK = PushT()


@pytest.fixture(scope="module")
def logs() -> Logs:
    return TASK.generate_logs(120, seed=5)


def test_logs_contain_real_pushing(logs: Logs) -> None:
    found = {name: value for name, (value, _) in TASK.describe_logs(logs).items()}
    assert 25 < found["steps that move the block, %"] < 50
    assert found["block displacement in 25 steps, px"] > 30
    assert found["block rotation in 25 steps, degrees"] > 15
    assert found["rows with the block at a wall, %"] < 15


def test_the_pusher_is_as_fast_as_public_experts(logs: Logs) -> None:
    pusher = logs.keep(np.flatnonzero(logs.columns["policy"] == KINDS.index("pusher")))
    found = TASK.describe_logs(pusher)
    for name in ("deviation of actions", "deviation of agent velocities, px/s"):
        ours, public = found[name]
        assert ours == pytest.approx(public, rel=0.1), name


def test_all_kinds_of_policies_make_episodes(logs: Logs) -> None:
    shares = np.bincount(logs.columns["policy"][logs.offsets], minlength=3) / len(logs)
    np.testing.assert_allclose(shares, [0.7, 0.15, 0.15], atol=0.12)


def test_logs_replay_in_the_simulator(logs: Logs) -> None:
    before = logs.window_starts(2)[::7]
    states, actions = logs.columns["state"], logs.columns["action"]
    assert np.array_equal(TASK.step(states[before], actions[before]), states[before + 1])


def test_an_episode_does_not_depend_on_the_others(logs: Logs) -> None:
    fewer = TASK.generate_logs(3, seed=5)
    assert np.array_equal(fewer.columns["state"], logs.columns["state"][: fewer.rows])


def test_released_files_are_read(tmp_path: Path) -> None:
    """Columns as in `pusht_expert_train`: no reset frame, so `step_idx` starts at 1."""
    source = TASK.generate_logs(2, seed=1)
    with h5py.File(tmp_path / "released.h5", "w") as file:
        rows = np.flatnonzero(np.isin(source.columns["step_idx"], (1, 2, 3, 4)))
        for name in ("state", "proprio", "action"):
            file[name] = source.columns[name][rows].astype(np.float32)
        file["pixels"] = TASK.render(source.columns["state"][rows])
        file["ep_idx"] = source.columns["episode_idx"][rows]
        file["step_idx"] = source.columns["step_idx"][rows]
        file["ep_len"], file["ep_offset"] = np.array([4, 4], np.int32), np.array([0, 4], np.int64)
    logs = open_logs(tmp_path / "released.h5", TASK.observe)
    assert (len(logs), logs.columns["state"].shape, logs.columns["action"].shape) == (2, (8, 7), (8, 2))
    seen = logs.observations(slice(0, 3))
    assert (seen["pixels"].shape, seen["proprio"].shape) == ((3, 224, 224, 3), (3, 4))
    assert TASK.step(logs.columns["state"], logs.columns["action"]).dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_frozen_sets_are_rows_of_held_out_episodes(name: str) -> None:
    found, offset = TASK.evaluation_set(name), int(name.split("-")[1])
    assert (len(found), found.budget, found.world) == (50, BUDGETS[offset], TASK.world)
    rows, episodes = found.source_rows, found.source_episodes
    assert rows is not None
    assert episodes is not None
    assert (rows[:, 1] - rows[:, 0] == offset).all()
    assert len(np.unique(episodes)) == 50
    assert not TASK.success(found.starts, found.goals).all()


def test_a_frozen_set_can_be_sampled_again() -> None:
    name = "offset-75-3074"
    frozen, sampled = TASK.evaluation_set(name), sample_set(name, TASK.world)
    np.testing.assert_allclose(frozen.starts, sampled.starts, atol=1e-6)
    np.testing.assert_allclose(frozen.goals, sampled.goals, atol=1e-6)


def test_the_logged_actions_lead_to_the_goals() -> None:
    name, offset = "offset-25-tune-3", 25
    chosen, source = sample_set(name, TASK.world, episodes=20), held_out_logs("tune-25", 3, 20)
    assert (chosen.logs_sha256, chosen.source_rows is not None) == (source.fingerprint, True)
    ends, rows = chosen.starts, np.asarray(chosen.source_rows)[:, 0]
    for t in range(offset):
        ends = TASK.step(ends, source.columns["action"][rows + t])
    assert TASK.success(ends, chosen.goals).all()


def test_other_seeds_and_tuning_sets_are_sampled() -> None:
    names = ("offset-50-3072", "offset-50-1", "offset-50-tune-1")
    sets = [TASK.evaluation_set(name) for name in names]
    assert [found.name for found in sets] == list(names)
    assert len({found.fingerprint for found in sets}) == 3
    with pytest.raises(ReachcostError, match="offset-25-3072"):
        TASK.evaluation_set("offset-30-3072")
    with pytest.raises(ReachcostError, match="0 episodes"):
        TASK.generate_logs(0)


def test_exclusion_finds_evaluation_episodes_only_where_they_are(logs: Logs) -> None:
    chosen = TASK.evaluation_set("offset-50-tune-7")
    proof = Exclusion(logs, [chosen]).prove(np.arange(50), np.arange(50, 100))
    assert (proof["excluded_episodes"], proof["overlapping_rows"]) == (0, 0)
    source = held_out_logs("tune-50", 7, 50)
    assert len(Exclusion(source, [chosen]).episodes) == 50
