"""Validity checks of labels, and the choice of labels by them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.core.progress import Progress
from reachcost.fitting.repair import (
    arguments_for_logged_times,
    choose_labels,
    measured_asymmetry,
)
from reachcost.labels.graph import asymmetry, shortcuts
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.stitched import StitchedPairs
from reachcost.tasks.tworoom import TwoRoom

from .small import choose_labels_briefly

TASK = rc.make_task("tworoom")
FEW: dict[str, Any] = {"count": 500, "validation": 2000}


def seen_exactly(task: TwoRoom, logs: rc.Logs) -> tuple[rc.tasks.ExactDynamics, rc.Latents]:
    """The true dynamics of a layout as a world model, whose latents are places."""
    model = rc.tasks.ExactDynamics(task, rc.ActionBlocks.of(logs, length=5))
    return model, rc.encode_logs(model, logs, cache=False)


@pytest.mark.filterwarnings("ignore::reachcost.ReachcostWarning")
def test_a_model_with_a_hole_in_its_wall_is_caught() -> None:
    logs, layout = TASK.generate_logs(1000, seed=7), TASK.layout
    holes = {}
    for hole, doors in ((False, layout.doors), (True, (*layout.doors, (150.0, 14.0)))):
        model, latents = seen_exactly(TwoRoom(layout=replace(layout, doors=doors)), logs)
        pairs = ImaginedPairs(model, latents, **FEW, imagination=Imagination(10_000))
        assert any("walk through walls" in problem for problem in pairs.problems()) == hole
        holes[hole] = pairs.record["holes"]
    assert holes[True] > 2 * holes[False]


def test_shortcuts_are_relative_to_the_median_ratio() -> None:
    reference = np.arange(1.0, 101.0)
    assert shortcuts(0.3 * reference, reference) == 0
    times = np.where(np.arange(100) < 7, 0.5, 1.0) * reference
    assert shortcuts(times, reference) == pytest.approx(0.07)
    assert shortcuts(np.full(5, np.inf), np.ones(5)) == 0


def test_a_difference_that_two_graphs_do_not_share_is_chance() -> None:
    rng = np.random.default_rng(0)
    times = np.abs(np.subtract.outer(np.arange(50.0), np.arange(50.0))) + 1
    noisy = [times + rng.uniform(0, 20, times.shape) for _ in range(2)]
    assert asymmetry(*noisy) < 0.1
    there = times + 20 * np.tri(50)
    assert asymmetry(there, there + rng.uniform(0, 5, times.shape)) > 0.3


def corridors(count: int, back: bool = True) -> rc.Latents:
    """Walks along unconnected corridors, there and perhaps back."""
    steps = np.arange(20.0, dtype=np.float32)
    walks = [np.stack([steps, np.full_like(steps, 100 * number)], axis=1) for number in range(count)]
    walks += [walk[::-1] for walk in walks if back]
    logs = rc.Logs.of_episodes([{"state": walk, "action": np.zeros((20, 1))} for walk in walks * 10])
    return rc.Latents(torch.from_numpy(logs.columns["state"]), logs)


def test_labels_are_directed_without_a_return_path(monkeypatch: pytest.MonkeyPatch) -> None:
    choose_labels_briefly(monkeypatch)
    there, both = (StitchedPairs(corridors(1, back), **FEW) for back in (False, True))
    assert measured_asymmetry(there) == 1
    assert measured_asymmetry(both) == 0
    assert choose_labels(corridors(1, back=False), 500).record["directed"]


def test_logged_times_are_the_last_choice() -> None:
    class Stays:
        """Its actions are not those of the logs."""

        latent_dim, action_dim = 2, 1

        def encode(self, observations: Any) -> torch.Tensor:
            return torch.as_tensor(observations["state"])

        def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            return context[:, -1:].expand(-1, actions.shape[1], -1)

    alone, imagining = (choose_labels(corridors(12), 500, model=model) for model in (None, Stays()))
    assert alone.record["labels"] == imagining.record["labels"] == "temporal"
    assert "are not whole numbers" in imagining.record["chosen"]["against"]["imagined"][0]
    with pytest.raises(rc.ReachcostError, match="encode_logs"):
        choose_labels(corridors(1).logs, 500)  # pyright: ignore[reportArgumentType]


@pytest.mark.filterwarnings("ignore::reachcost.ReachcostWarning")
def test_unconnected_logs_and_unordered_frames_get_imagined_labels() -> None:
    logs = TASK.generate_logs(300, seed=7)
    far = logs.keep(np.flatnonzero(TASK.bottleneck(np.asarray(logs.columns["state"])) == 0))
    model, latents = seen_exactly(TASK, far)
    unordered = rc.Latents(latents.values, rc.Logs(far.columns, np.ones(far.rows, int)))
    for some, against in ((latents, ["no path between them"]), (unordered, [])):
        pairs = choose_labels(some, 500, model=model, imagination=Imagination(10_000))
        assert pairs.record["labels"] == "imagined"
        found = pairs.record["chosen"]["against"].get("stitched", [])
        assert all(part in problem for part, problem in zip(against, found, strict=True))
    with pytest.raises(rc.ReachcostError, match="no times"):
        choose_labels(unordered, 500)


@pytest.mark.filterwarnings("ignore::reachcost.ReachcostWarning")
def test_logged_transitions_add_to_imagined_ones() -> None:
    logs = TASK.generate_logs(200, seed=7)
    model, latents = seen_exactly(TASK, logs)
    few = {**FEW, "imagination": Imagination(2000, 4), "places": 300, "least": 1}
    alone, both = (ImaginedPairs(model, latents, **few, logged=logged) for logged in (False, True))
    assert both.record["labels"] == "mixed"
    assert both.record["edges"] > alone.record["edges"]
    assert both.record["unreachable"] <= alone.record["unreachable"]


@pytest.mark.slow
def test_labels_that_rank_held_out_logs_worse_than_logged_times_are_refused() -> None:
    latents = rc.encode_logs(rc.tasks.ExactTopoNav(), rc.make_task("toponav").generate_logs(300))

    def arguments(source: Callable[..., rc.labels.Pairs], trusted: bool, some: rc.Latents = latents) -> list[str]:
        return arguments_for_logged_times(some, 1500, source, trusted, seed=0, progress=Progress())

    temporal = rc.labels.TemporalPairs
    assert arguments(temporal, trusted=True) == []
    (found,) = arguments(lambda *given, **more: temporal(*given, **more).shuffled(), trusted=True)
    assert re.search(r"held-out logs better \(0\.\d+ against -?0\.\d+\)", found)
    few = latents.keep(np.arange(latents.logs.offsets[2]))
    assert arguments(temporal, trusted=True, some=few) == []
    assert "too few logs" in arguments(temporal, trusted=False, some=few)[0]


@pytest.mark.slow
def test_logged_times_are_chosen_where_nodes_extend_through_a_wall() -> None:
    """The world of docs/your-own-world.md: latents are positions, and the wall has no width."""
    page = (Path(__file__).parent.parent / "docs/your-own-world.md").read_text()
    world: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0], world)
    logs = world["task"].generate_logs(2000)
    model = rc.tasks.ExactDynamics(world["task"], rc.ActionBlocks.of(logs, length=3))
    pairs = choose_labels(rc.encode_logs(model, logs, cache=False), 30_000)
    assert pairs.record["labels"] == "temporal"
    assert "rank held-out logs better" in pairs.record["chosen"]["against"]["stitched"][0]
