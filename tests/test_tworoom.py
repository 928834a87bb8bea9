"""TwoRoom: geometry, collisions, drawing, logs, evaluation sets, outcomes."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from reachcost.errors import ReachcostError
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.tasks.tworoom.layout import solid_intervals

LAYOUTS = st.builds(
    Layout,
    wall=st.sampled_from(["vertical", "horizontal"]),
    thickness=st.integers(7, 41),
    doors=st.lists(st.tuples(st.floats(20, 200), st.floats(8, 21)), min_size=1, max_size=3).map(tuple),
    radius=st.floats(7, 14),
    speed=st.floats(1.75, 10.5),
)
TASK = TwoRoom()


def some_states(layout: Layout, count: int = 200, seed: int = 0) -> np.ndarray:
    """Positions outside the wall zone."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(21, 203, (4 * count, 2)).astype(np.float32)
    clear = np.abs(states[:, layout.across] - 112) > layout.half + layout.radius + 0.5
    return states[clear][:count]


def test_the_wall_stops_and_the_door_lets_through() -> None:
    right = np.array([[1.0, 0.0]] * 2)
    states = np.array([[98.0, 150.0], [98.0, 49.0]])
    for _ in range(6):
        states = TASK.step(states, right)
    assert states.tolist() == [[99.5, 150.0], [128.0, 49.0]]


def test_actions_are_clipped_and_the_border_holds() -> None:
    assert TASK.step(np.array([[50.0, 50.0]]), np.array([[9.0, -9.0]])).tolist() == [[55.0, 45.0]]
    assert TASK.step(np.array([[22.0, 202.0]]), np.array([[-1.0, 1.0]])).tolist() == [[21.0, 203.0]]


@given(LAYOUTS)
def test_a_swept_agent_never_enters_solid_wall(layout: Layout) -> None:
    task = TwoRoom(layout, collision="swept")
    rng = np.random.default_rng(1)
    states = some_states(layout)
    for _ in range(30):
        states = task.step(states, rng.normal(0, 1, states.shape))
        in_zone = np.abs(states[:, layout.across] - 112) < layout.half + layout.radius - 1e-3
        for low, high in solid_intervals(layout):
            along = states[:, layout.along]
            assert not (in_zone & (along > low + 1e-3) & (along < high - 1e-3)).any()


@pytest.mark.parametrize("radius", [7.0, 7.1, 7.6, 8.2])
def test_a_swept_agent_stays_before_the_wall_and_slides_along_it(radius: float) -> None:
    task = TwoRoom(Layout(radius=radius, doors=((49.0, 14.3),)), collision="swept")
    states = np.array([[90.0, 150.0], [112.0, 49.0]])
    for _ in range(40):
        states = task.step(states, np.array([[1.0, 0.4], [0.0, 1.0]]))
    assert states[0] == pytest.approx([112 - 5 - radius, 210 - radius], abs=1e-2)
    assert states[1] == pytest.approx([112.0, 49 + 14.3 + 1.75], abs=1e-2)


def test_an_agent_in_solid_wall_is_put_outside() -> None:
    for mode in ("endpoint", "swept"):
        assert TwoRoom(collision=mode).step(np.array([[112.0, 150.0]]), np.zeros((1, 2))).tolist() == [[124.5, 150.0]]


def test_the_endpoint_test_cuts_corners_that_the_swept_test_does_not() -> None:
    start, action = np.array([[99.9, 66.0]]), np.array([[1.0, -1.0]])
    assert TwoRoom().step(start, action)[0, 0] > 100
    assert TwoRoom(collision="swept").step(start, action)[0, 0] <= 100


@given(LAYOUTS)
def test_geodesic_is_a_symmetric_detour(layout: Layout) -> None:
    starts, goals = some_states(layout, seed=3), some_states(layout, seed=4)
    count = min(len(starts), len(goals))
    starts, goals = starts[:count], goals[:count]
    forth, back = layout.geodesic(starts, goals), layout.geodesic(goals, starts)
    straight = np.linalg.norm(starts.astype(float) - goals, axis=1)
    required = layout.doorway_required(starts, goals)
    np.testing.assert_allclose(forth, back)
    assert (forth >= straight - 1e-9).all()
    np.testing.assert_allclose(forth[~required], straight[~required])
    assert (layout.room(starts) != layout.room(goals))[required].all()


def test_geodesic_by_hand() -> None:
    layout = Layout()
    starts, goals = np.array([[52.0, 143.0], [52.0, 49.0]]), np.array([[172.0, 143.0], [172.0, 49.0]])
    assert layout.doorway_required(starts, goals).tolist() == [True, False]
    assert layout.geodesic(starts, goals).tolist() == pytest.approx([2 * np.hypot(60, 80), 120])


