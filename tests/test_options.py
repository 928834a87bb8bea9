"""Tasks and models of users as options of commands: by name, module or file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import reachcost as rc
from reachcost.cli import main
from reachcost.commands.options import evaluation_option, logs_option, model_option, task_option
from reachcost.errors import ReachcostError
from reachcost.tasks import registry
from reachcost.tasks.compatibility import require_logs_of

OWN = """
import numpy as np
import reachcost as rc


class Ring(rc.Task):
    name, action_budget, discrete_actions, sets = "ring", 12, 3, ("all",)

    def __init__(self, size: int = 12):
        self.size = size

    def step(self, states, actions):
        return (states + actions - 1) % self.size

    def observe(self, states):
        return {"state": states}

    def success(self, states, goals):
        return (states == goals)[:, 0]

    def distance(self, states, goals):
        apart = np.abs(states - goals)[:, 0]
        return np.minimum(apart, self.size - apart)

    def generate_logs(self, episodes, seed=0):
        rng, rows = np.random.default_rng(seed), 10
        moves = rng.integers(3, size=(episodes, rows, 1))
        here = rng.integers(self.size, size=(episodes, 1, 1)) + np.cumsum(moves - 1, axis=1) - (moves - 1)
        columns = {"state": (here % self.size).reshape(-1, 1), "action": moves.reshape(-1, 1)}
        return rc.Logs(columns, np.full(episodes, rows))

    def evaluation_set(self, name):
        return rc.EvaluationSet(np.array([[0], [1]]), np.array([[5], [8]]), name)


class Half(rc.Task):
    name, action_budget = "half", 3

    def step(self, states, actions):
        return states


class Broken(Ring):
    def step(self, states, actions):
        return states / 2


def exact(task):
    return rc.tasks.ExactDynamics(task)


def of_logs(logs):
    return rc.tasks.ExactDynamics(Ring(), example=logs.columns["state"][:1])


def perhaps(task=None, logs=None):
    return rc.tasks.ExactDynamics(Ring() if task is None else task)


def nothing():
    return 7


def failing():
    raise KeyError("weights")


READY, NUMBER = Ring(), 7
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Working directory with a custom task and models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    (tmp_path / "own_world.py").write_text(OWN)
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith("own_"):
            del sys.modules[name]


@pytest.mark.parametrize("where", ["own_world", "own_world.py", "./own_world.py", "{here}/own_world.py"])
def test_tasks_and_models_of_one_file_share_a_module(own: Path, where: str) -> None:
    where = where.format(here=own)
    task = task_option(f"{where}:Ring")
    assert (task.name, type(task).__name__) == ("ring", "Ring")
    assert task_option(f"{where}:READY").name == "ring"
    model = model_option(f"{where}:exact", task=task)
    assert isinstance(model, rc.tasks.ExactDynamics)
    assert model.task is task
    assert type(model_option(f"{where}:perhaps").task) is type(task)  # pyright: ignore[reportAttributeAccessIssue]
    assert type(model_option(f"{where}:of_logs", logs=task.generate_logs(2)).task) is type(task)  # pyright: ignore[reportAttributeAccessIssue]


def test_wrong_names_are_explained(own: Path) -> None:
    (own / "own_broken.py").write_text("import nowhere_to_be_found")
    tasks = {
        "mars": "'mars'.*tworoom, toponav",
        "own_word:Ring": "'own_word'",
        "own_word.py:Ring": "own_word.py",
        "own_world.py:Rang": "'Rang'.*Ring, Half, Broken, exact",
        "own_broken:Ring": "nowhere_to_be_found",
        "own_broken.py:Ring": "ModuleNotFoundError",
        "own_world.py:NUMBER": "NUMBER is a int",
        "reachcost.data.latents:Tensor": "latents:Tensor is a",
        "own_world.py:nothing": "own_world.py:nothing.* 7",
        "own_world.py:Half": "abstract class Half",
        "own_world.py:Broken": "float64 .* int64",
    }
    for text, message in tasks.items():
        with pytest.raises(ReachcostError, match=message):
            task_option(text)
    with pytest.raises(ReachcostError, match="pixels"):
        task_option("own_world.py:Ring", pixels=8)
    models = {
        "own_world.py:exact": "--task",
        "own_world.py:nothing": "latent_dim, action_dim, encode, rollout",
        "own_world.py:failing": "KeyError: 'weights'",
    }
    for text, message in models.items():
        with pytest.raises(ReachcostError, match=message):
            model_option(text)


