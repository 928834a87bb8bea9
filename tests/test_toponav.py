"""The task is the paper's: geometry, drawing, distances, logs, evaluation pairs, Gymnasium."""

import warnings
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from reachcost import make_task
from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import ReachcostError
from reachcost.tasks.toponav.task import MOVES, TopoNav

pytestmark = pytest.mark.processor


def test_map_has_677_free_cells_two_walls_and_two_doors(task: TopoNav) -> None:
    assert len(task.cells) == 677
    assert np.argwhere(task.free[9]).tolist() == [[4]]
    assert np.argwhere(task.free[19]).tolist() == [[24]]
    assert not task.free[[0, -1]].any()
    assert not task.free[:, [0, -1]].any()


def test_moves_into_walls_change_nothing_and_others_move_one_cell(task: TopoNav) -> None:
    for action, move in enumerate(MOVES):
        after = task.step(task.cells, np.full((677, 1), action))
        target = task.cells + move
        expected = np.where(task.free[target[:, 0], target[:, 1]][:, None], target, task.cells)
        np.testing.assert_array_equal(after, expected)


@given(st.integers(0, 676), st.integers(0, 676))
def test_routes_are_shortest_and_then_stay(start: int, goal: int) -> None:
    task = SHARED
    cells = task.cells
    length = int(task.distances[start, goal])
    route = task.routes(cells[[start]], cells[[goal]], length + 3)[0]
    here = cells[[start]]
    for action in route:
        here = task.step(here, np.array([[action]]))
    assert (here[0] == cells[goal]).all()
    assert (route[:length] != 0).all()
    assert (route[length:] == 0).all()


SHARED = TopoNav()


def test_routes_go_up_or_down_before_left_or_right(task: TopoNav) -> None:
    route = task.routes(np.array([[2, 10]]), np.array([[5, 7]]), 6)[0]
    assert route.tolist() == [1, 1, 1, 4, 4, 4]


def test_frames_have_the_paper_colours(task: TopoNav) -> None:
    frame = task.render(np.array([[1, 2]]), np.array([[27, 26]]))[0]
    assert frame.shape == (145, 145, 3)
    assert frame[12, 7].tolist() == [26, 82, 242]  # agent 0.10, 0.32, 0.95
    assert frame[132, 137].tolist() == [26, 191, 56]  # goal 0.10, 0.75, 0.22
    assert frame[0, 0].tolist() == [20, 20, 20]
    assert frame[5, 5].tolist() == [235, 235, 235]


def test_logs_follow_shortest_paths(task: TopoNav) -> None:
    logs = task.generate_logs()
    assert len(logs) == 2500
    states, last = logs.columns["state"], logs.offsets + logs.lengths - 1
    np.testing.assert_array_equal(task.distance(states[logs.offsets], states[last]), logs.lengths - 1)
    inside = np.ones(len(states), bool)
    inside[last] = False
    after = task.step(states[inside], logs.columns["action"][inside])
    np.testing.assert_array_equal(after, states[np.flatnonzero(inside) + 1])


def test_evaluation_pairs_meet_the_three_constraints(task: TopoNav, evaluation: EvaluationSet) -> None:
    graph = task.distance(evaluation.starts, evaluation.goals)
    apart = np.abs(evaluation.starts - evaluation.goals)
    assert len(evaluation) == 120
    assert (graph >= 18).all()
    assert (graph >= 1.45 * np.hypot(*apart.T)).all()
    assert (apart.sum(1) >= 12).all()
    both = np.sort(np.stack([task.index(evaluation.starts), task.index(evaluation.goals)]), axis=0)
    assert len(np.unique(both, axis=1).T) == 120


def test_evaluation_set_is_frozen(evaluation: EvaluationSet) -> None:
    assert evaluation.fingerprint == "79f96d6feb265ffa72c61ced85f67d552cb9ca5b414aff789a5d79ea7f7dc4e3"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda task, cell=cell: task.step(np.array([cell]), np.array([[0]])), "free")
            for cell in ((0, 0), (-1, 3), (400, 2))
        ),
        *((lambda task, move=move: task.step(task.cells[:1], np.array([[move]])), "0 to 4") for move in (-1, 5)),
        (lambda task: make_task("maze"), "tworoom, toponav"),
        (lambda task: make_task("toponav", pixels=64), "pixels"),
        (lambda task: make_task("tworoom", size=64), "layout, collision, pixels"),
        (lambda task: task.evaluation_set("hard"), "'hard'"),
        (lambda task: task.evaluation_set(episodes=10**6), "1000000 episodes cannot be sampled"),
    ],
)
def test_wrong_arguments_are_refused(task: TopoNav, call: Callable[[TopoNav], object], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        call(task)


def test_categories_name_outcomes(task: TopoNav) -> None:
    starts, goals = np.array([[3, 3]] * 3), np.array([[27, 27]] * 3)
    states = np.array([[27, 27], [25, 25], [3, 3]])
    assert task.category(starts, states, goals).tolist() == ["success", "right_room", "wrong_room"]


def test_gymnasium_accepts_the_environment() -> None:
    environment = gymnasium.make("reachcost/TopoNav-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)


def test_an_environment_episode_ends_on_the_goal(task: TopoNav) -> None:
    environment = gymnasium.make("reachcost/TopoNav-v0")
    start, goal = (8, 4), (10, 4)
    _, info = environment.reset(options={"start": start, "goal": goal})
    assert info["distance"] == 2
    assert environment.step(4)[1:3] == (-1.0, False)
    assert environment.step(4)[1:3] == (0.0, True)
