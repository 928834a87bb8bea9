"""Published tables are made from their rows byte for byte, the code computes their numbers, and their claims hold."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from reachcost.experiments.experiment import Experiment
from reachcost.experiments.registry import all_tables, studies
from reachcost.experiments.runs import ControlRun, SascRun, outcomes, rankings
from reachcost.experiments.study import Setting, Study
from reachcost.experiments.tables import make_table
from reachcost.heads.recipe import Recipe
from reachcost.results.pack import NAME as PACK
from reachcost.results.records import read_run, run_paths
from reachcost.tasks.toponav import TopoNav
from reachcost_paper.pusht import STUDY as PUSHT
from reachcost_paper.suite.verdicts import FAULTS
from reachcost_paper.toponav import STUDY as TOPONAV
from reachcost_paper.toponav.recipes import plans as toponav_recipes
from reachcost_paper.tworoom import STUDY as TWOROOM
from reachcost_paper.tworoom.recipes import plans as tworoom_recipes
from reachcost_paper.worlds import suite
from reachcost_tools.pack import write_pack
from tests.cells import record
from tests.small import once

pytestmark = pytest.mark.published
RESULTS = Path(__file__).parents[2] / "results"
PUSHT_LOGS = "be7cd955e89526a43700a0c9550dbd71822348352eb161792a308ced537533c5"
FIRST_PUSHT_LOGS = "e8ac35413b0543d61f84d45ae76aa5088b957c72560d07f12928a6cdcb5047d5"


def published(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / "tables" / f"{name}.json").read_text())


def test_every_table_is_published_with_its_rows_and_every_run_belongs_to_a_table() -> None:
    runs = {name: {*published(name)["rows_sha256"]} for name in all_tables()}
    assert all(runs.values())
    recorded = {str(path.relative_to(RESULTS / "runs")) for path in run_paths(RESULTS / "runs")}
    assert recorded == set().union(*runs.values())


def test_other_published_tables_are_evaluations() -> None:
    others = {path.stem for path in (RESULTS / "tables").glob("*.json")} - {*all_tables()}
    assert {published(name)["command"] for name in others} == {"reachcost evaluate"}


def test_the_documented_search_finds_the_runs_of_an_evaluation_set() -> None:
    root = RESULTS.parent
    (search,) = re.findall(r"^\$ (grep .*)$", (root / "docs" / "reproduce.md").read_text(), re.MULTILINE)

    def found(sha256: str) -> str:
        return subprocess.run(
            search, shell=True, cwd=root, env={**os.environ, "HASH": sha256}, capture_output=True, text=True
        ).stdout

    runs = found(TWOROOM.task().evaluation_set("high-distance").fingerprint)
    expected = {run.partition("/")[2] for run in published("high-distance")["rows_sha256"] if "/control/" in run}
    assert all((f'"{run}"' in runs) is ("fresh" not in run) for run in expected)
    assert not found(TopoNav().evaluation_set("detour", seed=12345).fingerprint)
    assert found(suite()["open"].evaluation(suite()["open"].task(), "report").fingerprint)


def test_intervals_separate_where_the_pages_say() -> None:
    """With 30 episodes a world, `trm-auto` exceeds `trm` in one world, and fewer rollouts from logs differ in none."""

    def interval(table: str, **wanted: object) -> list[float]:
        return row_of(table, **wanted)["interval"]["success"]

    for world in {row["model"] for row in published("labels")["rows"]}:
        auto, logged = (interval("labels", model=world, cost=cost) for cost in ("trm-auto", "trm"))
        assert (auto[0] > logged[1]) is (world == "one-way")
    for world in {row["model"] for row in published("budget-worlds")["rows"]}:
        full, *others = rows_of("budget-worlds", model=world, cost="trm-auto")
        fewer = next(row for row in others if row["setting"].startswith("from logs"))
        high, low = (row["interval"]["success"] for row in (full, fewer))
        assert low[0] <= high[1]
        assert high[0] <= low[1]


# Tables from rows


@pytest.fixture(scope="module")
def prepared() -> Iterator[Callable[[str], Study]]:
    """The study of a table, with one task that makes logs and evaluation sets once for all its tables."""
    found = {study.name: once(study) for study in studies().values() if isinstance(study, Study)}
    with pytest.MonkeyPatch.context() as patch:
        for name, task in ((name, study.task()) for name, study in found.items()):
            generate = placeholder_of_logs if name == PUSHT.name else cache(task.generate_logs)
            patch.setattr(task, "generate_logs", generate)
        yield lambda table: found[all_tables()[table].name]


def placeholder_of_logs(**_: object) -> SimpleNamespace:
    """A fingerprint in place of the 8000 episodes of PushT, which take long to simulate; tests below compare it."""
    return SimpleNamespace(fingerprint=PUSHT_LOGS)


@pytest.mark.slow
def test_the_logs_of_pusht_are_those_on_record() -> None:
    heads = map(read_run, run_paths(RESULTS / "runs" / "pusht" / "heads"))
    assert {run.manifest["config"]["logs_sha256"] for run in heads} == {PUSHT_LOGS}
    assert PUSHT.task().generate_logs(**PUSHT.logs).fingerprint == PUSHT_LOGS


def test_the_first_logs_of_pusht_are_those_on_record() -> None:
    """Episodes do not depend on each other; these are of all three policies."""
    logs = PUSHT.task().generate_logs(**{**PUSHT.logs, "episodes": 30})
    assert {*logs.columns["policy"]} == {0, 1, 2}
    assert logs.fingerprint == FIRST_PUSHT_LOGS


def copy_rows(table: str, out: Path) -> None:
    """Copy the rows that a table names: no others, and no weights."""
    named = [run.partition("/") for run in published(table)["rows_sha256"]]
    for study in {study for study, _, _ in named}:
        runs = {name: read_run(RESULTS / "runs" / study / name) for one, _, name in named if one == study}
        write_pack(out / "runs" / study / PACK, runs)


def refuse(*_: object) -> None:
    raise AssertionError("something is computed, but its rows are recorded")


def without_seconds(document: str) -> str:
    return re.sub(r'^  "seconds": \d+', "", document, flags=re.MULTILINE)


LONG = {"budget", "pusht-fresh", "temporal-geodesic", "tworoom-solved"}
"""Tables that take five seconds and more."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in all_tables()]
)
def test_a_table_comes_out_of_its_rows_byte_for_byte(
    name: str, tmp_path: Path, prepared: Callable[[str], Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reachcost.experiments.cells.executors.computed", refuse)
    monkeypatch.setattr("reachcost.experiments.experiment.encode_logs", None)
    copy_rows(name, tmp_path)
    study = all_tables()[name]
    make_table(
        prepared(name) if isinstance(study, Study) else study, name, tmp_path, command=f"reachcost reproduce {name}"
    )
    for kind in ("json", "md"):
        made, known = ((out / "tables" / f"{name}.{kind}").read_text() for out in (tmp_path, RESULTS))
        assert without_seconds(made) == without_seconds(known)
    plan = study.tables[name]
    drawn = bool(plan.drawn or plan.picture)
    assert (tmp_path / "figures" / f"{name}.png").exists() == drawn
    assert (RESULTS / "figures" / f"{name}.png").exists() == drawn


# Numbers from the code


def row_of(table: str, **wanted: object) -> dict[str, Any]:
    (row,) = rows_of(table, **wanted)
    return row


def rows_of(table: str, **wanted: object) -> list[dict[str, Any]]:
    rows = published(table)["rows"]
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


class EncodedWhenRead:
    """Latents that are encoded row by row when they are read."""

    def __init__(self, experiment: Experiment, model: str) -> None:
        self.values, self._model, self._logs = self, experiment.model(model), experiment.logs

    def __getitem__(self, rows: np.ndarray) -> torch.Tensor:
        return self._model.encode(self._logs.observations(rows))


@pytest.fixture
def tworoom(tmp_path: Path, prepared: Callable[[str], Study]) -> Experiment:
    """The published study in an empty directory, where probes encode only the rows that they are fitted on."""
    experiment = Experiment(prepared("sasc"), tmp_path)
    experiment.latents = cache(lambda model: EncodedWhenRead(experiment, model))  # pyright: ignore[reportAttributeAccessIssue]
    return experiment


LEWM = TWOROOM.members["lewm"][0]
SASC = {"spearman": "rho_geo", "rank": "rank", "selected": "selected", "spearman_euclidean": "rho_euclid"}


@pytest.mark.slow
def test_candidates_of_tworoom_are_ranked_as_published(tworoom: Experiment) -> None:
    for cost in ("raw", "decoded-geodesic", "rowspace"):
        record(tworoom.cell(SascRun(Setting(LEWM, cost))))
        found, known = rankings(tworoom, Setting(LEWM, cost)), row_of("sasc", cost=cost, seed=3072)["ours"]
        for column, metric in SASC.items():
            assert found[column].mean() == pytest.approx(known[metric], rel=0.02, abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["raw", "decoded-geodesic"])
def test_episodes_of_tworoom_end_as_on_record(cost: str, tworoom: Experiment) -> None:
    few = Experiment(tworoom.study, tworoom.out, episodes=6)
    few.latents = tworoom.latents
    (run,) = record(few.cell(ControlRun(Setting(LEWM, cost))))
    known = read_run(RESULTS / "runs" / "tworoom" / "control" / run.path.name)
    found, on_record = ({row["episode"]: row for row in one.table().to_pylist()} for one in (run, known))
    assert len(found) == 6
    assert sum(row["success"] == on_record[episode]["success"] for episode, row in found.items()) >= 5


@pytest.mark.slow
def test_a_head_of_toponav_plans_and_ranks_as_published(tmp_path: Path) -> None:
    experiment, setting = Experiment(TOPONAV, tmp_path), Setting(TOPONAV.members["toponav-exact"][0], "trm")
    record(*experiment.cells([ControlRun(setting), SascRun(setting)]))
    known = row_of("toponav", cost="trm", seed=3072)["ours"]
    assert outcomes(experiment, setting)["success"].mean() == pytest.approx(known["success"], abs=2.5)
    assert rankings(experiment, setting)["spearman"].mean() == pytest.approx(known["rho_geo"], abs=0.01)
    assert rankings(experiment, setting)["rank"].mean() == pytest.approx(known["rank"], abs=0.05)


# Claims of the tables


def values(table: str, metric: str, **wanted: object) -> list[float]:
    return [row["ours"][metric] for row in rows_of(table, **wanted) if metric in row["ours"]]


def value(table: str, metric: str = "success", **wanted: object) -> float:
    (found,) = values(table, metric, **wanted)
    return found


MEAN: dict[str, Any] = {"seed": None, "setting": None}
FAR: dict[str, Any] = {"setting": "high-distance set", "seed": None}
AT_LEAST: list[tuple[str, float, dict[str, Any]]] = [
    ("high-distance", 96.7, {"model": "lewm", "cost": "trm", **MEAN}),
    *(("high-distance", 93.7, {"model": "lewm", "cost": "trm", "setting": f"fresh set {n}"}) for n in (1, 2)),
    ("high-distance", 84, {"model": "pldm", "cost": "trm", **MEAN}),
    ("toponav", 85, {"cost": "trm-paper", "seed": None}),
    *(("toponav", 95, {"cost": cost, "seed": None}) for cost in ("oracle", "trm")),
    ("toponav", 100, {"cost": "oracle+tie-break", "seed": None}),
    ("tworoom-solved", 99.5, {"cost": "trm-auto", "model": "lewm", "setting": "replanning"}),
    ("tworoom-solved", 98, {"cost": "trm-auto", "model": "pldm", "setting": "replanning"}),
    *(
        ("coverage-repair", 97, {"cost": "trm-auto", "model": kind, "setting": logs})
        for kind in ("lewm", "pldm")
        for logs in ("no door", "500 episodes", "1000 episodes")
    ),
    ("coverage-repair", 99, {"cost": "trm-auto", "model": "lewm", "setting": "frames only, replanning"}),
    *(
        ("layouts-unseen", least, {"cost": "trm-imagined", "setting": f"{layouts}, replanning"})
        for layouts, least in (("door moved", 90), ("wall turned", 90), ("published", 97))
    ),
    ("coverage", 95, {"setting": "balanced"}),
    ("directed", 90, {"cost": "trm-directed"}),
]
AT_MOST: list[tuple[str, float, dict[str, Any]]] = [
    ("high-distance", 20, {"model": "lewm", "cost": "raw", **MEAN}),
    ("high-distance", 2, {"model": "lewm", "cost": "shuffled", **MEAN}),
    ("toponav", 22, {"cost": "raw", "seed": None}),
    ("toponav", 4, {"cost": "shuffled", "seed": None}),
    *(("coverage-repair", 10, {"cost": "trm", "model": kind, "setting": "no door"}) for kind in ("lewm", "pldm")),
    ("coverage", 10, {"setting": "limited"}),
    ("layout", 30, {"cost": "geodesic-mlp", "setting": "horizontal 88"}),
    ("directed", 10, {"cost": "shuffled"}),
]


def test_published_success_is_within_its_bounds() -> None:
    for table, least, wanted in AT_LEAST:
        assert value(table, **wanted) >= least, (table, wanted)
    for table, most, wanted in AT_MOST:
        assert value(table, **wanted) <= most, (table, wanted)


def test_the_repair_gains_and_short_gaps_lose() -> None:
    raw, trm = (value("high-distance", model="pldm", cost=cost, **MEAN) for cost in ("raw", "trm"))
    assert trm >= raw + 30
    full, short = (value("horizon", cost=cost, **FAR) for cost in ("trm-paper", "trm-gap50"))
    assert full >= short + 30


def test_rankings_of_toponav_agree_with_the_paper() -> None:
    assert {row["n"] for row in rows_of("toponav", seed=None)} == {360}
    assert value("toponav", "rho_geo", cost="raw", seed=None) == pytest.approx(0.5, abs=0.06)
    assert value("toponav", "rank", cost="raw", seed=None) == pytest.approx(45, abs=6)
    assert value("toponav", "rho_geo", cost="trm-paper", seed=None) >= 0.82


def test_our_recipes_are_the_best_of_those_compared_on_held_out_logs() -> None:
    errors = {row["cost"]: row["ours"]["validation_rmse"] for row in rows_of("toponav-recipes")}
    assert toponav_recipes()[min(errors, key=errors.__getitem__)] == TOPONAV.heads["trm"]
    rho = {row["cost"]: row["ours"]["rho_logged"] for row in rows_of("tworoom-recipes")}
    assert list(rho) == list(tworoom_recipes())
    assert tworoom_recipes()[max(rho, key=rho.__getitem__)].recipe == TWOROOM.heads["trm"].recipe == Recipe()


def test_verdicts_are_right_in_worlds_that_no_threshold_was_set_on() -> None:
    shares = {row["setting"]: row["ours"] for row in rows_of("verdicts", cost="all")}
    assert shares["simulator"]["right"] >= 95
    assert shares["logs-only"]["wrong"] <= 5
    of_worlds = [row for row in published("verdicts")["rows"] if "verdicts" in row]
    assert len({row["model"] for row in of_worlds}) >= 6
    assert {row["cost"] for row in of_worlds} == {"nothing", *FAULTS}
    assert min(row["ours"]["success"] for row in of_worlds if row["cost"] == "nothing") >= 80
    for world in {row["model"] for row in published("worlds")["rows"]}:
        floor, ceiling = (value("worlds", model=world, cost=cost) for cost in ("random", "oracle"))
        assert floor < 20 < 90 < ceiling


def test_no_head_shares_anything_with_the_evaluation_set() -> None:
    checks = [row for row in published("exclusion")["rows"] if row["seed"] is not None]
    assert [row["excluded_episodes"] for row in checks] == [199] * 9
    assert all(row["ours"]["row_overlap"] == row["ours"]["episode_overlap"] == 0 for row in checks)


PUSHT_CONTROL = ("pusht-25", "pusht-50", "pusht-75", "pusht-sweep", "pusht-final-distance")


@pytest.mark.parametrize("name", [*TWOROOM.table_groups["tworoom"], "toponav", "toponav-readings", *PUSHT_CONTROL])
def test_control_tables_have_floor_and_ceiling(name: str) -> None:
    assert {row["cost"] for row in published(name)["rows"]} >= {"raw", "oracle", "random"}


def test_rankings_agree_with_the_paper() -> None:
    raw, trm, shuffled = (value("sasc", "rank", cost=cost, seed=None) for cost in ("raw", "trm", "shuffled"))
    assert trm < 1 < 20 < raw < shuffled
    (difference,) = rows_of("statistics", cost="trm-complete minus raw", seed=3072)
    assert difference["interval"]["rho_geo"][0] > 0
    assert difference["interval"]["rank"][1] < 0
    assert values("statistics", "p_value", cost="trm minus raw") == [0.25]


def test_pusht_shows_the_papers_pattern() -> None:
    for offset in (25, 50, 75):
        rho = {row["cost"]: row["ours"]["rho_geo"] for row in rows_of("pusht-sasc", setting=f"offset {offset}")}
        assert rho["task-state"] >= 0.9
        assert rho["shuffled"] < 0.5
        assert rho["raw"] < rho["hybrid"]
        found = {row["cost"]: row["ours"]["selected"] for row in rows_of("pusht-selected", setting=f"offset {offset}")}
        assert found["hybrid"] < found["raw"] < found["shuffled-hybrid"]


def test_pusht_differs_from_the_paper_in_success_and_the_audit_blames_sampling() -> None:
    gains = {
        offset: row_of("pusht-differences", cost="hybrid minus raw", setting=f"offset {offset}, 25 actions a plan")
        for offset in (25, 50, 75)
    }
    assert gains[25]["interval"]["success"][1] < 0
    for offset in (50, 75):
        low, high = gains[offset]["interval"]["success"]
        assert low < 0 < high
        audit = row_of("pusht-audit", setting=f"offset {offset}, 25 actions a plan, verdict: sampling")
        assert audit["ours"]["sampling"] < 50
        assert audit["outcomes"]["representation"] == "pass"


@pytest.mark.parametrize(
    ("offset", "cost", "suffix", "least"),
    [(50, "trm-hybrid", "", 0), (75, "raw", "", 0), (50, "raw", ", new pairs", 60), (75, "raw", ", new pairs", 35)],
)
def test_planning_to_the_end_of_the_budget_exceeds_the_papers_planner(
    offset: int, cost: str, suffix: str, least: float
) -> None:
    planner = f"to the end of the budget{', from logs' if suffix else ''}"
    paper, ours = (
        row_of("pusht-fresh", cost=name, setting=f"offset {offset}, {searched}{suffix}")
        for name, searched in (("raw", "25 actions a plan"), (cost, planner))
    )
    assert paper["n"] == ours["n"] == 150
    assert ours["interval"]["success"][0] > paper["interval"]["success"][1]
    assert ours["ours"]["success"] >= least


@pytest.mark.parametrize("model", ["lewm", "pldm"])
def test_a_sixteenth_of_the_rollouts_suffices_with_logs(model: str) -> None:
    full, eighth, sixteenth = (
        row_of("budget", cost="trm-auto", model=model, setting=setting)["ours"]
        for setting in ("CEM 300 x 10", "from logs 75 x 5", "from logs 37 x 5")
    )
    assert min(sixteenth["success"], eighth["success"]) >= full["success"] - 1
    assert eighth["steps"] <= full["steps"] + 1


def test_a_sixteenth_of_the_rollouts_suffices_with_logs_in_other_worlds() -> None:
    worlds = {row["model"] for row in published("budget-worlds")["rows"]}
    assert len(worlds) == 10
    found = np.array([values("budget-worlds", "success", model=world, cost="trm-auto")[:2] for world in worlds])
    logged = np.array([values("budget-worlds", "success", model=world, cost="trm-auto")[-2:] for world in worlds])
    assert (logged >= found[:, 1:]).all()
    # Mean over worlds: 60 episodes of one world cannot resolve one point.
    assert logged[:, 0].mean() >= found[:, 0].mean() - 1


def test_a_directed_head_exceeds_symmetric_ones_at_a_gate_that_opens_one_way() -> None:
    directed = row_of("directed", cost="trm-directed")["interval"]["success"]
    for symmetric in ("trm", "stitched-embedding", "imagined-embedding"):
        assert row_of("directed", cost=symmetric)["interval"]["success"][1] < directed[0]


def test_labels_that_logs_choose_are_as_good_as_logged_times_in_every_world() -> None:
    worlds = {row["model"] for row in published("labels")["rows"]}
    assert len(worlds) == 11
    for world in worlds:
        auto, trm, shuffled = (value("labels", model=world, cost=cost) for cost in ("trm-auto", "trm", "shuffled"))
        assert auto >= trm + (20 if world in ("rooms", "one-way") else 0)
        assert shuffled < 10


@pytest.mark.parametrize("kind", ["lewm", "pldm"])
def test_the_default_ranks_well_on_four_sets(kind: str) -> None:
    assert row_of("tworoom-solved", cost="trm-auto", model=kind, setting="replanning")["n"] == 3 * 2 * 4 * 100
    assert value("tworoom-solved", "rho_geo", cost="trm-auto", model=kind, setting=None) >= 0.93


def test_the_page_of_labels_shows_the_success_of_every_method_in_every_world() -> None:
    page = (RESULTS.parent / "docs/labels.md").read_text()
    header, _, *lines = page[page.index("| cost | tworoom |") :].split("\n\n")[0].splitlines()
    worlds = header.strip("| ").split(" | ")[1:]
    assert len(lines) * len(worlds) == len(published("labels")["rows"])
    for cost, *cells in (line.strip("| ").split(" | ") for line in lines):
        assert cells == [f"{value('labels', model=world, cost=cost):.0f}" for world in worlds]


def test_representation_and_subspace_agree_with_the_paper() -> None:
    assert min(values("probe", "r2")) > 0.998
    assert max(values("subspace", "mse_share", setting="share of latent MSE, high-distance set")) < 100 * 2 / 192
    rowspace, residual = (value("subspace", cost=cost, **FAR) for cost in ("rowspace", "residual"))
    assert rowspace > residual + 40
    assert min(values("attribution", "gradient_share")) > 2 * 100 * 2 / 192
    full, averaged = (values("features", "rho_geo", setting=s) for s in ("all features", "both orders averaged"))
    assert (np.array(averaged) > full).all()


def test_a_moved_door_is_passed_in_some_episodes() -> None:
    for setting in ("door 88", "door 150"):
        raw, moved = (value("layout", cost=cost, setting=setting) for cost in ("raw", "trm"))
        assert raw + 20 < moved < 90


def test_the_audit_of_logs_orders_costs_as_the_simulator_does() -> None:
    for measures in ("logs and SASC", "logs and success"):
        both = row_of("logged-audit", cost=measures)
        assert both["ours"]["agreement"] >= 0.8
        assert min(both["per_model"]) >= 0.8
        assert both["n"] == len(published("logged-audit")["rows"]) - 4 >= 14