def test_a_mistyped_path_does_not_query_the_hub(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "reachcost.core.repositories.HuggingFace.download", lambda *ignored: pytest.fail("asked the hub")
    )
    with pytest.raises(ReachcostError, match="hf://runs/modle"):
        model_option("runs/modle")


def test_evaluation_sets_by_name(own: Path) -> None:
    task = task_option("own_world:Ring")
    assert evaluation_option(task, None).name == "all"
    with pytest.raises(ReachcostError, match="some"):
        evaluation_option(task, "some")
    task.sets = ()
    with pytest.raises(ReachcostError, match="`sets`"):
        evaluation_option(task, None)


@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")  # so few logs make no good head
def test_commands_accept_custom_tasks_and_models(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "generate", "own_world.py:Ring", "--episodes", "60", "--out", "ring.h5"]) == 0
    named = ["--task", "own_world.py:Ring", "--logs", "ring.h5"]
    assert main(["check", "own_world.py:exact", *named]) == 0
    assert "contract" in capsys.readouterr().out
    model = ["--model", "own_world.py:exact", *named]
    assert main(["fit", *model, "--pairs", "500", "--out", "head"]) == 0
    assert rc.load_head("head").latent_dim == 1
    assert main(["fit", *model[:2], "--logs", "ring.h5", "--out", "other"]) == 1
    assert "`task`" in capsys.readouterr().err
    assert not Path("other").exists()


WRONG = {
    "states": ({"state": np.zeros((8, 3))}, "hold states [3], but those of ring are [1]: give logs of this world"),
    "actions": (
        {"state": np.zeros((8, 1)), "action": np.array([[0], [5], [0], [9]] * 2)},
        "hold the action 5, but those of ring are the whole numbers 0 to 2: log the index of each action",
    ),
    "halves": (
        {"state": np.zeros((8, 1)), "action": np.full((8, 1), 0.4)},
        "hold the action 0.4, but those of ring are the whole",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_logs_of_another_world_are_refused_before_training(
    kind: str, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, message = WRONG[kind]
    rc.write_logs(rc.Logs(columns, np.array([4, 4])), "wrong.h5")
    given = ["--task", "own_world.py:Ring", "--model", "own_world.py:exact", "--logs", "wrong.h5"]
    for command in (["fit", *given, "--out", "head"], ["audit", *given], ["compare", "head", *given]):
        rc.save_head(rc.heads.PairHead(1), "head") if command[0] == "compare" else None
        assert main(command) == 1
        assert f"wrong.h5: the logs {message}" in capsys.readouterr().err


def test_logs_with_other_dynamics_give_a_warning(own: Path) -> None:
    ring = task_option("own_world.py:Ring")
    logs = ring.generate_logs(20)
    require_logs_of(ring, logs)
    backwards = rc.Logs({**logs.columns, "action": 2 - logs.columns["action"]}, logs.lengths)
    with pytest.warns(rc.ReachcostWarning, match="ring"):
        require_logs_of(ring, backwards)


def test_logs_of_any_world_are_accepted_without_a_task(own: Path) -> None:
    columns = {"state": np.zeros((4, 9)), "pixels": np.zeros((4, 8, 8, 3), np.uint8)}
    rc.write_logs(rc.Logs(columns, np.array([4])), "frames.h5")
    assert logs_option(Path("frames.h5"), task_option(None), named=False).rows == 4
    with pytest.raises(ReachcostError, match=r"frames.h5.* \[9\].* \[2\]"):
        logs_option(Path("frames.h5"), task_option(None))


def test_models_without_support_in_stable_worldmodel_are_refused_first(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--task", "own_world.py:Ring", "--model", "own_world.py:perhaps"]
    assert main(["evaluate", *given, "--head", "none"]) == 1
    assert "ExactDynamics" in capsys.readouterr().err


def test_registered_tasks_have_names(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    ring = type(task_option("own_world:Ring"))
    rc.tasks.register_task("ring", ring)
    assert rc.make_task("ring", size=5).step(np.array([[4]]), np.array([[2]])).tolist() == [[0]]
    assert task_option("ring").name == "ring"
    rc.tasks.register_task("ring", lambda **options: ring(**options))
    assert type(rc.make_task("ring", size=6)) is ring
    with pytest.raises(ReachcostError, match="rang"):
        rc.make_task("rang")
    with pytest.raises(ReachcostError, match="tworoom"):
        rc.tasks.register_task("tworoom", ring)
    with pytest.raises(ReachcostError, match="seven"):
        rc.tasks.register_task("seven", 7)  # pyright: ignore[reportArgumentType]
