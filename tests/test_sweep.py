"""Sweeps: a file of lists becomes a study, a plan and a table; a wrong file is refused before anything runs."""

import json
import re
import time
from pathlib import Path

import pytest

from reachcost.cli import main
from reachcost.commands.sweep import read_file, study_of_sweep
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import StudyRef, missing_of
from reachcost.experiments.cells.executors import Recordings
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.study import Study
from reachcost.experiments.sweep import LONGEST
from reachcost.planning.cem import CEM

from .small import contents

ROOT = Path(__file__).parent.parent
CORRIDOR = """
task = "tests.toy:Corridor"
models = ["tests.toy:Sketch"]
logs = {episodes = 100}
episodes = 2
"""
ROOM = 'task = "tworoom"\nmodels = ["lewm-tworoom-3072"]\n'
QUICK = """
[heads.trm]
labels = ["temporal", "stitched"]
pairs = 500
validation = 100
recipe = {epochs = 1, hidden = 8}
[planners.quick]
horizon = 4
candidates = [8, 16]
iterations = 1
elites = 4
"""
SMALLER = {
    "episodes = 20 ": "episodes = 2 ",
    "episodes = 2000": "episodes = 60",
    "epochs = 4": "epochs = 1, hidden = 8",
    "pairs = 50000": "pairs = 1000\nvalidation = 100",
    "candidates = 128\niterations = 5\nelites = 13": "candidates = 8\niterations = 1\nelites = 4",
    'like = "experienced"': 'like = "experienced"\ncandidates = 8\niterations = 1\nelites = 4',
    '"lewm-tworoom-3072", ': "",
    "seeds = [0, 1]": "seeds = [0]",
}
"""Changes that make the documented example take seconds."""


def study_of(text: str) -> Study:
    return study_of_sweep("sweep.toml", text, trust=True)


def documented() -> str:
    (text,) = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "sweeps.md").read_text(), re.DOTALL | re.MULTILINE)
    return text


