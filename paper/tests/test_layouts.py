"""TwoRoom in many layouts: rows have their own layout, and test layouts are never logged for training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reachcost.cli import main
from reachcost.core.seeding import generator
from reachcost.data.logs import Logs
from reachcost.data.logs_columns import WORLD_COLUMN
from reachcost.data.logs_files import write_logs
from reachcost.errors import ReachcostError
from reachcost.tasks.check import check_task
from reachcost.tasks.tworoom import Layout, TwoRoom
from reachcost.worldmodels.loading import load_world_model
from reachcost.worldmodels.objectives import Refinement, TrainingPlan, lewm_loss
from reachcost.worldmodels.training import Training, train_world_model
from reachcost_paper.worlds.layouts import (
    APART,
    TESTED,
    TUNING,
    VariedTwoRoom,
    held_out_distance,
    layouts_of,
    marks_of,
    training_layout,
)

pytestmark = pytest.mark.processor


@pytest.fixture(scope="module")
def logs() -> Logs:
    return VariedTwoRoom().generate_logs(episodes=60, seed=5)


def test_rows_are_rendered_and_moved_in_their_layout(logs: Logs) -> None:
    task, rows = VariedTwoRoom(), np.arange(0, logs.rows, 97)
    check_task(VariedTwoRoom(pixels=64))
    states, actions = logs.columns["state"][rows], logs.columns["action"][rows]
    frames, moved, far = task.render(states, 64), task.step(states, actions), task.distance(states, states[::-1])
    layouts, which = layouts_of(states)
    assert len(layouts) == 15
    for row, number in enumerate(which):
        world, here = TwoRoom(layouts[number]), states[row : row + 1, :2]
        assert np.array_equal(frames[row : row + 1], world.render(here, 64))
        assert np.array_equal(moved[row : row + 1, :2], world.step(here, actions[row : row + 1]))
        assert far[row] == world.distance(here, states[::-1][row : row + 1, :2])[0]
    assert np.array_equal(moved[:, 2:], states[:, 2:])


def test_logs_replay_in_the_simulator(logs: Logs) -> None:
    rows = logs.window_starts(2)
    after = VariedTwoRoom().step(logs.columns["state"][rows], logs.columns["action"][rows])
    assert np.array_equal(after, logs.columns["state"][rows + 1])


@pytest.mark.parametrize("layout", [Layout(), Layout(wall="horizontal", doors=((40.0, 17.5), (180.0, 17.5)))])
def test_a_state_holds_its_layout(layout: Layout) -> None:
    states = np.concatenate([np.array([60.0, 150.0], np.float32), marks_of(layout)])[None]
    assert layouts_of(states)[0] == [layout]
    with pytest.raises(ReachcostError, match="second door"):
        layouts_of(states[:, :2])


def test_training_layouts_vary_and_avoid_test_layouts() -> None:
    sampled = [training_layout(1, number) for number in range(500)]
    assert {len(layout.doors) for layout in sampled} == {1, 2}
    assert {layout.wall for layout in sampled} == {"vertical", "horizontal"}
    assert len(set(sampled)) > 300
    assert len({layout.doors[0][1] for layout in sampled}) > 30
    assert min(held_out_distance(layout) for layout in sampled) > APART
    assert TESTED["published"] == Layout()
    assert all(held_out_distance(layout) == 0 for layout in (*TESTED.values(), *TUNING.values()))


# World models of several worlds

TINY = TrainingPlan(
    seed=5, steps=2, refinement=2, windows=8, worlds=2, transitions=32, ahead=3, holdout=0.2, threads=1, projections=16
)


def test_windows_of_an_update_come_from_few_worlds(logs: Logs) -> None:
    training = Training(logs, TINY)
    read: list[np.ndarray] = []
    training.train.read = lambda starts: read.append(starts)  # pyright: ignore[reportAttributeAccessIssue]
    training.train.sample(8, generator(0, "windows"), worlds=2)
    worlds = logs.columns[WORLD_COLUMN][read[0]]
    assert len(set(worlds[:4])) == len(set(worlds[4:])) == 1
    assert worlds[0] != worlds[4]


def test_sigreg_is_computed_per_world() -> None:
    """Latents that tell worlds apart and nothing else look normal only where worlds are mixed."""
    torch.manual_seed(0)
    directions = torch.nn.functional.normalize(torch.randn(8, 64), dim=0)
    still, moving = torch.randn(128, 1, 8), torch.randn(128, 4, 8)
    latents = {"still": still.expand(128, 4, 8), "moving": 0.5**0.5 * (still + moving)}
    mixed, apart = (
        {name: float(lewm_loss(z, z[:, 1:], directions, worlds=worlds)["sigreg"]) for name, z in latents.items()}
        for worlds in (0, 128)
    )
    assert mixed["still"] < 1.5 * mixed["moving"]
    assert apart["still"] > 1.5 * apart["moving"]


@pytest.mark.slow
def test_a_world_model_of_several_worlds_is_trained_by_the_same_command(logs: Logs, tmp_path: Path) -> None:
    path, task = tmp_path / "logs.h5", ["--task", "reachcost_paper.worlds.layouts:VariedTwoRoom"]
    write_logs(logs, path)
    options = ["--size", "wide", "--steps", "2", "--refinement", "2", "--worlds", "4", "--threads", "1"]
    assert main(["train-model", "lewm", *task, "--logs", str(path), "--out", str(tmp_path / "m"), *options]) == 0
    card = (tmp_path / "m" / "README.md").read_text()
    assert "--worlds 4" in card
    assert "--size wide" in card
    plan = load_world_model(tmp_path / "m").card["training"]["plan"]
    assert (plan["size"], plan["worlds"], plan["ahead"]) == ("wide", 4, 3)


def test_impossible_numbers_of_worlds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match="worlds is 3"):
        TrainingPlan(worlds=3)
    with pytest.raises(ReachcostError, match="world_idx"):
        train_world_model(TwoRoom().generate_logs(20), tmp_path / "m", TINY)


def test_the_predictor_alone_learns_from_its_own_predictions(logs: Logs) -> None:
    phase = Refinement(Training(logs, TINY).parts.eval(), TINY, Training(logs, TINY).train)
    taken: list[torch.Tensor] = []
    predict = phase.parts.predict

    def watch(window: Sequence[torch.Tensor], actions: Sequence[torch.Tensor], kept: Any = None) -> Any:
        taken.append(window[-1])
        taken.append(predict(window, actions, kept)[0])
        return taken[-1], None

    phase.parts.predict = watch
    phase.losses(1, "windows")
    assert len(taken) == 6
    assert torch.equal(taken[1], taken[2])
    assert torch.equal(taken[3], taken[4])
    assert len(taken[0]) == 32 // 3
