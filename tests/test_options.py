"""What commands may be told: worlds and models of one's own, by name, module or file."""

from __future__ import annotations

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
    """A directory with a world of one's own, in which commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    (tmp_path / "own_world.py").write_text(OWN)
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith("own_"):
            del sys.modules[name]


@pytest.mark.parametrize("where", ["own_world", "own_world.py", "./own_world.py", "{here}/own_world.py"])
def test_tasks_and_models_of_a_file_belong_together(own: Path, where: str) -> None:
    where = where.format(here=own)
    task = task_option(f"{where}:Ring")
    assert (task.name, type(task).__name__) == ("ring", "Ring")
    assert task_option(f"{where}:READY").name == "ring"
    model = model_option(f"{where}:exact", task=task)
    assert isinstance(model, rc.tasks.ExactDynamics)
    assert model.task is task
    assert type(model_option(f"{where}:perhaps").task) is type(task)  # pyright: ignore[reportAttributeAccessIssue]
    assert type(model_option(f"{where}:of_logs", logs=task.generate_logs(2)).task) is type(task)  # pyright: ignore[reportAttributeAccessIssue]


def test_mistakes_in_names_get_one_sentence(own: Path) -> None:
    (own / "own_broken.py").write_text("import nowhere_to_be_found")
    tasks = {
        "mars": "unknown task 'mars': choose one of tworoom, toponav.*, or name a custom one as module:Class",
        "own_word:Ring": "there is no module 'own_word', neither installed nor in .*: check its name, or give the file",
        "own_word.py:Ring": "there is no file own_word.py: check the path before the colon",
        "own_world.py:Rang": "own_world.py has no 'Rang': it defines Ring, Half, Broken, exact",
        "own_broken:Ring": r"own_broken failed \(ModuleNotFoundError: No module named 'nowhere_to_be_found'\): fix it",
        "own_broken.py:Ring": r"own_broken.py failed \(ModuleNotFoundError",
        "own_world.py:NUMBER": "own_world.py:NUMBER is a int: name a class, or a function that makes one",
        "reachcost.data.latents:Tensor": "reachcost.data.latents:Tensor is a .*: name a class, or a function",
        "own_world.py:nothing": "'own_world.py:nothing' is made as 7: return an instance of a subclass",
        "own_world.py:Half": r"cannot be made \(Can't instantiate abstract class Half .*\): see reachcost.Task",
        "own_world.py:Broken": "step made float64 .* of int64 .*: return states of the same kind",
    }
    for text, message in tasks.items():
        with pytest.raises(ReachcostError, match=message):
            task_option(text)
    with pytest.raises(ReachcostError, match=r"'own_world.py:Ring' has no option pixels: it has size"):
        task_option("own_world.py:Ring", pixels=8)
    models = {
        "own_world.py:exact": "own_world.py:exact asks for `task`, and there is none: give --task",
        "own_world.py:nothing": "makes a int without latent_dim, action_dim, encode, rollout: see reachcost.WorldModel",
        "own_world.py:failing": r"own_world.py:failing failed \(KeyError: 'weights'\): fix it",
    }
    for text, message in models.items():
        with pytest.raises(ReachcostError, match=message):
            model_option(text)


def test_a_mistyped_path_is_no_question_to_the_hub(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.core.hub.HuggingFace.download", lambda *ignored: pytest.fail("asked the hub"))
    with pytest.raises(
        ReachcostError, match=r"runs/modle: there is no such directory.* or write hf://runs/modle for one"
    ):
        model_option("runs/modle")


def test_evaluation_sets_are_named_or_told(own: Path) -> None:
    task = task_option("own_world:Ring")
    assert evaluation_option(task, None).name == "all"
    with pytest.raises(ReachcostError, match="ring has no evaluation set 'some': choose one of all"):
        evaluation_option(task, "some")
    task.sets = ()
    with pytest.raises(ReachcostError, match="the task 'ring' has no evaluation sets: give it `sets` and"):
        evaluation_option(task, None)


@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")  # so few logs make no good head
def test_commands_take_a_world_and_a_model_of_one_s_own(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "generate", "own_world.py:Ring", "--episodes", "60", "--out", "ring.h5"]) == 0
    named = ["--task", "own_world.py:Ring", "--logs", "ring.h5"]
    assert main(["check", "own_world.py:exact", *named]) == 0
    assert "contract" in capsys.readouterr().out
    model = ["--model", "own_world.py:exact", *named]
    assert main(["fit", *model, "--pairs", "500", "--out", "head"]) == 0
    assert rc.load_head("head").latent_dim == 1
    assert main(["fit", *model[:2], "--logs", "ring.h5", "--out", "other"]) == 1
    assert "asks for `task`, and there is none: give --task" in capsys.readouterr().err
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
def test_logs_of_another_world_are_refused_before_anything_is_learned(
    kind: str, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, message = WRONG[kind]
    rc.write_logs(rc.Logs(columns, np.array([4, 4])), "wrong.h5")
    given = ["--task", "own_world.py:Ring", "--model", "own_world.py:exact", "--logs", "wrong.h5"]
    for command in (["fit", *given, "--out", "head"], ["audit", *given], ["compare", "head", *given]):
        rc.save_head(rc.heads.PairHead(1), "head") if command[0] == "compare" else None
        assert main(command) == 1
        assert f"wrong.h5: the logs {message}" in capsys.readouterr().err


def test_steps_that_lead_elsewhere_are_warned_of(own: Path) -> None:
    ring = task_option("own_world.py:Ring")
    logs = ring.generate_logs(20)
    require_logs_of(ring, logs)
    backwards = rc.Logs({**logs.columns, "action": 2 - logs.columns["action"]}, logs.lengths)
    with pytest.warns(
        rc.ReachcostWarning, match="do not lead in ring where they led in the logs: are they logs of this"
    ):
        require_logs_of(ring, backwards)


def test_frames_of_any_world_train_a_model_where_no_task_is_named(own: Path) -> None:
    columns = {"state": np.zeros((4, 9)), "pixels": np.zeros((4, 8, 8, 3), np.uint8)}
    rc.write_logs(rc.Logs(columns, np.array([4])), "frames.h5")
    assert logs_option(Path("frames.h5"), task_option(None), named=False).rows == 4
    with pytest.raises(ReachcostError, match=r"frames.h5: the logs hold states \[9\], but those of tworoom are \[2\]"):
        logs_option(Path("frames.h5"), task_option(None))


def test_models_that_stable_worldmodel_cannot_plan_with_are_told_first(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--task", "own_world.py:Ring", "--model", "own_world.py:perhaps"]
    assert main(["evaluate", *given, "--head", "none"]) == 1
    assert "own_world.py:perhaps is a ExactDynamics, not a JEPA: evaluate it in Python" in capsys.readouterr().err


def test_registered_tasks_have_names(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    ring = type(task_option("own_world:Ring"))
    rc.tasks.register_task("ring", ring)
    assert rc.make_task("ring", size=5).step(np.array([[4]]), np.array([[2]])).tolist() == [[0]]
    assert task_option("ring").name == "ring"
    rc.tasks.register_task("ring", lambda **options: ring(**options))
    assert type(rc.make_task("ring", size=6)) is ring
    with pytest.raises(ReachcostError, match="unknown task 'rang': choose one of tworoom, toponav, pusht, ring"):
        rc.make_task("rang")
    with pytest.raises(ReachcostError, match="the task 'tworoom' comes with reachcost: choose another name"):
        rc.tasks.register_task("tworoom", ring)
    with pytest.raises(ReachcostError, match="cannot register 7 as 'seven': give a name, and a class or function"):
        rc.tasks.register_task("seven", 7)  # pyright: ignore[reportArgumentType]