def test_the_documented_example_runs_in_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = documented()
    for full, small in SMALLER.items():
        assert full in text
        text = text.replace(full, small)
    (tmp_path / "sweep.toml").write_text(text)
    command = ["sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "out")]
    assert main([*command, "--plan"]) == 0
    assert re.search(r"sweep +heads +0 +3 ", capsys.readouterr().out)
    assert not (tmp_path / "out").exists()
    page = tmp_path / "sweep.html"
    assert main([*command, "--report", str(page)]) == 0
    assert str(page) in capsys.readouterr().out.replace("\n", "")
    assert all(text in page.read_text() for text in ("reachcost sweep sweep.toml", "trm-stitched", '"episodes":[{'))
    table = json.loads((tmp_path / "out" / "tables" / "sweep.json").read_text())
    assert [(row["cost"], row.get("setting")) for row in table["rows"]] == [
        *((cost, planner) for planner in ("paper", "logs") for cost in COSTS),
        ("oracle", None),
        ("random", None),
    ]
    assert {"success", "steps", "rho_geo", "rank", "same_room", "cross_wall"} == {*table["rows"][0]["ours"]}
    assert table["rows"][0]["interval"]["success"]
    assert "Made by `reachcost sweep sweep.toml`." in (tmp_path / "out" / "tables" / "sweep.md").read_text()


COSTS = ("raw", "trm-temporal", "trm-stitched", "shuffled", "trm-temporal-hybrid")


def test_the_documented_errors_are_printed() -> None:
    promised = re.findall(r"^reachcost: (.*)$", (ROOT / "docs" / "sweeps.md").read_text(), re.MULTILINE)
    with pytest.raises(ReachcostError) as misspelled:
        study_of(documented().replace('"stitched"]', '"stiched"]'))
    with pytest.raises(ReachcostError) as untrusted:
        study_of_sweep("stranger.toml", 'task = "maze.py:Maze"\nmodels = ["lewm-tworoom-3072"]')
    assert [str(misspelled.value), str(untrusted.value)] == promised


@pytest.mark.slow
def test_workers_make_the_same_sweep(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(CORRIDOR + "budgets = [4]\n" + QUICK)
    for out, where in (("here", ()), ("local", ("--on", "local", "--workers", "2"))):
        assert main(["sweep", str(tmp_path / "keys.toml"), "--trust", "--out", str(tmp_path / out), *where]) == 0
    assert contents(tmp_path / "local") == contents(tmp_path / "here")


def test_lists_are_combined_and_named_by_what_varies() -> None:
    study = study_of(CORRIDOR + QUICK + "[heads.paper]\nrecipe = 'paper'\n")
    assert [*study.heads] == ["trm-temporal", "trm-stitched", "paper"]
    assert study.heads["trm-stitched"].labels == "stitched"
    assert study.heads["paper"].recipe.epochs == 20
    varied = "[heads.trm]\nrecipe = {like = 'paper', epochs = [1, 2], hidden = [8]}\nexclude = [true, false]\n"
    heads = study_of(CORRIDOR + varied).heads
    assert [*heads] == ["trm-1-true", "trm-1-false", "trm-2-true", "trm-2-false"]
    assert (heads["trm-2-false"].recipe.epochs, heads["trm-2-false"].recipe.hidden) == (2, 8)


def test_every_set_and_budget_has_its_references(tmp_path: Path) -> None:
    text = ROOM + 'sets = ["high-distance", "balanced"]\nbudgets = [20, 50]\nlogs = {episodes = 5}\n'
    request = TableRequest("sweep", StudyRef(study_of_sweep, ("sweep.toml", text)))
    missing = missing_of(request.cells(Recordings(tmp_path)))
    assert {path.name for path in missing if "oracle" in path.name or "random" in path.name} == {
        *(f"lewm-tworoom-3072-0-{name}-oracle" for name in ("high-distance", "balanced")),  # the pools
        *(
            f"lewm-tworoom-3072-0-{name}-{cost}-budget{budget}"
            for name in ("high-distance", "balanced")
            for budget in (20, 50)
            for cost in ("oracle", "random")
        ),
    }


def test_planners_change_presets() -> None:
    assert study_of(ROOM).planner == CEM()
    study = study_of(ROOM + "[planners.a]\nlike = 'replanning'\ncandidates = 50\nbounds = [[-1, 1]]\n")
    assert study.planner == CEM.replanning(candidates=50, bounds=(-1, 1))


HEAD = "[heads.trm]\n"
MANY = f"pairs = {[*range(2, 82)]}\nvalidation = {[*range(2, 82)]}"
NUL = "a\\u0000b"
UNSAFE = ("..", ".", "", "a/b", "../a", "/a", "a\\b", ".a", " ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("task = ", "sweep.toml is not TOML (Invalid value"),
        ("task = 'tworoom'", "sweep.toml: `models` is missing"),
        (CORRIDOR + "modls = ['a']", "there is no `modls`: did you mean models"),
        (CORRIDOR + "seeds = 'a'", "sweep.toml: seeds is 'a', should be"),
        (CORRIDOR + "seeds = []", "sweep.toml: seeds is [], Tuple should have at least 1 item"),
        (CORRIDOR + "hybrids = [0.0, 0.0]", "sweep.toml: hybrids holds 0.0 twice: leave one of them out"),
        (CORRIDOR + f"seeds = [{'1' * 5000}]", "sweep.toml is not TOML (Exceeds the limit (4300 digits)"),
        (CORRIDOR + f"seeds = [0x{'f' * 5000}]", "sweep.toml: seeds holds a number of 20000 bits: give"),
        (CORRIDOR + "seeds = [0b1" + "0" * 32 + "]", "seeds holds 4294967296: give a number of at most 4,294,967,295"),
        (CORRIDOR + "budgets = [1_000_001]", "budgets holds 1000001: give a number of at most 1,000,000"),
        (CORRIDOR + "seeds = [0, -1]", "sweep.toml: seeds[1] is -1"),
        (CORRIDOR + "sets = 1979-05-27", "sweep.toml: sets holds 1979-05-27, a date or time"),
        (CORRIDOR + HEAD + "imagination = {block = 2}", "heads.trm.imagination: there is no `block`"),
        (CORRIDOR.replace("Corridor", "Corridors"), "sweep.toml: task: tests.toy has no 'Corridors'"),
        (CORRIDOR + "sets = ['before']", "corridor has no set 'before': choose among beyond"),
        (CORRIDOR + "costs = ['oracle']", "costs holds 'oracle': leave it out, it is always there"),
        (CORRIDOR + "[heads.raw]", "heads.raw has the name of a built-in cost"),
        (
            CORRIDOR + HEAD + "labels = ['temporal', 'stitched']\n[heads.trm-temporal]",
            "heads.trm-temporal makes 'trm-temporal', as trm did",
        ),
        (
            CORRIDOR + "hybrids = [0.5, 0.50000001]\n" + HEAD,
            "hybrids holds 0.50000001, but there is another 'trm-hybrid-0.5': give weights that differ in six digits",
        ),
        (CORRIDOR + HEAD + "pairs = 'many'", "sweep.toml: heads.trm: pairs is 'many'"),
        (CORRIDOR + HEAD + "pairs = []", "sweep.toml: heads.trm: pairs is empty: give one or more, or leave it out"),
        (CORRIDOR + HEAD + "sampling = 'odd'", "heads.trm: sampling is 'odd': give one of balanced"),
        (CORRIDOR + HEAD + "labels = 'oracle'\nmax_gap = 3", "sweep.toml: heads.trm: oracle labels are of any two"),
        (CORRIDOR + HEAD + "recipe = 3", "sweep.toml: heads.trm.recipe is 3: give one of ours, paper, or a table"),
        (CORRIDOR + HEAD + "recipe = {epochs = -1}", "heads.trm.recipe: recipe: epochs is -1: make it positive"),
        (CORRIDOR + "[planners.a]\nlike = 'mppi'", "sweep.toml: planners.a: like is 'mppi': give one of paper, exp"),
        (CORRIDOR + "[planners.a]\ncandidates = 1", "sweep.toml: planners.a: CategoricalCEM"),
        *((CORRIDOR + f"name = '{name}'", f"sweep.toml: {name!r} cannot be the name of a file") for name in UNSAFE),
        (CORRIDOR + "[heads.'a/b']", "sweep.toml: 'a/b' cannot be the name of a file"),
        (CORRIDOR + f"name = '{'a' * 201}'", "cannot be the name of a file: choose a name of at most 200"),
        (CORRIDOR + f'name = "{NUL}"', "sweep.toml: name holds 'a\\x00b': leave out"),
        (CORRIDOR.replace("tests.toy:Sketch", "a" * 256), "of 256 characters: give at most 1000"),
        (CORRIDOR + f"[heads.a]\n{MANY}\n[heads.b]\n{MANY}", "heads.b makes 12,800 of them: give at most 10,000"),
        (
            CORRIDOR + f"hybrids = {[*range(2000)]}\n[heads.a]\n{MANY}",
            "hybrids makes 12,800,000 costs: ask for at most",
        ),
        (CORRIDOR + f"budgets = {[*range(1, 500)]}\nseeds = {[*range(500)]}", "asks for 249,500 closed loops: ask for"),
    ],
)
def test_a_wrong_file_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ReachcostError) as refused:
        study_of(text)
    assert sentence in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_runs_whose_names_no_file_can_have_are_refused_before_they_are_computed(tmp_path: Path) -> None:
    study = StudyRef(study_of_sweep, ("sweep.toml", f"{ROOM}logs = {{episodes = 5}}\n[heads.{'a' * 200}]"))
    with pytest.raises(ReachcostError, match="name of a directory"):
        TableRequest("sweep", study).cells(Recordings(tmp_path))


@pytest.mark.parametrize("words", ["a" * 65_000, "a " * 32_000, "a.a" + " " * 65_000, ("a." * 31 + "!") * 1000])
def test_every_file_is_refused_quickly(words: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ReachcostError, match="TOML"):
        study_of(words)
    assert time.monotonic() - begun < 5


def test_a_long_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text("#" * 10**6)
    assert len(read_file(tmp_path / "sweep.toml")) == LONGEST + 1
    with pytest.raises(ReachcostError, match="longer"):
        study_of(read_file(tmp_path / "sweep.toml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CORRIDOR.replace("Sketch", "Etch"), "sweep.toml: models: tests.toy has no 'Etch'"),
        (CORRIDOR.replace("{episodes = 100}", "{episoden = 100}"), "sweep.toml: logs failed (TypeError: "),
        (CORRIDOR.replace("{episodes = 100}", "'none.h5'"), "sweep.toml: logs: "),
    ],
)
def test_names_that_are_not_found_are_refused(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "sweep.toml", "--trust"]) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not [*(tmp_path / "sweeps").rglob("manifest.json")]


def test_an_impossible_out_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(CORRIDOR)
    assert main(["sweep", str(file), "--trust", "--out", str(file)]) == 1
    assert "sweep.toml is a file: choose another --out, a directory" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tmp_path / "none.toml")]) == 1
    assert "none.toml cannot be read (No such file or directory): name a TOML file" in capsys.readouterr().err
