"""Reports: their panels, the reasons for missing ones, and files from untrusted sources."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reachcost as rc
from reachcost.audits.audit import read_audit, write_audit
from reachcost.audits.stage import apply_rule
from reachcost.audits.stages import RULES
from reachcost.audits.stages import ranking as ranking_stage
from reachcost.cli import main
from reachcost.core.files import sha256_of
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import StudyRef
from reachcost.experiments.cells.schedule import TableRequest
from reachcost.experiments.rows import RowPlan
from reachcost.experiments.tables import TablePlan, plain_rows
from reachcost.heads.storage import write_head
from reachcost.report.collector import scene_of
from reachcost.report.drawing import SceneParts, draw_audit, draw_scene
from reachcost.report.material import Loop, Material, Training, loops_of
from reachcost.report.scene import Scene, read_scene, scene_file
from reachcost.report.success import SuccessRate, repairs
from reachcost.results.records import read_run
from reachcost.results.tables import ResultTable
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_tools.faults.formats.records import made_audit
from tests.cells import made_run
from tests.reports import COSTS, Ring, made_table, ring_latents, ring_runs, straight_runs
from tests.small import STUDIES

HOSTILE = "</script><img src=x onerror=alert(1)>&lt;\x1b[31m\u202e[bold]"
RANKS = np.array([[3.0, 1.0, 2.0]])
POOL = {"candidates": 8, "candidate_horizon": 2, "candidate_seed": 5}


@pytest.fixture(scope="module")
def scene(world: rc.tasks.TwoRoom, lewm: JepaWorldModel) -> Scene:
    runs = straight_runs(world, world.evaluation_set("high-distance").spread(4))
    return draw_scene(SceneParts(world, lewm, COSTS, runs))


def words(page: str) -> str:
    """What a reader sees."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page.partition("<body>")[2], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_a_page_shows_every_panel(scene: Scene, head: rc.heads.LearnedHead) -> None:
    rankings = rc.results.compare_rankings({"raw": -RANKS, "head": RANKS}, RANKS)
    sasc = rc.audits.SascAudit(np.arange(1), {}, RANKS, rankings)
    page = rc.Report(made_audit(), made_table(), sasc, head, scene).html()
    shown = words(page)
    assert "buries good candidates" in shown
    assert "Verdict: ranking" in shown
    assert "Repaired here: head reaches 100 %." in shown
    assert "raw latent distance 25 %" in shown
    assert "oracle reference 100 %" in shown
    assert "≥ 0.6" in shown
    assert "few episodes" in shown
    assert "reachcost reproduce made" in shown
    for panel in ("replay", "success", "stages", "ranking", "fields", "learning", "tables", "provenance"):
        assert f'id="{panel}"' in page
    assert "cannot" not in re.findall(r'class="([^"]*)"', page)
    assert "temporal" in shown  # the labels of the head


def test_headings_are_nested_and_tables_have_header_cells(scene: Scene) -> None:
    page = rc.Report(made_audit(), made_table(), scene).html()
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.count("<table") == page.count("<thead")
    assert "<th>" not in page
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len({*ids})


def test_episodes_that_only_the_second_cost_solves_come_first(scene: Scene) -> None:
    assert [[replay.reached for replay in episode.replays] for episode in scene.episodes] == 3 * [[False, True]] + [
        [True] * 2
    ]
    assert {episode.group for episode in scene.episodes} == {"same room", "cross wall"}
    assert scene.costs == ("raw", "head", "oracle")
    assert scene.units["raw"] == "mean squared latent difference"
    assert (scene.units["oracle"], scene.distance_unit) == ("px of true distance", "px")
    for episode in scene.episodes:
        assert episode.fields.keys() == {"raw", "head", "oracle"}
        assert all(
            len(replay.places) == 7 and replay.frames is not None and replay.frames.count == 7
            for replay in episode.replays
        )


# What cannot be drawn


def test_a_custom_world_with_frames_has_replays_and_neighbours() -> None:
    ring = Ring()
    page = rc.Report(ring_runs(ring), task=ring, costs=COSTS, logs=ring_latents(ring)).html()
    shown = words(page)
    assert "goal" in shown
    assert "has no `plane`" in shown
    assert "nearest of 200 logged states" in shown
    assert page.count('class="frame"') == 3 + 3 * 2 * 6
    assert '"outcome":"not_reached"' in page


