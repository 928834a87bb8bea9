"""TwoRoom logs and evaluation sets: the public cache's statistics, frozen pairs, and exclusion."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples.freeze_sets import freeze
from reachcost.data.evaluation import read_evaluation_set
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.temporal import TemporalPairs
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.tasks.tworoom.logs import FROZEN, RULES, sample_set

pytestmark = pytest.mark.processor

TASK = TwoRoom()


@pytest.fixture(scope="module")
def logs() -> Logs:
    return TASK.generate_logs()


def test_log_statistics_match_the_public_cache(logs: Logs) -> None:
    for name, (ours, expected) in TASK.describe_logs(logs).items():
        # 243 slow steps of 618,216: their number has a standard error of 6 %.
        tolerance = 0.15 if name == "steps below 0.1 px, %" else 0.03
        assert ours == pytest.approx(expected, rel=tolerance), name


def test_the_page_shows_the_statistics_of_these_logs(logs: Logs) -> None:
    ours = {name: value for name, (value, _) in TASK.describe_logs(logs).items()}
    shown = {
        "observations": (("observations",), "{:,.0f}"),
        "shortest, longest, median, mean episode": (
            ("shortest episode", "longest episode", "median length", "mean length"),
            "{:.3g}",
        ),
        "mean, median displacement in px": (("mean displacement, px", "median displacement, px"), "{:.2f}"),
        "steps below 0.1 px, %": (("steps below 0.1 px, %",), "{:.3f}"),
    }
    page = (Path(__file__).parent.parent / "docs" / "tworoom.md").read_text()
    for row, (names, digits) in shown.items():
        values = ", ".join(digits.format(ours[name]) for name in names)
        assert f"| {row} | {values} |" in page


@pytest.mark.parametrize("collision", ["endpoint", "swept"])
def test_logs_replay_in_the_simulator(collision: Any) -> None:
    task = TwoRoom(collision=collision)
    logs = task.generate_logs(episodes=1000)
    states, actions, goals = (logs.columns[name] for name in ("state", "action", "goal_state"))
    rows, last = logs.window_starts(2), logs.offsets + logs.lengths - 1
    np.testing.assert_array_equal(task.step(states[rows], actions[rows]), states[rows + 1])
    assert task.success(states[last], goals[last])[logs.lengths < 101].all()
    early = logs.offsets[logs.lengths > 2] + 1
    assert not task.success(states[early], goals[early]).any()
    assert (np.abs(actions) <= 1).all()
    assert (actions[last] == 0).all()


def test_an_episode_does_not_depend_on_the_others(logs: Logs) -> None:
    few = TASK.generate_logs(episodes=30)
    np.testing.assert_array_equal(few.columns["state"], logs.columns["state"][: few.rows])


def test_frozen_sets_can_be_sampled_again(logs: Logs, tmp_path: Path) -> None:
    for name in RULES:
        freeze(sample_set(name, logs, TASK.layout), tmp_path / f"{name}.json")
    names = {f"{name}.json" for name in TASK.sets}
    assert names == {path.name for path in FROZEN.iterdir()} == {path.name for path in tmp_path.iterdir()}
    for name in names:
        assert (FROZEN / name).read_bytes() == (tmp_path / name).read_bytes(), name


@pytest.mark.parametrize("name", RULES)
def test_evaluation_sets_meet_their_rule_and_know_their_source(name: str, logs: Logs) -> None:
    rule, evaluation = RULES[name], TASK.evaluation_set(name)
    ends = evaluation.starts, evaluation.goals
    kinds = TASK.groups(*ends)
    assert {kind: int(members.sum()) for kind, members in kinds.items()} == dict.fromkeys(kinds, rule.each)
    geodesic = TASK.distance(*ends)
    bounds = ((TASK.euclidean(*ends), rule.euclidean), (geodesic, rule.geodesic), (50 - geodesic / 5, rule.margin))
    for found, (low, high) in bounds:
        assert low <= found.min() <= found.max() <= high
    assert evaluation.source_rows is not None
    assert evaluation.source_episodes is not None
    np.testing.assert_array_equal(logs.columns["state"][evaluation.source_rows[:, 0]], evaluation.starts)
    np.testing.assert_array_equal(logs.columns["episode_idx"][evaluation.source_rows], evaluation.source_episodes)
    assert len(np.unique(evaluation.source_rows)) == 2 * len(evaluation)


def test_the_default_set_needs_the_doorway_as_often_as_the_papers() -> None:
    assert TASK.sets == ("high-distance", "balanced", "distance-controlled", "distance-controlled-far")
    evaluation = TASK.evaluation_set("high-distance")
    assert TASK.layout.doorway_required(evaluation.starts, evaluation.goals).sum() == 47


def test_source_episodes_are_kept_out_of_pairs(logs: Logs) -> None:
    evaluation = TASK.evaluation_set("high-distance")
    latents = Latents(torch.from_numpy(logs.columns["state"]), logs)
    pairs = TemporalPairs(latents.without(evaluation), count=20_000, validation=2000)
    exclusion = pairs.record["exclusion"]
    assert evaluation.source_episodes is not None
    assert exclusion["excluded_episodes"] == len(np.unique(evaluation.source_episodes))
    assert (exclusion["overlapping_rows"], exclusion["overlapping_episodes"]) == (0, 0)
    used = set(logs.columns["episode_idx"][pairs.train.first.numpy()])
    assert not used & set(evaluation.source_episodes.ravel())
    leaky = TemporalPairs(latents, count=20_000, validation=2000)
    with pytest.raises(ReachcostError, match="high-distance"):
        Exclusion(logs, [evaluation]).prove(leaky.train.first.numpy(), leaky.train.second.numpy())


def test_sources_are_found_in_parts_and_copies_of_the_logs() -> None:
    evaluation = [TASK.evaluation_set("high-distance"), TASK.evaluation_set("balanced")]
    part = TASK.generate_logs(episodes=9000)
    latents = Latents(torch.from_numpy(part.columns["state"]), part)
    record = TemporalPairs(latents.without(evaluation), count=5000, validation=500).record["exclusion"]
    sources = np.concatenate([np.asarray(chosen.source_episodes).ravel() for chosen in evaluation])
    assert record["excluded_episodes"] >= len(np.unique(sources[sources < 9000]))
    assert len(record["evaluation_sets_sha256"]) == 2
    sampled = Logs({**part.columns, "note": np.zeros(part.rows)}, part.lengths)
    assert sampled.fingerprint == part.fingerprint


def test_a_changed_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    manifest = json.loads((FROZEN / "balanced.json").read_text())
    changes: list[dict[str, Any]] = [{**manifest, "logs_sha256": "other"}]
    for field in ("starts", "goals", "source_rows", "source_episodes"):
        changes.append(copy.deepcopy(manifest))
        changes[-1][field][3][0] += 1
    for changed in changes:
        path.write_text(json.dumps(changed))
        with pytest.raises(ReachcostError, match="changed"):
            read_evaluation_set(path, np.float32)
    subset = TASK.evaluation_set("balanced").subset(slice(3, 9))
    freeze(subset, path)
    assert read_evaluation_set(path, np.float32).fingerprint == subset.fingerprint


def test_frozen_sets_belong_to_the_public_layout() -> None:
    other = TwoRoom(Layout(wall="horizontal"))
    with pytest.raises(ReachcostError, match="sample_evaluation_set"):
        other.evaluation_set("high-distance")
    sampled = other.sample_evaluation_set("high-distance", other.generate_logs(episodes=2000), seed=0)
    across = other.layout.room(sampled.starts) != other.layout.room(sampled.goals)
    assert across.sum() == 50


def test_unknown_sets_and_too_few_logs_are_refused() -> None:
    with pytest.raises(ReachcostError, match="more episodes"):
        sample_set("high-distance", TASK.generate_logs(episodes=3), TASK.layout, 0)
    with pytest.raises(ReachcostError, match="'easy'"):
        TASK.evaluation_set("easy")
