"""The TwoRoom tables: made from records, resumable to the same bytes, and published with the promised numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reachcost.experiments import EXPERIMENTS, GROUPS, tables_of
from reachcost.experiments.recorder import Recorder
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_recipes import plans
from reachcost.experiments.tworoom_rows import SEEDS, Line, interval, per_seed, table_row
from reachcost.experiments.tworoom_settings import HEADS, Setting
from reachcost.experiments.tworoom_tables import ABLATION, SPECS, reproduce_tworoom

from reachcost.base.progress import Progress
from reachcost.errors import ReachcostError
from reachcost.fitting.exclusion import Exclusion
from reachcost.fitting.recipe import Recipe
from reachcost.planning.cem import CEM

from .test_reproduce import contents

ROOT = Path(__file__).parent.parent


def smaller(recipe: Recipe) -> Recipe:
    return replace(recipe, epochs=1, hidden=16 if recipe.head in ("pair", "embedding") else None)


SMALL = {
    name: replace(plan, pairs=1000, rows=plan.rows and 4000, recipe=smaller(plan.recipe))
    for name, plan in {**HEADS, **ABLATION}.items()
}


def small_table(name: str, out: Path) -> dict[str, Any]:
    reproduce_tworoom(name, out, Progress(), SMALL, log_episodes=200, episodes=2)
    return json.loads((out / "tables" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tworoom")
    small_table("temporal-ablation", out)
    small_table("exclusion", out)
    return out


def test_a_table_has_the_documented_form_and_its_provenance(finished: Path) -> None:
    table = json.loads((finished / "tables" / "exclusion.json").read_text())
    means = [row for row in table["rows"] if row["seed"] is None]
    assert [row["cost"] for row in means] == ["raw", "trm-paper", "trm", "shuffled", "oracle", "random"]
    for row in means:
        assert row["n"] == 6
        for metric, (low, high) in row["interval"].items():
            assert low <= row["ours"][metric] <= high
    assert means[0]["paper"] == {"success": 7.0, "rho_geo": 0.007, "rank": 38.95, "distance": 139.72}
    assert means[4]["ours"]["rho_geo"] == 1
    checks = [row for row in table["rows"] if row["seed"] is not None]
    assert len(checks) == 9
    assert all(row["ours"]["row_overlap"] == row["ours"]["episode_overlap"] == 0 for row in checks)
    assert table["command"] == "reachcost reproduce exclusion"
    assert table["seconds"] >= 0
    assert table["machine"]
    assert table["rows_sha256"].keys() >= {
        "tworoom-control/lewm-3072-high-distance-raw",
        "tworoom-sasc/lewm-3072-high-distance-baselines-head3072",
    }


def test_the_same_command_reads_back_what_is_recorded_and_computes_what_is_missing(finished: Path) -> None:
    before = contents(finished)
    small_table("temporal-ablation", finished)
    assert contents(finished) == before
    run = finished / "runs" / "tworoom-control" / "lewm-3072-distance-controlled-trm"
    for file in run.iterdir():
        file.unlink()
    run.rmdir()
    small_table("temporal-ablation", finished)
    after = contents(finished)
    tables = "tables/temporal-ablation.json"
    old, new = (json.loads(files.pop(tables)) for files in (before, after))
    assert after == before
    assert {**old, "seconds": 0} == {**new, "seconds": 0}


def test_a_record_of_another_configuration_is_refused(finished: Path) -> None:
    with pytest.raises(ReachcostError, match=r"holds a run of another configuration \(head is"):
        reproduce_tworoom(
            "temporal-ablation",
            finished,
            Progress(),
            {**SMALL, "trm": replace(SMALL["trm"], recipe=replace(SMALL["trm"].recipe, expectile=0.3))},
            log_episodes=200,
            episodes=2,
        )


def test_every_ablation_names_its_pairs(finished: Path) -> None:
    rows = json.loads((finished / "tables" / "temporal-ablation.json").read_text())["rows"]
    settings = [row["setting"] for row in rows if row["cost"] == "trm-paper"]
    assert settings[0] == "random, 5k rows, 20k pairs"
    assert settings[-1] == "balanced, 100k pairs, gaps to 50"
    assert [row["paper"]["success"] for row in rows if row["cost"] == "trm-paper"][:3] == [17.5, 25.0, 35.0]
    assert {row["cost"] for row in rows} >= {"raw", "trm", "oracle", "random"}


def test_fresh_sets_are_of_their_own_logs_and_the_same_rule(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, Progress())
    published = experiment.evaluation("high-distance")
    for name in ("fresh-1", "fresh-2"):
        fresh = experiment.evaluation(name)
        assert len(fresh) == 100
        assert fresh.logs_sha256 != published.logs_sha256
        assert not Exclusion(
            experiment.logs, [fresh]
        ).episodes.size  # no episode that heads learn from holds its states
        geodesic = experiment.task.distance(fresh.starts, fresh.goals)
        assert 120 <= geodesic.min() <= geodesic.max() <= 205


def test_runs_of_one_head_seed_are_not_repeated_under_two_names() -> None:
    assert Setting("lewm-tworoom-3072", "trm").name == Setting("lewm-tworoom-3072", "trm", 3072).name
    names = {Setting("lewm-tworoom-3072", "trm", seed).name for seed in SEEDS}
    assert len(names) == 3


def test_intervals_contain_the_mean_and_are_never_points() -> None:
    rng = np.random.default_rng(0)
    success = 100.0 * (rng.random((3, 100)) < 0.9)
    low, high = interval("success", success)
    assert low < success.mean() < high
    low, high = interval("success", np.full((3, 100), 100.0))
    assert low == pytest.approx(96.3, abs=0.1)
    assert high == 100


def test_tworoom_stands_for_all_its_tables() -> None:
    assert set(tables_of("tworoom")) == set(SPECS) == set(GROUPS["tworoom"])
    assert set(EXPERIMENTS) >= set(SPECS)
    assert tables_of("horizon") == ("horizon",)


def test_our_recipe_is_the_best_of_those_compared_on_held_out_logs() -> None:
    rows = published("tworoom-recipes")["rows"]
    best = max(rows, key=lambda row: row["ours"]["rho_logged"])["cost"]
    assert [row["cost"] for row in rows] == list(plans())
    assert plans()[best].recipe == Recipe()


def published(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "results" / "tables" / f"{name}.json").read_text())


def rows_of(name: str, **wanted: object) -> list[dict[str, Any]]:
    rows = published(name)["rows"]
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def success(name: str, **wanted: object) -> float:
    (row,) = rows_of(name, **wanted)
    return row["ours"]["success"]


def test_published_headline_keeps_its_promises() -> None:
    here = {"seed": None, "setting": None}
    assert success("high-distance", model="lewm", cost="raw", **here) <= 20
    assert success("high-distance", model="lewm", cost="trm", **here) >= 96.7
    for number in (1, 2):
        fresh = success("high-distance", model="lewm", cost="trm", setting=f"fresh set {number}")
        assert fresh >= 96.7 - 3
    assert success("high-distance", model="lewm", cost="shuffled", **here) <= 2
    raw, trm = (success("high-distance", model="pldm", cost=cost, **here) for cost in ("raw", "trm"))
    assert trm >= 84
    assert trm >= raw + 30
    far = {"seed": None, "setting": "high-distance set"}
    full, short = (success("horizon", cost=cost, **far) for cost in ("trm-paper", "trm-gap50"))
    assert full >= short + 30


def test_published_exclusion_is_complete() -> None:
    checks = [row for row in published("exclusion")["rows"] if row["seed"] is not None]
    assert len(checks) == 9
    for row in checks:
        assert row["excluded_episodes"] == 199
        assert row["ours"]["row_overlap"] == row["ours"]["episode_overlap"] == 0


@pytest.mark.parametrize("name", sorted(SPECS))
def test_published_tables_hold_every_line_with_floor_and_ceiling(name: str) -> None:
    table = published(name)
    assert {row["cost"] for row in table["rows"]} >= {"oracle", "random"}
    expected = [(line.shown or line.cost, line.setting) for line in SPECS[name].lines()]
    lines = [(row["cost"], row.get("setting", "")) for row in table["rows"]]
    assert lines[: len(expected)] == expected
    assert SPECS[name].note in (ROOT / "results" / "tables" / f"{name}.md").read_text()


def test_a_published_run_comes_out_again(tmp_path: Path) -> None:
    """What is published is what this code computes, on any processor up to a few episodes."""
    line = Line("lewm", "raw", seeds=(3072,), single=True)
    row = table_row(Experiment(tmp_path, Progress()), line, ("success", "wrong_room"))
    (known,) = rows_of("per-seed", model="lewm", cost="raw", seed=3072)
    for metric in ("success", "wrong_room"):
        assert row.ours[metric] == pytest.approx(known["ours"][metric], abs=4)


def test_heads_on_one_world_model_add_no_certainty(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, Progress(), SMALL, log_episodes=200, episodes=4)
    one = table_row(experiment, Line("lewm", "raw"), ("success",))
    thrice = table_row(experiment, Line("lewm", "raw", head_seeds=(3072, 3072, 3072)), ("success",))
    assert thrice.n == 3 * one.n
    assert thrice.interval == one.interval


def test_paper_values_stand_beside_their_own_seed() -> None:
    line = Line("lewm", "raw")
    singles = per_seed(line, [{"success": float(seed)} for seed in line.seeds])
    assert [single.paper for single in singles] == [{"success": float(seed)} for seed in SEEDS]
    assert [single.seeds for single in singles] == [(seed,) for seed in SEEDS]


def test_a_head_never_saw_the_set_it_is_run_on(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, Progress(), SMALL, log_episodes=10_000)
    for name in ("high-distance", "distance-controlled", "balanced"):
        setting = Setting("lewm-tworoom-3072", "trm", evaluation=name)
        assert setting.excluded == name
        goals = experiment.evaluation(name)
        assert Exclusion(experiment.logs, [goals]).episodes.size > 70
    assert Setting("lewm-tworoom-3072", "trm", evaluation="fresh-1").excluded == "high-distance"


def test_a_name_never_stands_for_two_configurations(tmp_path: Path) -> None:
    planners = (CEM(), CEM(elites=60), CEM(horizon=4), CEM(candidates=60))
    assert len({Setting("lewm-tworoom-3072", "raw", planner=planner).name for planner in planners}) == 4
    recorder = Recorder(tmp_path, Progress())
    recorder.run("group/run", {"seed": 1}, lambda _: {"x": np.arange(3)})
    with pytest.raises(ReachcostError, match="holds a run of another configuration"):
        recorder.run("group/run", {"seed": 2}, lambda _: {"x": np.arange(3)})