def test_an_audit_from_logs_explains_missing_panels() -> None:
    ring = Ring()
    audit = made_audit(evaluation_set=None)
    shown = words(rc.Report(audit, costs=COSTS, logs=ring_latents(ring)).html())
    assert "on logs alone." in shown
    assert "--task" in shown
    assert re.search(r"on average [\d.]+, in logged steps", shown)
    few = words(rc.Report(audit, costs=COSTS, logs=ring_latents(ring, episodes=3)).html())
    assert "0 of 3 goals" in few


def test_a_table_names_the_commands_that_fill_other_panels() -> None:
    shown = words(rc.Report(made_table()).html())
    assert "instead of 25 %" in shown
    assert "run reachcost audit" in shown
    assert "no ranking" in shown
    assert "--report" in shown


def test_a_world_without_frames_and_plane_has_no_replays() -> None:
    class Blind(Ring):
        def observe(self, states: np.ndarray) -> dict[str, np.ndarray]:
            return {"state": states}

    class Faint(Ring):
        def render(self, states: np.ndarray) -> np.ndarray:
            return np.zeros((len(states), 8, 8, 3), np.float32)

    assert "replay" in draw_scene(SceneParts(Faint(), runs=ring_runs(Faint()))).without
    drawn = draw_scene(SceneParts(Blind(), runs=ring_runs(Blind())))
    assert drawn.without["replay"] == "The task 'ring' offers no plane and no frames: implement `plane` or `render`."


def test_an_audited_head_is_drawn_with_latent_distance(model: rc.tasks.ExactTopoNav) -> None:
    audit = made_audit(evaluation_set=None, cost="HeadCost", heads=[{}])
    seen = draw_audit(audit, model, ring_latents(Ring()), COSTS["head"], None, None, rc.CEM())
    assert [one.cost for one in seen.neighbourhoods[0].nearest] == ["raw", "head"]


def test_an_error_in_rendering_keeps_the_other_panels() -> None:
    class Torn(Ring):
        def observe(self, states: np.ndarray) -> dict[str, np.ndarray]:
            raise ZeroDivisionError("no light")

    page = words(rc.Report(made_audit(), ring_runs(Torn()), task=Torn(), costs=COSTS).html())
    assert re.search(r"ZeroDivisionError: no light in \S+test_report.py:\d+\.", page)
    assert "Verdict: ranking" in page


