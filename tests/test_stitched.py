"""Labels that reach beyond one episode: places, shortest paths, and what a world model imagines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

import reachcost as rc
from reachcost.cli import main
from reachcost.fitting.repair import recorded_pairs
from reachcost.labels.graph import TransitionCounts, fewest_edges, nearest
from reachcost.labels.imagined import Imagination, ImaginedPairs
from reachcost.labels.stitched import StitchedPairs
from reachcost.worldmodels.jepa import JepaWorldModel

from .small import choose_labels_briefly

LINE = 60  # states of a corridor, whose latents are their positions


def corridor(first: int, last: int) -> np.ndarray:
    return np.arange(first, last + 1, dtype=np.float32)[:, None]


def latents_of(*episodes: np.ndarray) -> rc.Latents:
    logs = rc.Logs.of_episodes([{"state": states, "action": np.zeros((len(states), 1))} for states in episodes])
    return rc.Latents(torch.from_numpy(np.concatenate(episodes)), logs)


@given(st.integers(1, 150).flatmap(lambda k: st.tuples(st.just(k), st.lists(st.tuples(*[st.integers(0, k - 1)] * 2)))))
def test_the_fewest_edges_are_those_of_scipy(sampled: tuple[int, list[tuple[int, int]]]) -> None:
    places, transitions = sampled
    counted = TransitionCounts(places)
    for before, after in transitions:  # in parts of one
        counted.add(np.array([before]), np.array([after]))
    edges = counted.edges()
    graph = csr_matrix((np.ones(edges.shape[1]), tuple(edges)), (places, places))
    np.testing.assert_array_equal(fewest_edges(edges, places), shortest_path(graph, unweighted=True))


def test_a_place_is_the_nearest_whatever_the_batch() -> None:
    rng = torch.Generator().manual_seed(0)
    latents, places = torch.randn(3000, 8, generator=rng), torch.randn(50, 8, generator=rng)
    np.testing.assert_array_equal(nearest(latents, places), torch.cdist(latents, places).argmin(1).numpy())


def test_stitched_times_reach_beyond_single_episodes() -> None:
    """No episode passes more than half of the corridor, but labels cover paths through both halves."""
    halves = [corridor(0, 35), corridor(25, LINE - 1)] * 20
    pairs = StitchedPairs(latents_of(*halves), count=2000, validation=200)
    assert pairs.record["places"] == LINE
    assert pairs.record["stride"] == 1
    first, second = (pairs.latents[rows, 0] for rows in (pairs.train.first, pairs.train.second))
    torch.testing.assert_close(pairs.train.gap, (first - second).abs())
    assert pairs.train.gap.max() > 50
    temporal = rc.labels.TemporalPairs(latents_of(*halves), count=2000, validation=200)
    assert temporal.train.gap.max() <= 35


def test_directed_times_have_no_return_path() -> None:
    logs = latents_of(*[corridor(0, 30)] * 20)
    there, both = (StitchedPairs(logs, 1000, 100, directed=directed) for directed in (True, False))
    assert (there.latents[there.train.second] > there.latents[there.train.first]).all()
    assert (both.latents[both.train.second] < both.latents[both.train.first]).any()


def test_held_out_episodes_are_not_in_the_graph() -> None:
    pairs = StitchedPairs(latents_of(*[corridor(0, 30)] * 20), 500, 100, holdout=0.2)
    episode = pairs.logs.episode_of
    assert len(pairs.held_out) == 4
    assert not np.isin(episode(pairs.train.first.numpy()), pairs.held_out).any()
    assert np.isin(episode(pairs.validation.first.numpy()), pairs.held_out).all()
    assert pairs.record["transitions"] == 16 * 30


@pytest.mark.filterwarnings("ignore:.*no path between them")
def test_evaluation_episodes_leave_no_transition() -> None:
    logs = latents_of(*[corridor(0, 30) + 100 * number for number in range(10)])
    goals = rc.data.logged_goals(logs.logs, offset=9, count=1)
    pairs = StitchedPairs(logs.without(goals), 500, 100, places=500, holdout=0.0)
    proof = pairs.record["exclusion"]
    assert proof["excluded_episodes"] == 1
    assert proof["overlapping_rows"] == 0
    assert pairs.record["transitions"] == 9 * 30


def test_places_as_wide_as_transitions_are_reported() -> None:
    """In many dimensions places cannot be near: paths would jump through them."""
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(40, 50, 30)).astype(np.float32).cumsum(1)
    with pytest.warns(rc.ReachcostWarning, match="wide"):
        pairs = StitchedPairs(latents_of(*walks), 500, 100, places=40, stride=1)
    assert pairs.record["sharpness"] < 2.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stride": 9}, "no episode has 9 steps"),
        ({"places": 0}, "places is 0"),
        ({"places": 10**6}, "places is 1000000"),
        ({"stride": -1}, "stride is -1"),
        ({"least": 0}, "least is 0"),
        ({"holdout": 0.9}, "3 held out"),
    ],
)
def test_impossible_graphs_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.ReachcostError, match=message):
        StitchedPairs(latents_of(*[corridor(0, 3)] * 3), 10, 10, **wrong)


def test_impossible_specifications_are_refused() -> None:
    with pytest.raises(rc.ReachcostError, match="max_gap"):
        rc.fitting.LabelledRecipe(labels="stitched", max_gap=3)
    with pytest.raises(rc.ReachcostError, match="stiched"):
        rc.fitting.LabelledRecipe(labels="stiched")  # pyright: ignore[reportArgumentType]
    with pytest.raises(rc.ReachcostError, match="directed"):
        rc.fitting.LabelledRecipe(labels="auto", directed=True)
    with pytest.raises(rc.ReachcostError, match="imagination"):
        rc.fitting.LabelledRecipe(labels="stitched", imagination=Imagination())
    with pytest.raises(rc.ReachcostError, match="persistence"):
        Imagination(persistence=1.5)
    with pytest.raises(rc.ReachcostError, match="world model"):
        rc.fitting.LabelledRecipe(labels="imagined").sample(latents_of(corridor(0, 3)), 10)


@pytest.fixture(scope="module")
def model() -> JepaWorldModel:
    return rc.load_world_model("lewm-tworoom-3072")


@pytest.fixture(scope="module")
def frames(model: JepaWorldModel) -> rc.Latents:
    return rc.encode_logs(model, rc.make_task("tworoom").generate_logs(60, seed=4))


def test_imagination_passes_the_history() -> None:
    shown = list[tuple[int, int]]()

    class Remembers:
        """Reads three frames, and could step without them."""

        latent_dim, action_dim, history = 2, 2, 3
        actions = rc.ActionBlocks((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, 1.0), length=1)

        def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            shown.append((context.shape[1], actions.shape[2]))
            return context[:, -1:].expand(-1, actions.shape[1], -1)

        def step(self, latents: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
            raise AssertionError("the past counts")

    model: Any = Remembers()
    list(Imagination(trajectories=4, blocks=4).groups(model, torch.zeros(4, 2), None, seed=0))
    assert shown == [(1, 1), (2, 2), (3, 3), (3, 3)]


def test_latents_of_another_model_are_refused(frames: rc.Latents) -> None:
    with pytest.raises(rc.ReachcostError, match="3073"):
        ImaginedPairs(rc.load_world_model("lewm-tworoom-3073"), frames, 10, 10, Imagination(10, 2))


def test_shortest_paths_have_another_default_recipe() -> None:
    pairs = StitchedPairs(latents_of(*[corridor(0, 30)] * 20), 500, 100)
    assert pairs.default_recipe.expectile == 0.5
    ours = rc.fitting.LabelledRecipe
    assert ours(labels="stitched").recipe_for(pairs).expectile == 0.5
    assert ours(rc.Recipe(epochs=3, expectile=0.3), labels="stitched").recipe_for(pairs).expectile == 0.3
    one_way = StitchedPairs(latents_of(*[corridor(0, 30)] * 20), 500, 100, directed=True)
    assert ours(labels="stitched", directed=True).recipe_for(one_way).head == "iqe"


def test_a_model_without_step_imagines_the_same(model: JepaWorldModel, frames: rc.Latents) -> None:
    class Foreign:
        """A custom model without `step`."""

        latent_dim, action_dim, actions = model.latent_dim, model.action_dim, model.actions
        encode, rollout = staticmethod(model.encode), staticmethod(model.rollout)

    imagination = Imagination(trajectories=30, blocks=3)
    (ours,), (theirs,) = ([*imagination.groups(one, frames.values[:30], None, seed=1)] for one in (model, Foreign()))
    assert ours.shape == (30, 4, 192)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_imagined_pairs_need_no_order_of_frames(model: JepaWorldModel, frames: rc.Latents) -> None:
    rows = frames.logs.rows
    shuffled = rc.Latents(frames.values, rc.Logs(frames.logs.columns, np.ones(rows, int)), frames.model)
    few = {"count": 500, "validation": 100, "imagination": Imagination(4000, 4), "places": 200, "keep": 2000}
    with_order, without = (ImaginedPairs(model, one, **few) for one in (frames, shuffled))
    assert torch.equal(with_order.latents, without.latents)
    assert torch.equal(with_order.train.gap, without.train.gap)
    assert set((without.train.gap % 5).tolist()) == {0.0}  # blocks of five steps
    assert without.record["logs_sha256"] == shuffled.logs.fingerprint


def test_places_where_imagination_ends_are_not_cut_off(model: JepaWorldModel) -> None:
    """One block leads from every frame to a place where no trajectory begins."""
    logs = rc.make_task("tworoom").generate_logs(60)
    latents = rc.encode_logs(model, logs, cache=False)
    rows = np.arange(0, logs.rows, 6)
    frames = rc.Latents(latents.read(rows), rc.Logs({"state": logs.columns["state"][rows]}, np.ones(len(rows), int)))
    pairs = ImaginedPairs(model, frames, 500, 100, Imagination(60_000, blocks=1), places=800)
    assert pairs.record["unreachable"] > 0.1
    assert pairs.unconnected < 0.1
    assert not any("no path between them" in problem for problem in pairs.problems())


@pytest.mark.filterwarnings("ignore:.*have no path between them|.*imagined paths")
def test_imagination_begins_in_no_evaluation_episode(model: JepaWorldModel) -> None:
    task = rc.make_task("tworoom")
    latents, goals = rc.encode_logs(model, task.generate_logs(400)), task.evaluation_set("high-distance")
    pairs = ImaginedPairs(model, latents.without(goals), 200, 50, Imagination(400, 3), places=100, keep=400)
    assert pairs.record["exclusion"]["overlapping_episodes"] == 0
    assert pairs.record["exclusion"]["excluded_episodes"] > 0


def test_discrete_actions_are_imagined_one_at_a_time() -> None:
    task, model = rc.make_task("toponav"), rc.tasks.ExactTopoNav()
    latents = rc.encode_logs(model, task.generate_logs(100))
    pairs = ImaginedPairs(model, latents, 500, 100, Imagination(4000, 8), places=10_000, keep=10_000)
    assert pairs.record["stride"] == 1
    states = np.asarray(latents.logs.columns["state"])
    row = {latent.numpy().tobytes(): number for number, latent in enumerate(latents.values)}
    rows = torch.stack([pairs.train.first, pairs.train.second])
    ends = np.array([row.get(latent.numpy().tobytes(), -1) for latent in pairs.latents[rows.flatten()]]).reshape(2, -1)
    known = (ends >= 0).all(0)
    true = task.distance(*states[ends[:, known]])
    assert known.sum() > 100
    assert (pairs.train.gap.numpy()[known] >= true - 1).mean() > 0.99  # shortcuts are rare


@pytest.mark.slow
def test_the_command_takes_labels_of_any_source(tmp_path: Path) -> None:
    rc.write_logs(rc.make_task("tworoom").generate_logs(60, seed=4), tmp_path / "logs.h5")
    given = ["fit", "--model", "lewm-tworoom-3072", "--task", "tworoom", "--logs", str(tmp_path / "logs.h5")]
    assert main([*given, "--out", str(tmp_path / "head"), "--labels", "stitched", "--pairs", "2000"]) == 0
    assert rc.load_head(tmp_path / "head").record["pairs"]["labels"] == "stitched"
    assert main([*given, "--out", str(tmp_path / "no"), "--labels", "stitched", "--recipe", "paper"]) == 1


@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")
@pytest.mark.slow
def test_the_command_chooses_labels_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_labels_briefly(monkeypatch)
    rc.write_logs(rc.make_task("toponav").generate_logs(120, seed=4), tmp_path / "logs.h5")
    given = ["fit", "--model", "reachcost.tasks:ExactTopoNav", "--task", "toponav", "--logs", str(tmp_path / "logs.h5")]
    given += ["--pairs", "2000"]
    assert main([*given, "--out", str(tmp_path / "head")]) == 0
    pairs, shown = rc.load_head(tmp_path / "head").record["pairs"], capsys.readouterr()
    assert pairs["chosen"]["reason"] in shown.out
    assert f"labels: {pairs['labels']} (" in shown.out
    assert main([*given, "--out", str(tmp_path / "shuffled"), "--shuffled"]) == 0
    shuffled = rc.load_head(tmp_path / "shuffled").record["pairs"]
    assert (shuffled["labels"], shuffled["shuffled"]) == ("shuffled", pairs["labels"])
    assert f"labels: {pairs['labels']} (" in capsys.readouterr().out
    assert main([*given, "--out", str(tmp_path / "paper"), "--recipe", "paper"]) == 0
    assert rc.load_head(tmp_path / "paper").record["pairs"]["labels"] == "temporal"


@pytest.mark.parametrize(
    "labelled",
    [
        rc.fitting.LabelledRecipe(directed=True, max_gap=20),
        rc.fitting.LabelledRecipe(labels="stitched"),
        rc.fitting.LabelledRecipe(labels="stitched", directed=True),
        rc.fitting.LabelledRecipe(labels="imagined", imagination=Imagination(2000, 3)),
        rc.fitting.LabelledRecipe(labels="mixed", imagination=Imagination(2000, 3)),
    ],
    ids=lambda labelled: labelled.labels,
)
@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")
def test_pairs_are_sampled_again_from_their_record(labelled: rc.fitting.LabelledRecipe) -> None:
    task, model = rc.make_task("toponav"), rc.tasks.ExactTopoNav()
    latents = rc.encode_logs(model, task.generate_logs(100)).without(task.evaluation_set())
    pairs = labelled.sample(latents, 500, holdout=0.1, seed=3, model=model)
    again = recorded_pairs(pairs.record, latents, model)
    assert again.record == pairs.record
    assert torch.equal(again.train.gap, pairs.train.gap)
    assert torch.equal(again.validation.second, pairs.validation.second)
