"""From a checkpoint and a dataset of stable-worldmodel to a head, and to a table of its own `World.evaluate`."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from reachcost.cli import main
from reachcost.data.evaluation import logged_goals
from reachcost.data.logs import Logs
from reachcost.data.logs_files import open_logs
from reachcost.heads.kinds import PairHead
from reachcost.heads.storage import load_head, save_head
from reachcost.swm.evaluation import change_of, import_stable_worldmodel, row_of, silence, warning_of
from reachcost.tasks.tworoom import TwoRoom
from tests.swm.test_public_checkpoints import config_tree, save

FEW = ("--episodes", "2", "--candidates", "8", "--iterations", "1")


@pytest.fixture(scope="module", params=["hdf5", "lance"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes that their own world collected."""
    swm = import_stable_worldmodel()
    from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy

    path = tmp_path_factory.mktemp("data") / {"hdf5": "tworoom.h5", "lance": "tworoom.lance"}[request.param]
    with silence():
        world = swm.World("swm/TwoRoom-v1", num_envs=2, image_shape=(64, 64), max_episode_steps=30)
        world.set_policy(ExpertPolicy(action_noise=2.0, seed=1))
        world.collect(path, episodes=8, seed=0, format=request.param, progress=False)
        world.close()
    return path


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LeWM as they save it."""
    return save(config_tree(), tmp_path_factory.mktemp("home"), "lewm-small")[1]


@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")  # few pairs, untrained weights
def test_a_checkpoint_and_a_dataset_become_a_head_and_a_table(
    checkpoint: Path, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, out = tmp_path / "head", tmp_path / "results"
    given = ["--model", str(checkpoint), "--logs", str(dataset)]
    assert main(["fit", *given, "--task", "tworoom", "--pairs", "500", "--out", str(head)]) == 0
    assert load_head(head).latent_dim == 24
    capsys.readouterr()
    assert main(["evaluate", *given, "--head", str(head), *FEW, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "the repair changes success by" in printed
    assert "solve" not in printed.lower()  # their solvers print how long they took
    assert "note:" not in printed  # fit kept the evaluation sets out
    table = json.loads((out / "tables" / "stable-worldmodel-high-distance.json").read_text())
    assert [(row["cost"], row["n"]) for row in table["rows"]] == [("raw", 2), ("repaired", 2), ("random", 2)]
    assert table["head"]["pairs"]["logs_sha256"] == open_logs(dataset).fingerprint


@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")
def test_goals_can_come_from_a_dataset(
    checkpoint: Path, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = tmp_path / "head"
    given = ["--model", str(checkpoint), "--logs", str(dataset)]
    assert main(["fit", *given, "--pairs", "500", "--out", str(head)]) == 0
    evaluate = ["evaluate", *given, "--head", str(head), *FEW, "--goal-offset", "10"]
    out, control = tmp_path / "results", tmp_path / "control"
    assert main(["fit", *given, "--pairs", "500", "--shuffled", "--out", str(control)]) == 0
    shuffled = ["evaluate", *given, "--head", str(control), *FEW]
    assert main([*shuffled, "--held-out", str(dataset), "--goal-offset", "10"]) == 0
    assert "shuffled " in capsys.readouterr().out.partition("episodes of")[2]
    assert main([*evaluate, "--held-out", str(dataset), "--weight", "0.5", "--out", str(out)]) == 0
    warning = "the head was fitted on 2 episodes that hold these goals, which flatters it"
    assert f"note: {warning}" in " ".join(capsys.readouterr().out.split())
    table = json.loads((out / "tables" / "stable-worldmodel-offset-10-hybrid-0.5.json").read_text())
    assert (table["doubt"], table["weight"]) == (warning, 0.5)
    assert [row["cost"] for row in table["rows"]] == ["raw", "hybrid", "random"]
    assert main([*evaluate, "--held-out", str(dataset), "--weight", "0.5", "--out", str(out)]) == 1
    assert "exists already: choose another --out" in " ".join(capsys.readouterr().err.split())
    unseen = tmp_path / "unseen.h5"
    assert main(["logs", "generate", "tworoom", "--episodes", "20", "--seed", "9", "--out", str(unseen)]) == 0
    assert main([*evaluate, "--held-out", str(unseen)]) == 0
    assert "note:" not in capsys.readouterr().out
    for options, named in (
        (["--held-out", str(unseen), "--goal-offset", "1000"], "only 0 episodes last longer than 1000 steps"),
        ([], "--goal-offset 10 requires a dataset"),
        (["--held-out", str(unseen), "--evaluation", "balanced"], "give one"),
    ):
        assert main([*evaluate, *options]) == 1
        assert named in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["toponav", "maze"])
def test_a_world_that_the_package_lacks_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_head(PairHead(192, hidden=4), tmp_path / "head")
    named = ["--model", "lewm-tworoom-3072", "--head", str(tmp_path / "head"), "--task", name]
    assert main(["evaluate", *named]) == 1
    assert repr(name) in capsys.readouterr().err


def test_a_head_that_may_have_seen_the_goals_has_a_warning(dataset: Path) -> None:
    task, logs = TwoRoom(), open_logs(dataset)
    goals = logged_goals(logs, offset=5, count=3)
    assert goals.source_rows is not None
    assert np.array_equal(goals.starts, logs.columns["state"][goals.source_rows[:, 0]])
    assert (np.diff(goals.source_rows) == 5).all()
    assert len(np.unique(logs.episode_of(goals.source_rows))) == 3  # one from each episode

    head = PairHead(8, hidden=4)
    head.record = {"pairs": {"logs_sha256": logs.fingerprint}}
    assert "give the --logs" in str(warning_of(head, goals, None))
    assert "it was not fitted on these --logs" in str(warning_of(head, goals, task.generate_logs(5)))
    assert "which flatters it" in str(warning_of(head, goals, logs))
    assert warning_of(head, logged_goals(task.generate_logs(5, seed=3), 5, 3), logs) is None
    precise = Logs({"state": logs.columns["state"].astype(np.float64) + 1e-12}, logs.lengths)
    head.record = {"pairs": {"logs_sha256": precise.fingerprint}}
    assert "which flatters it" in str(warning_of(head, goals, precise))  # the same episodes, stored more precisely


class Grouped(TwoRoom):
    """Groups whose names begin alike, with each other and with the total."""

    def groups(self, starts: np.ndarray, goals: np.ndarray) -> Mapping[str, np.ndarray]:
        names = ("far left", "far right", "near", "success by chance", "success")
        return {name: np.arange(len(starts)) == number for number, name in enumerate(names)}


def test_groups_with_the_same_first_word_have_separate_columns() -> None:
    task, success = Grouped(), np.array([True, False, True, False, True, False])
    row = row_of(task, "raw", "lewm", 0, success, task.evaluation_set("high-distance").spread(6))
    assert (row.ours["success"], row.ours["near"]) == (50, 100)
    others = ("far left", "far right", "success by chance", "success")
    assert [row.ours[f"success of {name}"] for name in others] == [100, 0, 0, 100]
    assert row.interval.keys() == row.ours.keys()
    assert len(row.ours) == 6


@pytest.mark.parametrize("name", ["high-distance", "offset-25"])
def test_published_comparisons_equal_their_outcomes(name: str) -> None:
    tables = Path(__file__).parents[2] / "results" / "tables"
    table = json.loads((tables / f"stable-worldmodel-{name}.json").read_text())
    outcomes = {cost: np.array(found, bool) for cost, found in table["outcomes"].items()}
    change = change_of(outcomes["raw"], outcomes["repaired"])
    assert table["change"] == change
    low, high = change["interval"]
    note = (tables / f"stable-worldmodel-{name}.md").read_text()
    assert f"{change['points']:+.1f} points [{low:+.1f}, {high:+.1f}]" in note
    assert table["doubt"] is None
    if name == "high-distance":
        goals = TwoRoom().evaluation_set(name)
        assert table["evaluation_set_sha256"] == goals.fingerprint
        rows = [
            row_of(TwoRoom(), cost, "lewm-tworoom-3072", 0, found, goals).as_json() for cost, found in outcomes.items()
        ]
        assert table["rows"] == rows
