"""The study of PushT, made small: final success, rows over several sets, and one executed plan."""

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.core.seeding import EpisodeStreams
from reachcost.experiments.experiment import Experiment
from reachcost.experiments.rows import RowPlan, row_runs, table_row
from reachcost.experiments.runs import ControlRun, outcomes
from reachcost.experiments.study import Setting
from reachcost.planning.control import control
from reachcost_paper.pusht import STUDY
from reachcost_paper.pusht.settings import MEMBER, MODEL, sets
from reachcost_paper.pusht.tables import SelectionRun, execute_watched, selections
from reachcost_paper.rows import row_values
from tests.cells import record
from tests.small import smaller

pytest.importorskip("pymunk")
QUICK = rc.CEM(candidates=8, iterations=2, elites=4, blocks=1)
SMALL = smaller(STUDY, 30, planner=QUICK)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return Experiment(SMALL, tmp_path_factory.mktemp("pusht"), episodes=2)


def test_final_success_is_that_of_the_last_state(experiment: Experiment) -> None:
    setting = Setting(MEMBER, "raw", evaluation=sets(50)[0])
    task, goals = experiment.place(setting.evaluation)
    model = experiment.model(MEMBER.model)
    runs = control(task, model, {"raw": rc.LatentMSE()}, goals, QUICK, seed=MEMBER.seed)
    (run,) = record(experiment.cell(ControlRun(setting)))
    found = outcomes(experiment, setting)
    np.testing.assert_array_equal(found["final_success"], 100.0 * task.success(runs.paths[0, :, -1], goals.goals))
    np.testing.assert_array_equal(found["distance"], runs.final_distance[0])
    assert "final_success" in run.table().column_names


def test_a_row_counts_the_episodes_of_several_sets(experiment: Experiment) -> None:
    full = RowPlan(MODEL, "raw", sets=sets(50))
    record(*row_runs(experiment, [full]))
    parts = [row_values(experiment, part)["distance"] for part in full.parts()]
    assert [part.shape for part in parts] == [(1, 2)] * 3
    row = table_row(experiment, full, ("success", "distance"))
    assert row.n == 6
    assert row.ours["distance"] == pytest.approx(np.mean(parts))
    assert [run.split("-raw")[0] for run in row.runs] == [f"lewm-3072-{name}" for name in sets(50)]


def test_one_plan_is_scored_by_executing_its_candidates(experiment: Experiment) -> None:
    setting, planner = Setting(MEMBER, "raw", evaluation=sets(25)[0]), rc.CEM(candidates=8, iterations=2, elites=4)
    record(experiment.cell(SelectionRun(setting, planner)))
    found = selections(experiment, setting, planner)
    task, goals = experiment.place(setting.evaluation)
    model = experiment.model(MEMBER.model)
    start, goal = (model.encode(task.observe(states)) for states in (goals.starts, goals.goals))
    streams = EpisodeStreams(MEMBER.seed, "plan", goals.episodes, 0)
    rounds = []
    with torch.no_grad():
        watched = rc.PlanContext(model, rc.LatentMSE(), start[:, None], goal, streams, watch=rounds.append)
        mean, search = planner.plan(watched), rounds[-1]
    actions = model.actions.unroll(torch.cat([search.pool, mean[:, None]], 1).numpy())  # pyright: ignore
    for episode in range(2):
        here = np.repeat(goals.starts[episode : episode + 1], 9, axis=0)
        there = np.repeat(goals.goals[episode : episode + 1], 9, axis=0)
        reached = np.zeros(9, bool)
        for step in range(25):
            here = task.step(here, actions[episode, :, step])
            reached |= task.success(here, there)
        distance, chosen = task.distance(here, there), int(search.costs[episode].argmin())
        assert found["refined"][episode] == pytest.approx(distance[8])
        assert found["pool_best"][episode] == pytest.approx(distance[:8].min())
        assert found["selected"][episode] == pytest.approx(distance[chosen])
        assert found["selected_success"][episode] == 100 * reached[chosen]
        assert found["selected_final"][episode] == 100 * task.success(here, there)[chosen]


def test_execution_counts_goals_that_were_passed() -> None:
    task = rc.make_task("pusht")
    start = np.array([[100.0, 100, 300, 300, 0, 0, 0]])
    plans = np.full((1, 1, 6, 2), (1.0, 0.0))
    passed = task.step(start, plans[0, :, 0])
    ends, reached = execute_watched(task, rc.EvaluationSet(start, passed), plans)
    assert reached.tolist() == [[True]]
    assert ends.shape == (1, 1, 7)
    assert not task.success(ends[:, 0], passed).any()
