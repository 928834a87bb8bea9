"""Tables from records: resumable to the same bytes, and refused if a record is damaged or of other settings."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reachcost.errors import ReachcostError
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.registry import all_figures, all_tables, groups, results_of, study_of
from reachcost.experiments.rows import RowPlan, mean_intervals, table_row
from reachcost.experiments.study import Setting
from reachcost.experiments.tables import make_table
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.results.records import read_run

from .small import EPISODES, STUDIES, contents

STUDY, MEAN_COSTS = STUDIES["toponav"], ("raw", "trm-paper", "shuffled", "trm", "oracle")
(KIND,) = STUDY.members
FIRST = STUDY.members[KIND][0]


def toponav(out: Path, **changes: Any) -> dict[str, Any]:
    make_table(replace(STUDY, **changes), "toponav", out, episodes=EPISODES["toponav"])
    return json.loads((out / "tables" / "toponav.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduction")
    toponav(out)
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


def run_of(out: Path, name: str) -> dict[str, Any]:
    return read_run(out / "runs" / "toponav" / name).manifest


def test_the_table_has_the_documented_form(finished: Path) -> None:
    table = json.loads((finished / "tables" / "toponav.json").read_text())
    assert table["table"] == "toponav"
    means = [row for row in table["rows"] if row["seed"] is None]
    differences = ("trm-paper minus raw", "trm minus raw")
    assert [row["cost"] for row in means] == [
        *(*MEAN_COSTS, "oracle+tie-break", "trm+tie-break", "random", *differences)
    ]
    for row in means[:-2]:
        assert row["n"] == 18
        assert row["interval"].keys() == row["ours"].keys()
        assert (row["paper"] is None) == (row["cost"] not in ("raw", "trm-paper", "shuffled", "oracle"))
    for row in table["rows"]:
        for metric, (low, high) in row["interval"].items():
            assert low - 1e-4 <= row["ours"][metric] <= high + 1e-4
    assert means[0]["paper"] == {"success": 15.0, "rho_geo": 0.496, "rank": 45.03, "final_geo": 36.18}
    second = [row for row in table["rows"] if row["seed"] == 3073]
    for mean, single in zip(means[:-2], second, strict=False):
        assert mean["cost"] == single["cost"]
        assert all(values[1] == single["ours"][metric] for metric, values in mean["per_run"].items())
    markdown = (finished / "tables" / "toponav.md").read_text()
    assert "| raw | toponav-exact | 18 |" in markdown
    assert "| trm-paper, seed 3072 | toponav-exact | 6 |" in markdown


def test_a_table_names_its_runs(finished: Path) -> None:
    table = json.loads((finished / "tables" / "toponav.json").read_text())
    assert table["command"] == ""  # a custom study has none
    assert (table["study"], table["protocol"]) == ("toponav", STUDY.protocol)
    manifests = [read_run(path.parent) for path in (finished / "runs").rglob("manifest.json")]
    assert table["seconds"] == round(sum(run.manifest["elapsed_seconds"] for run in manifests))
    assert table["machine"] == sorted({run.manifest["machine"] for run in manifests})
    sha256 = {str(run.path.relative_to(finished / "runs")): run.sha256["rows.parquet"] for run in manifests}
    assert table["rows_sha256"] == sha256  # every run that was read


def test_manifests_name_every_seed_and_input(finished: Path) -> None:
    names = ("heads/exact-3073-trm", "control/exact-3073-detour-trm", "sasc/exact-3073-detour-trm")
    head, control, sasc = (run_of(finished, name)["config"] for name in names)
    assert (head["pair_seed"], head["head_seed"], control["head_seed"]) == (608, 3073, 3073)
    assert (control["planner_seed"], sasc["candidate_seed"]) == (3073, 608 + 31 * 3073 + 3)
    assert control["planner_settings"]["candidates"] == 256
    assert (control["budget"], control["dynamics"]) == (6, "world model")
    sets = {head["excluded_set_sha256"], control["evaluation_set_sha256"], sasc["evaluation_set_sha256"]}
    assert len(sets) == 1
    for config in (head, control, sasc):
        assert (config["study"], config["protocol"]) == ("toponav", STUDY.protocol)
        assert config["logs_sha256"]
        assert config["model_sha256"]
    weights = run_of(finished, names[0])["artefacts"]["weights.safetensors"]
    assert control["heads_sha256"] == sasc["heads_sha256"] == {"trm": weights}


def modified(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*") if path.is_file()}


def test_a_finished_run_is_never_recomputed_and_a_missing_one_is(copied: Path) -> None:
    before, bytes_before = modified(copied), contents(copied)
    toponav(copied)
    assert modified(copied) == before
    lost = copied / "runs" / "toponav" / "control" / "exact-3073-detour-trm"
    shutil.rmtree(lost)
    toponav(copied)
    after = modified(copied)
    assert {path for path in before if before[path] != after[path]} == {path for path in before if lost in path.parents}
    assert contents(copied) == bytes_before


def test_a_table_needs_rows_and_no_weights(copied: Path) -> None:
    before = contents(copied)
    for weights in copied.rglob("weights.safetensors"):
        weights.unlink()
    toponav(copied)
    assert contents(copied) == {name: data for name, data in before.items() if not name.endswith(".safetensors")}


def shorter_trm() -> dict[str, Any]:
    trm = STUDY.heads["trm"]
    return {**STUDY.heads, "trm": replace(trm, recipe=replace(trm.recipe, epochs=2))}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"heads": shorter_trm()}, r"head\.recipe\.epochs is 1 there and 2 here"),
        ({"logs": {**STUDY.logs, "seed": 5}}, "logs_sha256 is"),
        ({"protocol": STUDY.protocol + 1}, "protocol is"),
        ({"planner": CategoricalCEM(elites=16)}, r"planner_settings\.elites is 32 there and 16 here"),
        ({"pair_seed": 1}, "pair_seed is 608 there and 1 here"),
    ],
    ids=["recipe", "logs", "protocol", "planner", "pairs"],
)
def test_another_configuration_is_refused(copied: Path, changes: dict[str, Any], where: str) -> None:
    before = contents(copied)
    with pytest.raises(ReachcostError, match=where):
        toponav(copied, **changes)
    assert contents(copied) == before


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (truncate, "sasc/exact-3073-detour-raw/rows.parquet"),
        (truncate, "heads/exact-3072-trm/weights.safetensors"),
        (truncate, "control/exact-3074-detour-random/manifest.json"),
        (Path.unlink, "sasc/exact-3073-detour-raw/rows.parquet"),
        (Path.unlink, "heads/exact-3072-trm/config.json"),
        (Path.unlink, "control/exact-3074-detour-random/manifest.json"),
    ],
)
def test_a_damaged_record_is_refused_before_anything_is_done(
    copied: Path, damage: Callable[[Path], None], name: str
) -> None:
    damage(copied / "runs" / "toponav" / name)
    shutil.rmtree(copied / "runs" / "toponav" / "control" / "exact-3072-detour-raw")
    before = modified(copied)
    with pytest.raises(ReachcostError, match="damaged"):
        toponav(copied)
    assert modified(copied) == before


def test_a_run_has_one_name_and_a_name_one_configuration() -> None:
    def name(**changes: Any) -> str:
        return STUDIES["tworoom"].run_name(Setting(FIRST, "trm", **changes))

    assert name() == name(head_seed=FIRST.seed) == name(evaluation=STUDIES["tworoom"].evaluation)
    other = [{"head_seed": seed} for seed in (3073, 3074)]
    other += [{"budget": 150}, {"budget": 75}, {"clamp": False}, {"evaluation": "balanced"}]
    other += [
        {"planner": planner} for planner in (CEM(elites=60), CEM(horizon=4), CEM(candidates=60), CEM(iterations=3))
    ]
    assert len({name(), *(name(**changes) for changes in other)}) == 1 + len(other)
    assert "-CategoricalCEM-" in name(planner=CategoricalCEM())


def test_every_table_belongs_to_one_study_and_groups_stand_for_several() -> None:
    every = all_tables()
    assert results_of("all") == (*every, *all_figures())
    assert results_of("horizon") == ("horizon",)
    for name, study in ((name, study_of(name)) for name in ("tworoom", "toponav", "pusht", "suite")):
        assert {table for table, owner in every.items() if owner is study} == {*study.tables}
        assert study.name == name
    assert results_of("tworoom") == groups()["tworoom"]
    assert {*results_of("tworoom")}.isdisjoint(results_of("audits"))
    grouped = {table for name in ("tworoom", "audits", "beyond", "pusht", "suite") for table in results_of(name)}
    assert {*every} - grouped == {*("tworoom-recipes", "toponav", "toponav-readings", "toponav-recipes")}
    with pytest.raises(ReachcostError, match="mars"):
        results_of("mars")


def test_intervals_contain_the_mean_and_are_never_points() -> None:
    rng = np.random.default_rng(0)
    success = 100.0 * (rng.random((3, 100)) < 0.9)
    certain, whole = np.full((3, 100), 100.0), np.full((3, 50), 100.0)
    found = mean_intervals({"some": success, "all": certain, "few": whole}, {"some", "all", "few"})
    low, high = found["some"]
    assert low < success.mean() < high
    assert found["all"] == [pytest.approx(96.3, abs=0.1), 100]
    assert found["few"][0] < found["all"][0]
    assert mean_intervals({"distance": success})["distance"][0] >= low
    assert mean_intervals({"some": success}, {"some"})["some"] == found["some"]  # other metrics do not matter


def test_heads_on_one_world_model_add_no_certainty(finished: Path) -> None:
    experiment = Experiment(STUDY, finished, episodes=EPISODES["toponav"])
    one = table_row(experiment, RowPlan(KIND, "raw"), ("success", "final_geo"))
    thrice = table_row(experiment, RowPlan(KIND, "raw", head_seeds=(None, None, None)), ("success", "final_geo"))
    assert thrice.n == 3 * one.n
    assert thrice.interval == one.interval
