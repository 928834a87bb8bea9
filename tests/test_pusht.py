"""PushT: geometry, physics, drawing, outcomes."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from reachcost.errors import ReachcostError
from reachcost.tasks.pusht import PushT
from reachcost.tasks.pusht.geometry import AGENT_RADIUS, clearance, corners, touches_walls
from reachcost.tasks.pusht.physics import SECONDS, agent_path, push_away_from_walls, push_by_pymunk
from reachcost.tasks.pusht.renderer import background

pytestmark = pytest.mark.processor

TASK = PushT()
ANGLES = st.floats(0, 2 * np.pi)


def near_states(count: int, seed: int = 0, room: tuple[float, float] = (180.0, 330.0)) -> np.ndarray:
    """Moving agents next to Ts that are away from walls."""
    rng = np.random.default_rng(seed)
    poses = np.concatenate([rng.uniform(*room, (40 * count, 2)), rng.uniform(0, 2 * np.pi, (40 * count, 1))], axis=1)
    agents = poses[:, :2] + rng.uniform(-130, 130, (40 * count, 2))
    states = np.concatenate([agents, poses, rng.normal(0, 80, (40 * count, 2))], axis=1)
    apart = clearance(agents, poses)
    return states[(apart > AGENT_RADIUS) & (apart < 2 * AGENT_RADIUS)][:count]


def some_actions(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 2))


def test_the_agent_moves_freely_and_the_block_only_by_contact() -> None:
    state = np.array([[100.0, 100.0, 300.0, 300.0, 1.0, 0.0, 0.0]])
    after = TASK.step(state, np.array([[0.5, 0.0]]))
    assert after[0, 0] > 110
    assert after[0, 2:5].tolist() == [300.0, 300.0, 1.0]
    pushed = np.array([[300.0, 180.0, 300.0, 200.0, 0.0, 0.0, 0.0]])  # above the bar, which is 200 to 230
    for _ in range(5):
        pushed = TASK.step(pushed, np.array([[0.0, 0.5]]))
    assert pushed[0, 3] > 230
    assert pushed[0, [2, 4]].tolist() == [300, 0]


def test_actions_are_relative_and_not_clipped() -> None:
    state = np.array([[100.0, 100.0, 400.0, 400.0, 0.0, 0.0, 0.0]])
    moved = [TASK.step(state, np.array([[length, 0.0]]))[0, 0] - 100 for length in (1.0, 2.0)]
    assert moved[1] == pytest.approx(2 * moved[0])


@given(st.floats(0, 512), st.floats(0, 512), ANGLES)
def test_clearance_agrees_with_a_dense_outline(x: float, y: float, angle: float) -> None:
    pose = np.array([250.0, 250.0, angle])
    found = float(clearance(np.array([x, y]), pose))
    ring = corners(pose)
    shares = np.linspace(0, 1, 200)[:, None]
    outline = np.concatenate([a + shares * (b - a) for a, b in zip(ring, np.roll(ring, -1, 0), strict=True)])
    nearest = np.linalg.norm(outline - [x, y], axis=1).min()
    assert found == 0 or found == pytest.approx(nearest, abs=0.5)


def test_contacts_equal_those_of_pymunk() -> None:
    states, actions = near_states(400), some_actions(400)
    path, velocities = agent_path(states[:, :2], states[:, 5:], actions)
    moves = np.concatenate([states[:, None, 5:], velocities], axis=1)
    ours, left = push_away_from_walls(path, moves, states[:, 2:5])
    starts = states[:, :2] - SECONDS * states[:, 5:]
    theirs = push_by_pymunk(starts, states[:, 2:5], moves, np.zeros(len(states), int))
    assert (np.abs(theirs - states[:, 2:5]).max(1) > 1).mean() > 0.2
    assert left.mean() < 0.2
    np.testing.assert_allclose(ours[~left], theirs[~left], atol=1e-9)


def test_a_step_depends_on_its_row_alone() -> None:
    states = np.concatenate([near_states(150), near_states(150, 1, (20, 490))])  # also Ts in walls
    actions = some_actions(len(states))
    assert touches_walls(states[:, 2:5]).any()
    together = TASK.step(states, actions)
    order = np.random.default_rng(2).permutation(len(states))
    assert np.array_equal(TASK.step(states[order], actions[order]), together[order])
    for row in range(0, len(states), 37):
        assert np.array_equal(TASK.step(states[row : row + 1], actions[row : row + 1])[0], together[row])


def test_frames_show_agent_block_walls_and_the_green_t() -> None:
    state = np.array([[100.0, 400.0, 350.0, 100.0, 0.0, 0.0, 0.0]])
    frame = TASK.render(state)[0].astype(int)
    assert frame.shape == (224, 224, 3)
    assert frame[175, 43].tolist() == [78, 126, 255]  # the agent
    assert frame[50, 153].tolist() == [142, 163, 183]  # the bar
    assert frame[2, 100].tolist() == [211, 211, 211]
    assert frame[118, 106].tolist() == [144, 238, 144]
    assert np.abs(frame - background(224)).max(-1).sum() > 0
    small = TASK.render(state, 64)
    shrunk = frame.reshape(32, 7, 32, 7, 3).mean((1, 3))
    assert np.abs(small[0].reshape(32, 2, 32, 2, 3).mean((1, 3)) - shrunk).mean() < 2


@given(st.floats(-100, 600), st.floats(-100, 600), ANGLES)
def test_shapes_outside_the_window_are_cut_off(x: float, y: float, angle: float) -> None:
    states = np.array([[y, x, x, y, angle, 0, 0]])
    assert np.array_equal(TASK.render(states, 32), TASK.render(np.repeat(states, 2, 0), 32)[1:])


def test_observations_are_rendered_when_read() -> None:
    seen = TASK.observe(near_states(3))
    assert sorted(seen) == ["pixels", "pixels_64", "proprio", "state"]
    assert seen["pixels_64"].shape == (3, 64, 64, 3)
    assert np.array_equal(seen["proprio"], seen["state"][:, [0, 1, 5, 6]])


def test_success_needs_agent_block_and_angle() -> None:
    goal = np.array([[100.0, 100, 300, 300, 0.1, 0, 0]] * 5)
    state = goal.copy()
    state[1, 0] += 21
    state[2, [0, 2]] += 15  # 21.2 together
    state[3, 4] += 0.4
    state[4, 4] = 2 * np.pi - 0.1
    assert TASK.success(state, goal).tolist() == [True, False, False, False, True]
    assert TASK.distance(state, goal).round(3).tolist() == [0, 21, 21.213, 22.918, 11.459]


def test_categories_and_groups_name_episodes() -> None:
    goal = np.array([[100.0, 100, 300, 300, 0.0, 0, 0]] * 5)
    starts, states = goal.copy(), goal.copy()
    starts[:, 2] = 200
    states[1, 2] = 200
    states[2, 4] = 1
    states[3, 0] = 200
    states[4, 3] = 200
    names = TASK.category(starts, states, goal).tolist()
    assert names == ["success", "not_pushed", "turned_wrong", "agent_away", "block_away"]
    groups = TASK.groups(np.concatenate([starts[:1], goal[:1]]), goal[:2])
    assert [mask.tolist() for mask in groups.values()] == [[False, True], [True, False]]


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (np.zeros((2, 5)), np.zeros((2, 2)), "N, 7"),
        (np.zeros((1, 7)), np.full((1, 2), np.nan), "action 0 is"),
        (np.full((1, 7), np.inf), np.zeros((1, 2)), "state 0 is"),
    ],
)
def test_wrong_states_and_actions_are_refused(states: np.ndarray, actions: np.ndarray, message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        TASK.step(states, actions)


def test_without_pymunk_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pymunk", None)
    with pytest.raises(ReachcostError, match="pusht"):
        TASK.step(near_states(1), some_actions(1))


def test_gymnasium_accepts_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(gymnasium.make("reachcost/PushT-v0", render_mode="rgb_array").unwrapped)