def sampled_doorway_required(layout: Layout, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Whether any of 4001 points of the segment is in the wall and in no door."""
    share = np.linspace(0, 1, 4001)[:, None, None]
    points = starts + share * (goals - starts)
    in_wall = np.abs(points[..., layout.across] - 112) <= layout.half
    solid = (in_wall & ~layout.in_door(points[..., layout.along])).any(0)
    return solid & (layout.room(starts) != layout.room(goals))


@given(LAYOUTS)
def test_doorway_required_agrees_with_points_of_the_segment(layout: Layout) -> None:
    starts, goals = some_states(layout, seed=5)[:40].astype(float), some_states(layout, seed=6)[:40].astype(float)
    count = min(len(starts), len(goals))
    found, expected = (
        layout.doorway_required(starts[:count], goals[:count]),
        sampled_doorway_required(layout, starts[:count], goals[:count]),
    )
    assert (found != expected).mean() <= 0.05  # samples can miss a corner


def test_overlapping_doors_are_one_opening_and_unreachable_ones_none() -> None:
    double = Layout(doors=((49.0, 14.0), (75.0, 14.0)))
    start, goal = np.array([[100.0, 50.0]]), np.array([[124.0, 74.0]])
    assert not double.doorway_required(start, goal)[0]
    outside = Layout(doors=((5.0, 8.0), (180.0, 14.0)))
    start, goal = np.array([[90.0, 30.0]]), np.array([[134.0, 30.0]])
    assert outside.geodesic(start, goal)[0] > 270
    assert np.isinf(Layout(doors=((5.0, 8.0),)).geodesic(start, goal)[0])


def test_frames_show_walls_door_and_agent() -> None:
    frame = TASK.render(np.array([[60.0, 150.0]]))[0]
    assert frame.shape == (224, 224, 3)
    assert frame[150, 60].tolist() == [255, 0, 0]
    assert frame[180, 112].tolist() == [0, 0, 0]
    assert frame[49, 112].tolist() == [255, 255, 255]
    assert frame[12, 30].tolist() == [0, 0, 0]
    assert frame[5, 5].tolist() == [255, 255, 255]


@pytest.mark.parametrize("size", [64, 96, 112])
def test_low_resolution_averages_the_frame(size: int) -> None:
    states = some_states(Layout(), 20)
    large, small = TASK.render(states).astype(float), TASK.render(states, size).astype(float)
    edges = np.arange(size + 1) * 224 / size
    weights = np.clip(
        np.minimum(edges[1:, None], np.arange(224) + 1) - np.maximum(edges[:-1, None], np.arange(224)), 0, None
    )
    averaged = (weights @ large.transpose(0, 3, 1, 2) @ weights.T).transpose(0, 2, 3, 1) * (size / 224) ** 2
    difference = np.abs(averaged - small)
    assert difference.mean() < 1.0
    assert np.percentile(difference, 99.5) < 16


def test_categories_name_outcomes() -> None:
    goal, start = [160.0, 150.0], [60.0, 150.0]
    ends = {
        "success": [150.0, 150.0],
        "wrong_room": [99.5, 150.0],
        "stuck": [124.5, 180.0],
        "crossed_not_precise": [180.0, 60.0],
    }
    states = np.array(list(ends.values()))
    category = TASK.category(np.array([start] * 4), states, np.array([goal] * 4))
    assert category.tolist() == list(ends)
    same = TASK.category(np.array([[180.0, 180.0]]), np.array([[180.0, 60.0]]), np.array([goal]))
    assert same.tolist() == ["same_room_not_precise"]


IMPOSSIBLE: list[dict[str, Any]] = [
    *({"doors": doors} for doors in ((), ((49.0, 0.0),), ((49.0, 14.0, 1.0),), (49.0, 14.0))),
    *({"wall": "round"}, {"speed": 0.0}, {"thickness": -1}, {"thickness": 200}),
    *({"radius": float("nan")}, {"radius": 120.0}),
]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TASK.step(np.zeros((3, 2)), np.zeros((3, 10))), r"\[N, 2\]"),
        (lambda: TASK.step(np.zeros((2, 2)), np.array([[0.0, 0.0], [np.nan, 0.0]])), "action 1"),
        (lambda: TASK.render(np.array([[60.0, 60.0], [np.nan, 60.0]])), "state 1"),
        (lambda: TASK.render(np.array([[60.0, 60.0], [60.0, 400.0]])), "state 1"),
        (lambda: TASK.render(np.zeros((2, 3))), r"\[N, 2\]"),
        (lambda: TASK.render(np.array([[60.0, 60.0]]), 0), "0 px"),
        (lambda: TASK.render(np.array([[60.0, 60.0]]), 100_000), "100000 px"),
        (lambda: TwoRoom(pixels=4), "4 px"),
        (lambda: TwoRoom(collision="soft"), "'soft'"),  # pyright: ignore[reportArgumentType]
        (lambda: TASK.generate_logs(episodes=0), "0 episodes"),
        *((partial(Layout, **change), "layout:") for change in IMPOSSIBLE),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        call()


def test_gymnasium_accepts_the_environment() -> None:
    environment = gymnasium.make("reachcost/TwoRoom-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)
    with pytest.raises(ReachcostError, match="reset options"):
        environment.unwrapped.reset(options={"state": (60, 60)})
    _, info = environment.reset(options={"start": (60, 60), "goal": (80, 60)})
    assert info["distance"] == 20
    *_, terminated, _, info = environment.step(np.array([1.0, 0.0], np.float32))
    assert terminated
    assert info["state"].tolist() == [65, 60]
