"""What a declared study refuses, and what its runs depend on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reachcost as rc
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs
from reachcost.experiments.runs import AuditRun, ControlRun, SascRun, outcomes
from reachcost.experiments.study import CostPlan, HeadPlan, Member, Setting, cost_plan
from reachcost.experiments.tables import TablePlan, make_table, plain_rows
from reachcost.tasks.exact import ExactDynamics
from reachcost_paper.rows import difference_row

from .cells import record
from .toy import MEMBERS, STUDY, Corridor

RAW = Setting(MEMBERS[0], "raw")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": {"a": [Member("sketch", 1, "x"), Member("sketch", 2, "x")]}}, "two members .* are called 'x'"),
        ({"members": {"a": [Member("other", 1, "x")]}}, "no world model 'other': it has sketch"),
        ({"costs": {"trm": CostPlan(lambda *_: rc.LatentMSE())}}, "'trm' is a head and a cost"),
        ({"name": "a/b"}, "'a/b' cannot be the name of a file"),
        ({"task": Corridor()}, "`task`"),
        ({"costs": {"l1": rc.LatentMSE()}}, "CostPlan"),
        ({"planner": "cem"}, "`planner`"),
    ],
)
def test_a_study_that_would_mix_up_runs_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.ReachcostError, match=message):
        replace(STUDY, **changes)


def test_unknown_metrics_are_found_before_the_work(tmp_path: Path) -> None:
    plan = TablePlan("Typo.", ("rho",), plain_rows(("rho",), lambda: [RowPlan("sketch", "raw")]))
    with pytest.raises(rc.ReachcostError, match="rho_geo"):
        make_table(replace(STUDY, tables={"typo": plan}), "typo", tmp_path)
    assert not (tmp_path / "tables").exists()


def test_a_plan_of_a_head_holds_nothing_that_is_ignored() -> None:
    for options in ({"rows": 20}, {"max_gap": 3}, {"sampling": "random-rows"}, {"directed": True}):
        with pytest.raises(rc.ReachcostError, match="oracle"):
            HeadPlan(labels="oracle", **options)  # pyright: ignore[reportArgumentType]


def test_unknown_tables_kinds_and_costs_are_named(tmp_path: Path) -> None:
    with pytest.raises(rc.ReachcostError, match="kys"):
        make_table(STUDY, "kys", tmp_path)
    with pytest.raises(rc.ReachcostError, match="lewm"):
        STUDY.members_of("lewm")
    with pytest.raises(rc.ReachcostError, match=r"'mse'.*trm, raw"):
        cost_plan(STUDY, "mse")


def test_the_oracle_of_a_foreign_world_knows_that_world(tmp_path: Path) -> None:
    class Mirrored(Corridor):
        """Its moves go the other way."""

        @property
        def world(self) -> str:
            return "mirrored"

        def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
            return super().step(states, 2 - actions)

    foreign = {"mirror": lambda: (Mirrored(), replace(Corridor().evaluation_set(), name="mirror", world="mirrored"))}
    experiment = Experiment(replace(STUDY, foreign_sets=foreign), tmp_path, episodes=6)
    setting = Setting(MEMBERS[0], "oracle", evaluation="mirror")
    record(experiment.cell(ControlRun(setting)))
    assert outcomes(experiment, setting)["success"].mean() == 100


def test_a_budget_is_part_of_an_audit(tmp_path: Path) -> None:
    experiment = Experiment(STUDY, tmp_path, episodes=4)
    short, full = (experiment.cell(AuditRun(setting)) for setting in (replace(RAW, budget=3), RAW))
    assert short.config["budget"] == 3
    assert full.path != short.path


def test_a_pool_is_rolled_out_as_the_setting_says(tmp_path: Path) -> None:
    class Clamped(ExactDynamics):
        """Never moves where actions are clamped."""

        still = False

        def rollout(self, context: Any, actions: Any) -> Any:
            return super().rollout(context, actions * 0 + 1 if self.still else actions)

    def build(task: rc.Task, clamp: bool) -> Clamped:
        model = Clamped(task)
        model.still = clamp
        return model

    experiment = Experiment(replace(STUDY, models={"sketch": build}), tmp_path, episodes=4)
    runs = record(*experiment.cells(SascRun(replace(RAW, clamp=clamp)) for clamp in (True, False)))
    still, moving = (run.table() for run in runs)
    assert set(still["spearman"].to_pylist()) == {0.0} != set(moving["spearman"].to_pylist())


def test_the_last_bin_is_closed(tmp_path: Path) -> None:
    far = Corridor().distance(Corridor().evaluation_set().starts, Corridor().evaluation_set().goals)
    bins = {"near": (0, 16), "middle": (16, 18)}
    experiment = Experiment(replace(STUDY, bins=bins), tmp_path)
    setting = Setting(MEMBERS[0], "random")
    record(experiment.cell(ControlRun(setting)))
    found = outcomes(experiment, setting)
    assert len(found["middle"]) == ((far >= 16) & (far <= 18)).sum() < (far >= 16).sum()


def test_a_difference_is_never_certain(tmp_path: Path) -> None:
    experiment = Experiment(STUDY, tmp_path, episodes=4)
    plan = RowPlan("sketch", "raw")
    record(*row_runs(experiment, [plan]))
    row = difference_row(experiment, plan, plan)
    low, high = row.interval["success"]
    assert low < row.ours["success"] == 0 < high