def test_maps_have_episode_numbers_and_skip_unreachable_places(
    task: rc.tasks.TopoNav, model: rc.tasks.ExactTopoNav, evaluation: rc.EvaluationSet
) -> None:
    class Parted(rc.tasks.TopoNav):
        def distance(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
            found = super().distance(states, goals).astype(float)
            return np.where(found < 9, found, np.inf)

    some = evaluation.subset(np.arange(5, 9))
    seen = draw_scene(SceneParts(Parted(), rc.tasks.ExactTopoNav(Parted()), {"raw": rc.LatentMSE()}, evaluation=some))
    assert [one.number for one in seen.episodes] == some.episodes.tolist()
    assert all(one.fields["oracle"].high < 9 for one in seen.episodes)


def test_runs_of_different_episodes_are_not_compared(task: rc.tasks.TopoNav, evaluation: rc.EvaluationSet) -> None:
    near, far = straight_runs(task, evaluation.subset(np.arange(4))), evaluation.subset(np.arange(4, 8))
    moved = straight_runs(task, replace(far, episodes=np.arange(4)))
    with pytest.raises(ReachcostError, match="evaluation set"):
        near.merged(moved)
    assert near.merged(near).costs == near.costs
    assert len({loop.protocol for runs in (near, moved) for loop in loops_of(runs)}) == 2


def test_endings_count_a_run_once_in_each_row() -> None:
    table = made_table()
    rows = [replace(row, extra={"runs": ["one", "two"]}) for row in table.rows if row.cost == "raw"]
    rows += [replace(rows[0], setting="seed 1", extra={"runs": ["one"]}), rows[0]]
    ended = [Loop("raw", np.zeros(2, bool), np.ones(2), np.array(["stuck", "lost"]), run=run) for run in ("one", "two")]
    page = rc.Report(Material(tables=(replace(table, rows=rows),), loops=tuple(ended))).html()
    assert "cost lost stuck episodes raw 2 2 4 raw seed 1 1 1 2" in words(page)


# Size


def test_a_large_page_is_reduced_below_its_limit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    many = replace(scene, episodes=tuple(replace(scene.episodes[0], number=number) for number in range(200)), of=200)
    monkeypatch.setattr("reachcost.report.report.LIMIT", 3_000_000)
    page = rc.Report(made_table(), many).html()
    assert len(page.encode()) <= 3_000_000
    assert "below 5 MB" in words(page)
    monkeypatch.setattr("reachcost.report.report.LIMIT", 100_000)
    assert "without frames" in words(rc.Report(made_table(), many).html())
    tables = [made_table(name=f"table {number}", note="long " * 2000) for number in range(30)]
    assert "3 of 30 tables" in words(rc.Report(*tables).html())
    monkeypatch.setattr("reachcost.report.report.LIMIT", 100)
    with pytest.raises(ReachcostError, match="names"):
        rc.Report(made_table()).html()


# Records


def test_a_recorded_audit_is_reported(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "raw.json"
    write_audit(made_audit(), file, command="reachcost audit --model m")
    scene.write(scene_file(file))
    assert read_scene(scene_file(file)) == scene
    assert read_audit(file).verdict == "ranking"
    shown = words(rc.Report(file).html())
    assert "buries good candidates" in shown
    assert "reachcost audit --model m" in shown
    assert "each cost; 4 episodes." in shown


def test_equal_ranks_of_two_audits_are_shown_once(tmp_path: Path) -> None:
    raw = rc.results.compare_rankings({"raw": -RANKS}, RANKS)
    both = {**raw, **rc.results.compare_rankings({"head": RANKS}, RANKS)}
    write_audit(replace(made_audit(), rankings=raw), tmp_path / "raw.json")
    write_audit(replace(made_audit(heads=[{}], cost="HeadCost"), rankings=both), tmp_path / "head.json")
    assert read_audit(tmp_path / "head.json").verdict == "ranking"
    shown = words(rc.Report(tmp_path / "raw.json", tmp_path / "head.json").html())
    assert "raw 100 median 100, n 1 head 1 of 1 at 0 0 median 0, n 1" in shown


def recorded(out: Path, head: rc.heads.LearnedHead) -> None:
    """A directory as a study leaves it: a closed loop, a ranking, a head, an audit and a table."""
    control, ranks = {"cost": "raw", "planner": "CEM", "planner_seed": 3}, {"cost": "raw", **POOL}
    ended = {"success": np.arange(4) > 2, "steps": np.full(4, 6), "category": np.array(["stuck"] * 3 + ["success"])}
    runs = out / "runs" / "made"

    def learned(directory: Path) -> dict[str, np.ndarray]:
        write_head(head, directory)
        return {"epoch": np.arange(1)}

    def audited(directory: Path) -> dict[str, np.ndarray]:
        (directory / "audit.json").write_text(json.dumps(made_audit().document()))
        return made_audit().rows

    made_run(runs / "control" / "raw-run", control, lambda _: {"episode": np.arange(4), **ended})
    made_run(runs / "sasc" / "raw-run", ranks, lambda _: {"episode": np.arange(4), "rank": np.arange(4.0)})
    parts = {"episode": np.arange(8) % 4, "part": np.repeat(["whole", "rest"], 4), "rank": np.full(8, 90.0)}
    made_run(runs / "attribution" / "raw-run", {"cost": "raw", "candidate_seed": 5}, lambda _: parts)
    made_run(runs / "heads" / "a-head", {}, learned, ("weights.safetensors",))
    made_run(runs / "audits" / "raw-run", control, audited)
    table = made_table()
    rows = [replace(row, extra={"runs": ["raw-run"]}) if row.cost == "raw" else row for row in table.rows]
    replace(table, rows=rows).write(out)


def test_a_directory_of_a_study_is_reported(tmp_path: Path, head: rc.heads.LearnedHead) -> None:
    recorded(tmp_path, head)
    (tmp_path / "runs" / "made" / "heads" / "a-head" / "weights.safetensors").unlink()  # they need not be kept
    shown = words(rc.Report(tmp_path).html())
    assert "buries good candidates" in shown
    assert "How episodes ended cost success stuck episodes raw 1 3 4" in shown
    assert "Only cost differs." in shown  # the note, from the Markdown
    assert "planner seed 3" in shown
    assert "All 5 runs" in shown
    assert "median 1.5, n 4" in shown  # what ranks parts of a cost is another measurement
    assert "outcomes only" in shown
    parts = {"control/raw-run": "closed loops", "sasc/raw-run": "median 1.5, n 4", "heads/a-head": "this head"}
    for run, message in parts.items():
        assert message in words(rc.Report(tmp_path / "runs" / "made" / run).html())


@pytest.mark.published
def test_all_published_results_fit_on_one_page() -> None:
    results = Path(__file__).parent.parent / "results"
    page = rc.Report(results).html()
    shown = words(page)
    assert len(page.encode()) < 5_000_000
    assert "rankings are shown" in shown
    assert "of one world model" in shown
    assert "Results of several studies" in shown
    assert "none on 100 episodes" in shown


def test_audits_of_two_planners_are_not_compared(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_audit(made_audit(evaluation_set_sha256=name), tmp_path / f"{name}.json")
    shown = words(rc.Report(tmp_path / "one.json", tmp_path / "other.json").html())
    assert "Verdict of one: ranking" in shown
    assert "Only that terminal cost differs" not in shown


def test_the_headline_names_the_repair(tmp_path: Path) -> None:
    repaired = apply_rule(RULES["execution"], np.full(4, 100.0), np.arange(4))
    head = made_audit(heads=[{}], cost="HeadCost")
    stages = tuple(repaired if stage.name == "execution" else stage for stage in head.stages)
    write_audit(made_audit(), tmp_path / "raw.json")
    write_audit(replace(head, stages=stages), tmp_path / "head.json")
    shown = words(rc.Report(tmp_path / "raw.json", tmp_path / "head.json").html())
    assert "head reaches 100 %" in shown
    assert words(rc.Report(tmp_path).html()) == words(rc.Report(tmp_path / "head.json", tmp_path / "raw.json").html())


def test_an_unknown_stage_with_a_value_shows_its_reason() -> None:
    audit = made_audit()
    stages = [replace(stage, outcome="unknown", advice="too few logs") for stage in audit.stages]
    assert "ranking unknown too few logs share of the possible gain" in words(
        rc.Report(replace(audit, stages=tuple(stages))).html()
    )


def test_only_comparable_learned_costs_are_compared() -> None:
    controls = {"raw": 20.0, "shuffled": 90.0, "trm+tie-break": 80.0, "geodesic-mlp": 95.0, "raw with true ends": 97.0}
    rates = [SuccessRate(cost, value, None, 9) for cost, value in controls.items()]
    rates.append(SuccessRate("trm", 99.0, None, 9, protocol="another planner"))
    assert not [*repairs(rates)]
    ((first, best),) = repairs([*rates, SuccessRate("hybrid", 60.0, None, 9), SuccessRate("raw", 70.0, None, 9)])
    assert (first.value, best.cost) == (20.0, "hybrid")


def _write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def _audit(path: Path, **changes: Any) -> Path:
    write_audit(made_audit(), path / "audit.json")
    document = json.loads((path / "audit.json").read_text())
    return _write(path / "audit.json", {**document, **changes})


def _scene(path: Path, episode: dict[str, Any]) -> Path:
    return _write(path / "scene.json", {"format": "reachcost-scene/2", "world": "w", "episodes": [episode]})


def _run(path: Path) -> Path:
    run = made_run(path / "run", {"cost": "raw", "planner": "CEM"}, lambda _: {"episode": np.arange(2)})
    return run.path


def _damaged_run(path: Path) -> Path:
    (_run(path) / "rows.parquet").write_bytes(b"PAR1")
    return path / "run"


def _sealed_run(path: Path) -> Path:
    """A run whose rows are none, as its manifest has them."""
    rows, manifest = _ranked(path, np.arange(2.0)) / "rows.parquet", path / "run" / "manifest.json"
    before = sha256_of(rows)
    rows.write_bytes(b"PAR1PAR1")
    manifest.write_text(manifest.read_text().replace(before, sha256_of(rows)))
    return path / "run"


def _ranked(path: Path, ranks: np.ndarray) -> Path:
    return made_run(path / "run", {"cost": "raw", **POOL}, lambda _: {"rank": ranks}).path


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nothing there": (lambda path: path / "none", "there is nothing at"),
    "another json": (lambda path: _write(path / "a.json", {"a": 1}), "is not a record of reachcost"),
    "deep": (lambda path: _write(path / "a.json", "[" * 100_000), "is not valid JSON"),
    "an empty directory": (lambda path: path, "holds no table, audit or finished run"),
    "ours of text": (
        lambda path: _write(
            path / "t.json", {"table": "t", "rows": [{**made_table().rows[0].as_json(), "ours": {"a": "b"}}]}
        ),
        "ours.a is 'b'",
    ),
    "another verdict": (lambda path: _audit(path, verdict="none"), "not 'ranking'"),
    "an odd outcome": (
        lambda path: _audit(path, stages=[{"name": "goals", "outcome": "maybe"}]),
        "stages[0].outcome is 'maybe'",
    ),
    "a run without columns": (_run, "is not a closed loop, ranking, head or audit"),
    "a damaged run": (_damaged_run, "is not the file its manifest describes"),
    "rows that are not Parquet": (_sealed_run, "cannot be read"),
    "ranks of text": (lambda path: _ranked(path, np.array(["first", "last"])), "have no column rank"),
    "another head": (lambda path: _write(path / "config.json", {"format": "x"}).parent, "is not a head"),
    "a script for a picture": (
        lambda path: _scene(path, {"number": 1, "goal_frame": {"image": "data:text/html,<script>"}}),
        "a picture of 1 frames is damaged",
    ),
    "a place of three": (lambda path: _scene(path, {"number": 1, "goal": [1, 2, 3]}), "goal is [1, 2, 3]"),
    "a long name": (lambda path: _scene(path, {"number": 1, "group": "x" * 30_000}), "20,000 characters"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    make, message = WRONG[name]
    with pytest.raises(ReachcostError) as refused:
        rc.Report(make(tmp_path))
    assert message in str(refused.value)
    assert len(str(refused.value)) < 500


ONE, REPLAY = ("episodes", 1), ("episodes", 1, "replays", 1)
TWICE = "the value of this entry is added to its list again"
INCONSISTENT: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "fewer places than steps": ((*REPLAY, "places", -1), None, "6 places for 6 steps"),
    "more frames than states": ((*REPLAY, "frames", "count"), 9, "9 frames for 6 steps"),
    "more frames than the picture has": ((*REPLAY, "frames"), {"count": 4, "columns": 4}, "differ in size"),
    "frames of half a pixel": ((*REPLAY, "frames", "columns"), 5, "picture of 7 frames"),
    "a picture of nothing": ((*REPLAY, "frames", "image"), "data:image/png;base64,AAAA", "picture of 7 frames"),
    "no path": ((*REPLAY, "places"), [], "does not show what episode"),
    "no map": (("plane",), None, "places without a map"),
    "a map of no width": (("plane", "low"), [224.0, 0.0], "cannot be shown"),
    "a cost that is missing": (("costs", 1), None, "'head' is not among"),
    "a cost twice": (("costs", 0), TWICE, "cost 'raw' is there twice"),
    "a path less": (REPLAY, None, "does not show what episode"),
    "a map less": ((*ONE, "fields", "raw"), None, "does not show what episode"),
    "a map of other places": ((*ONE, "fields", "raw", "rows"), 3, "places is damaged"),
    "costs in reverse": ((*ONE, "fields", "raw", "low"), 1e9, "from 1000000000.0 to"),
    "an episode twice": (("episodes", 0), TWICE, "is there twice"),
    "a number that JavaScript rounds": ((*ONE, "number"), 2**53 + 1, "episode 9007199254740993"),
    "a distance less": (("neighbourhoods", 0, "nearest", 0, "apart", 1), None, "2 frames and 1 distances"),
    "more neighbours than states": (("neighbourhoods", 0, "pool"), 1, "2 neighbours among 1"),
    "neighbours of a missing cost": (("neighbourhoods", 0, "nearest", 0, "cost"), "x", "'x' is not among"),
}
"""A place in the JSON of a scene, its new value (None removes it), and a part of the error message."""


@pytest.mark.parametrize("name", INCONSISTENT)
def test_inconsistent_scenes_are_refused(name: str, scene: Scene, tmp_path: Path) -> None:
    (*path, last), value, message = INCONSISTENT[name]
    document = json.loads(scene.json())
    strip = document["episodes"][0]["goal_frame"]
    nearest = {"cost": "raw", "frames": [strip, strip], "apart": [1.0, None]}
    document["neighbourhoods"] = [{"goal": strip, "unit": "steps", "pool": 2, "nearest": [nearest]}]
    place = document
    for key in path:
        place = place[key]
    if value is None and last != "plane":
        del place[last]
    elif value is TWICE:
        place.append(place[last])
    else:
        place[last] = {**place[last], **value} if isinstance(value, dict) else value
    with pytest.raises(ReachcostError, match=rf"scene\.json.*{re.escape(message)}"):
        rc.Report(_write(tmp_path / "scene.json", document))


@pytest.mark.parametrize("far", [np.nan, np.inf])
def test_scenes_require_finite_numbers(far: float, scene: Scene) -> None:
    episode = scene.episodes[0]
    path = episode.replays[0]
    for changed in (
        replace(episode, goal=(0.0, far)),
        replace(episode, replays=(replace(path, distance=far), *episode.replays[1:])),
        replace(episode, replays=(replace(path, places=(*path.places[1:], (far, 0.0))), *episode.replays[1:])),
    ):
        with pytest.raises(ReachcostError, match="finite"):
            replace(scene, episodes=(changed, *scene.episodes[1:]))
    with pytest.raises(ReachcostError):
        replace(episode.fields["raw"], high=far)


# Commands


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_table().write(tmp_path)
    out = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "tables" / "made.json"), "-o", str(out)]) == 0
    assert f"report {out} (open" in " ".join(capsys.readouterr().out.split())
    assert out.read_text().startswith("<!doctype html>")
    assert main(["report", "-o", str(out)]) == 1
    assert "nothing to report" in capsys.readouterr().err
    with pytest.raises(ReachcostError, match="dict"):
        rc.Report({})  # pyright: ignore[reportArgumentType] (the mistake)
    assert main(["report", str(tmp_path), "-o", str(tmp_path)]) == 1
    assert "is a directory" in capsys.readouterr().err


