"""The study of the suite: its packages are required first, and verdicts are counted as its notes describe."""

from dataclasses import replace
from pathlib import Path

import pytest

from reachcost.audits.stages import CANNOT_TELL
from reachcost.cli import main
from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Recording
from reachcost.experiments.registry import require_ready, results_of
from reachcost.fitting.repair import LabelledRecipe
from reachcost.heads.recipe import Recipe
from reachcost.planning.cem import CEM
from reachcost_paper.suite import STUDY, tables, verdicts
from reachcost_paper.suite.verdicts import LOGS_ONLY, NOTHING, SIMULATOR, TUNED, AuditOutcome, summary_rows
from reachcost_paper.worlds import suite
from reachcost_paper.worlds import tasks as world_tasks
from tests.cells import record


def outcome(where: str, condition: str, succeeds: bool, simulator: str, logs: str = CANNOT_TELL) -> AuditOutcome:
    return AuditOutcome(
        where, condition, 30, 90.0 if succeeds else 10.0, succeeds, {SIMULATOR: simulator, LOGS_ONLY: logs}
    )


def test_missing_packages_are_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_tasks, "find_spec", lambda package: None if package == "mujoco" else True)
    with pytest.raises(ReachcostError, match="mujoco"):
        require_ready(results_of("all"))
    assert main(["reproduce", "verdicts", "--out", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()


def test_records_name_the_evaluation_set_of_their_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_world = suite()["open"]
    search = CEM(candidates=8, iterations=1, elites=2)
    small = replace(open_world, pairs=2000, planner=search, recipe=LabelledRecipe(Recipe(epochs=1)))
    for module in (tables, verdicts):
        monkeypatch.setattr(module, "suite", lambda: {"open": small})
    recording = Recording(STUDY, tmp_path)
    for run in record(*recording.cells([tables.WorldRun("open"), verdicts.VerdictRun("open", NOTHING)])):
        assert run.manifest["config"]["evaluation_set_sha256"] == small.evaluation(small.task(), "report").fingerprint


@pytest.mark.parametrize(
    ("one", "simulator", "logs"),
    [
        (outcome("arm", NOTHING, True, "none"), "right", "cannot_tell"),
        (outcome("arm", NOTHING, True, "none", "ranking"), "right", "wrong"),
        (outcome("arm", NOTHING, False, "ranking"), "wrong", "cannot_tell"),
        (outcome("arm", "gap-in-logs", False, "coverage", "coverage"), "right", "right"),
        (outcome("arm", "gap-in-logs", False, CANNOT_TELL, "ranking"), "cannot_tell", "wrong"),
        (outcome("arm", "gap-in-logs", True, "none", "coverage"), "right", "right"),
        (outcome("arm", "gap-in-logs", True, "coverage"), "wrong", "cannot_tell"),
        (outcome("heading", "wandering-logs", False, "ranking", "ranking"), "right", "right"),
        (outcome("heading", "wandering-logs", True, "none", "ranking"), "right", "wrong"),
    ],
)
def test_a_verdict_is_scored_by_the_fault_and_its_harm(one: AuditOutcome, simulator: str, logs: str) -> None:
    assert (one.score(SIMULATOR), one.score(LOGS_ONLY)) == (simulator, logs)


def test_shares_are_over_held_back_worlds_and_separate_harmless_faults() -> None:
    found = [
        outcome("arm", NOTHING, True, "none"),
        outcome("arm", "shuffled-head", False, "ranking", "ranking"),
        outcome("arm", "gap-in-logs", True, "none"),
        outcome("hill", "shuffled-head", False, "goals", "dynamics"),
        outcome("open", "shuffled-head", False, "goals", "dynamics"),
    ]
    rows = [row.as_json() for row in summary_rows(found, TUNED)]
    shares = {(row["cost"], row["setting"]): row for row in rows if row["model"] == "held-back worlds"}
    assert {*TUNED} < {*suite()}
    assert shares["all", "simulator"]["ours"] == {"right": 75, "wrong": 25, "cannot_tell": 0}
    assert shares["all", "logs-only"]["ours"] == {"right": 25, "wrong": 25, "cannot_tell": 50}
    assert [shares[kind, "simulator"]["n"] for kind in ("all", "failing", "harmless")] == [4, 2, 1]
    assert shares["failing", "simulator"]["ours"]["right"] == 50
    assert shares["shuffled-head", "simulator"]["ours"]["wrong"] == 50
    low, high = shares["all", "simulator"]["interval"]["right"]
    assert low < 75 < high
    assert len([row for row in rows if row["cost"] == "all"]) == 2
    tuned = {row["cost"]: row["n"] for row in rows if row["model"] == "tuned worlds" and row["setting"] == "simulator"}
    assert tuned == {"tuned: all": 1, "tuned: failing": 1, "tuned: harmless": 0}
    (line,) = [row for row in rows if row["model"] == "open*"]
    assert line["setting"] == "simulator: goals (wrong); logs-only: dynamics (wrong)"