def test_a_reproduction_replays_recorded_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [RowPlan("toponav-exact", cost, seeds=(3072,), single=True) for cost in ("raw", "trm", "random")]
    brief = TablePlan("Brief.", ("success",), plain_rows(("success",), lambda: lines))
    study, found = replace(STUDIES["toponav"], tables={"toponav": brief}), list[Scene]()

    def noted(experiment: Any, table: ResultTable) -> Scene:
        found.append(scene_of(experiment, table))
        return found[-1]

    monkeypatch.setattr("reachcost.report.collector.scene_of", noted)
    monkeypatch.setattr(
        "reachcost.experiments.registry.request_of",
        lambda name: TableRequest(name, StudyRef(lambda: study, episodes=6)),
    )
    page = tmp_path / "page.html"
    assert main(["reproduce", "toponav", "--out", str(tmp_path), "--report", str(page)]) == 0
    assert f"report {page} (open it" in " ".join(capsys.readouterr().out.split())
    assert "each cost; 6 episodes." in words(page.read_text())
    (scene,) = found
    assert scene.world == "toponav"
    assert [replay.cost for replay in scene.episodes[0].replays] == ["raw", "trm"]
    for number, cost in enumerate(("raw", "trm")):
        rows = read_run(tmp_path / "runs" / "toponav" / "control" / f"exact-3072-detour-{cost}").table().to_pylist()
        ended = {row["episode"]: (row["success"], row["steps"], row["category"]) for row in rows}
        replays = {episode.number: episode.replays[number] for episode in scene.episodes}
        assert ended == {episode: (replay.reached, replay.steps, replay.outcome) for episode, replay in replays.items()}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: rc.tasks.TopoNav) -> list[str]:
    """A directory with logs and a custom model, and the options that name them."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("from reachcost.tasks import ExactTopoNav\n\n\ndef model():\n    return ExactTopoNav()\n")
    rc.write_logs(task.generate_logs(60), "logs.h5")
    return ["--model", "own.py:model", "--logs", "logs.h5", "--task", "toponav"]


def test_an_audit_writes_its_scene_and_report(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--episodes", "3", "--candidates", "20", "--iterations", "1", "--no-criteria"]
    assert main(["audit", *own, *small, "--out", "raw.json", "--report", "raw.html"]) in (3, 4)
    assert "report raw.html" in " ".join(capsys.readouterr().out.split())
    assert json.loads(Path("raw.json").read_text())["command"].startswith("reachcost audit --model own.py:model")
    page = Path("raw.html").read_text()
    assert "each cost; 3 episodes." in words(page)
    scene = read_scene(Path("raw.scene.json"))
    assert [replay.cost for replay in scene.episodes[0].replays] == ["raw", "oracle"]
    assert main(["report", "raw.json", "-o", "again.html"]) == 0
    assert words(Path("again.html").read_text()).partition("Watch")[0] == words(page).partition("Watch")[0]
    assert main(["audit", *own, "--report", "."]) == 1
    assert "--report . is a directory" in capsys.readouterr().err


@pytest.mark.slow
def test_a_head_and_a_comparison_are_reported(
    own: list[str], task: rc.tasks.TopoNav, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ranking_stage, "GOALS", 30)
    with pytest.warns(rc.ReachcostWarning):
        assert (
            main(["fit", *own, "--pairs", "500", "--labels", "temporal", "--out", "head", "--report", "fit.html"]) == 0
        )
    shown = words(Path("fit.html").read_text())
    assert "error of the head" in shown
    assert "excluded evaluation episodes" in shown
    assert "reachcost fit --model own.py:model" in shown
    assert "goal of episode 0" in shown  # maps, for goals of the evaluation set
    rc.write_logs(task.generate_logs(200, seed=7), "unseen.h5")
    assert main(["compare", "head", *own[:2], "--logs", "unseen.h5", *own[4:], "--report", "compare.html"]) == 0
    shown = words(Path("compare.html").read_text())
    assert "rank correlation" in shown
    assert "No episode was run" in shown
    assert capsys.readouterr().out.count("(open it in a browser:") == 2


# Hostile strings


def test_hostile_names_are_text(scene: Scene, tmp_path: Path) -> None:
    way = replace(scene.episodes[0].replays[0], cost=HOSTILE, outcome=HOSTILE)
    episode = replace(
        scene.episodes[0], group=HOSTILE, replays=(way,), fields={HOSTILE: scene.episodes[0].fields["raw"]}
    )
    odd = replace(
        scene, world=HOSTILE, costs=(HOSTILE,), units={HOSTILE: HOSTILE}, episodes=(episode,), without={"x": HOSTILE}
    )
    odd.write(tmp_path / "scene.json")
    message = Training.of({"pairs": {"labels": HOSTILE, "model": {"name": HOSTILE}}, "validation_loss": 1}, "head")
    audit = replace(
        made_audit(HOSTILE, versions={HOSTILE: HOSTILE}, planner=HOSTILE), caveats=(HOSTILE,), categories={HOSTILE: 3}
    )
    rankings = rc.results.compare_rankings({HOSTILE: RANKS}, RANKS)
    page = rc.Report(
        *(audit, made_table(HOSTILE, HOSTILE, HOSTILE), rc.audits.SascAudit(np.arange(1), {}, RANKS, rankings)),
        *(tmp_path / "scene.json", Material(heads={HOSTILE: message}, commands=(HOSTILE,), left_out=(HOSTILE,))),
        title=HOSTILE,
    ).html()
    assert "<img src=x" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "</script><img src=x onerror=alert(1)>&lt;⟨1B⟩[31m⟨202E⟩[bold]" in words(page)
