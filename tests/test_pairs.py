"""Pairs: sampling rules, labels, exclusion, shuffled control."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet, logged_goals
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.fit import fit
from reachcost.heads.recipe import Recipe
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.oracle import OraclePairs
from reachcost.labels.temporal import SAMPLERS, TemporalPairs, balanced, mostly_endpoints
from reachcost.protocols import Observations
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom


@given(st.lists(st.integers(2, 200), min_size=1, max_size=50), st.sampled_from(sorted(SAMPLERS)))
def test_every_rule_stays_inside_the_episode(lengths: list[int], rule: str) -> None:
    early, late = SAMPLERS[rule](np.array(lengths), generator(0, rule))
    assert (early >= 0).all()
    assert (early < late).all()
    assert (late < lengths).all()


def test_balanced_gaps_are_uniform_over_the_whole_episode() -> None:
    early, late = balanced(np.full(90_000, 10), generator(0, "test"))
    assert np.bincount(late - early)[1:] / 10_000 == pytest.approx(np.ones(9), abs=0.05)


def test_85_percent_of_toponav_pairs_are_endpoints() -> None:
    early, late = mostly_endpoints(np.full(50_000, 40), generator(0, "test"))
    ends = (early == 0) & (late == 39)
    assert ends.mean() == pytest.approx(0.85 + 0.15 * 2 / (40 * 39), abs=0.005)


def test_labels_are_steps_and_order_is_random(pairs: TemporalPairs) -> None:
    assert torch.equal(pairs.train.gap, (pairs.train.first - pairs.train.second).abs().float())
    assert (pairs.train.first < pairs.train.second).float().mean().item() == pytest.approx(0.5, abs=0.03)


def test_pairs_stay_in_one_episode_and_validation_in_its_own(pairs: TemporalPairs, latents: Latents) -> None:
    episode = np.repeat(np.arange(len(latents.logs)), latents.logs.lengths)
    seen = {}
    for name, chosen in (("train", pairs.train), ("validation", pairs.validation)):
        np.testing.assert_array_equal(episode[chosen.first.numpy()], episode[chosen.second.numpy()])
        seen[name] = set(episode[chosen.first.numpy()])
    assert not seen["train"] & seen["validation"]


def logged_pairs(latents: Latents, count: int) -> EvaluationSet:
    """Evaluation pairs that are the endpoints of logged trajectories, half of them reversed."""
    logs = latents.logs
    ends = np.stack([logs.offsets, logs.offsets + logs.lengths - 1])[:, :count]
    ends[:, ::2] = ends[::-1, ::2]
    states = logs.columns["state"]
    return EvaluationSet(states[ends[0]], states[ends[1]], "logged")


def test_exclusion_is_unordered_and_proved(latents: Latents) -> None:
    exclude = logged_pairs(latents, 100)
    open_pairs = TemporalPairs(latents, count=5000, validation=100, sampling="mostly-endpoints")
    rows = open_pairs.train.first.numpy(), open_pairs.train.second.numpy()
    exclusion = Exclusion(latents.logs, [exclude])
    overlap = exclusion.bans(*rows)
    assert 0.2 < overlap.mean() < 0.4
    with pytest.raises(ReachcostError, match="evaluation pairs"):
        exclusion.prove(*rows)

    states = latents.logs.columns["state"].tolist()
    banned = {frozenset(map(tuple, pair)) for pair in zip(exclude.starts.tolist(), exclude.goals.tolist(), strict=True)}
    chosen = zip(*(row.tolist() for row in rows), strict=True)
    assert overlap.tolist() == [frozenset((tuple(states[i]), tuple(states[j]))) in banned for i, j in chosen]

    closed = TemporalPairs(latents.without(exclude), count=5000, validation=100, sampling="mostly-endpoints")
    for pairs in (closed.train, closed.validation):
        assert not exclusion.bans(pairs.first.numpy(), pairs.second.numpy()).any()
    assert closed.record["exclusion"]["overlapping_pairs"] == 0
    assert closed.record["exclusion"]["evaluation_sets_sha256"] == [exclude.fingerprint]


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 3)])
@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64])
def test_states_of_any_shape_are_excluded(shape: tuple[int, ...], kind: type) -> None:
    values = np.random.default_rng(0).permutation(1000)[:60] + (0 if kind is np.int64 else 1 / 3)
    states = np.asarray(np.broadcast_to(values.reshape(60, *(1 for _ in shape)), (60, *shape)), kind)
    logs = Logs({"state": states}, np.full(6, 10))
    rows = np.array([[3, 7], [25, 21]])
    chosen = EvaluationSet(
        states[rows[:, 0]],
        states[rows[:, 1]],
        source_rows=rows,
        source_episodes=logs.episode_of(rows),
        logs_sha256=logs.fingerprint,
    )
    exclusion = Exclusion(logs, [chosen])
    assert exclusion.episodes.tolist() == [0, 2]
    assert exclusion.bans(np.array([7, 3, 25]), np.array([3, 8, 21])).tolist() == [True, False, True]
    pairs = TemporalPairs(Latents(torch.zeros(60, 2), logs).without(chosen), count=200, validation=20)
    assert pairs.record["exclusion"]["overlapping_rows"] == 0


def test_logs_that_hold_nothing_but_evaluation_pairs_are_refused() -> None:
    logs = Logs({"state": np.array([[1, 1], [1, 2]])}, np.array([2]))
    exclude = EvaluationSet(np.array([[1, 2]]), np.array([[1, 1]]), "all")
    with pytest.raises(ReachcostError, match="evaluation pairs"):
        TemporalPairs(Latents(torch.zeros(2, 3), logs).without(exclude), count=5, validation=1)


def test_shuffled_control_keeps_pairs_and_permutes_labels(pairs: TemporalPairs) -> None:
    control = pairs.shuffled()
    for true, permuted in ((pairs.train, control.train), (pairs.validation, control.validation)):
        assert torch.equal(true.first, permuted.first)
        assert not torch.equal(true.gap, permuted.gap)
        assert torch.equal(true.gap.sort().values, permuted.gap.sort().values)
    assert torch.equal(pairs.shuffled(validation=False).validation.gap, pairs.validation.gap)
    assert control.record["labels"] == "shuffled"
    assert pairs.record["labels"] == "temporal"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sampling": "all"}, "sampling is 'all'"),
        ({"exclude": ["balanced"]}, "'balanced'"),
        ({"exclude": EvaluationSet(np.zeros((1, 3)), np.ones((1, 3)), "wide")}, "wide"),
        ({"holdout": 1.0}, "holdout"),
        ({"validation": 0}, "validation 0"),
        ({"max_gap": 0}, "max_gap"),
        ({"max_gap": 5, "sampling": "random-rows"}, "max_gap"),
        ({"max_gap": 5, "rows": 9}, "max_gap"),
        ({"rows": 1}, "rows is 1"),
        ({"rows": 500, "holdout": 0.1}, "holdout"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str, latents: Latents) -> None:
    with pytest.raises(ReachcostError, match=message):
        TemporalPairs(latents.without(wrong.pop("exclude", None)), **wrong)


class DepthModel:
    latent_dim, action_dim, fingerprint = 1, 1, "depth"

    def encode(self, observations: Observations) -> torch.Tensor:
        return torch.from_numpy(observations["depth"])


THREE = Logs({"state": np.zeros((3, 2))}, np.ones(3, int))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TemporalPairs(Latents(torch.zeros(3, 2), THREE), count=1), "3 too short"),
        (lambda: encode_logs(DepthModel(), THREE), "KeyError: 'depth'"),  # pyright: ignore[reportArgumentType]
        (lambda: Latents(torch.zeros(5, 2), THREE), "5 latents"),
        (lambda: Latents(torch.tensor([[0.0], [torch.nan], [0.0]]), THREE), "row 1"),
        (lambda: Logs({}, np.array([5, -2])), "episode 1"),
        (lambda: Logs({"state": np.zeros((3, 2))}, np.array([2, 3])), "3 rows"),
        (lambda: EvaluationSet(np.zeros((2, 2)), np.zeros((2, 2)), "odd", episodes=np.arange(1)), "evaluation set"),
    ],
)
def test_inputs_that_do_not_fit_together_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        build()


def test_a_limit_on_gaps_holds_and_is_reached(latents: Latents) -> None:
    pairs = TemporalPairs(latents, count=3000, validation=100, max_gap=5)
    assert pairs.train.gap.unique().tolist() == [1, 2, 3, 4, 5]
    assert pairs.record["max_gap"] == 5


@pytest.mark.parametrize("rows", [200, 1000])
def test_limited_rows_are_all_that_pairs_use(latents: Latents, rows: int) -> None:
    pairs = TemporalPairs(latents, count=5000, validation=500, sampling="random-rows", rows=rows, seed=3)
    used = torch.cat([pairs.train.first, pairs.train.second, pairs.validation.first, pairs.validation.second])
    assert 0.2 * rows < len(used.unique()) <= rows
    episode = latents.logs.episode_of(pairs.train.first.numpy())
    np.testing.assert_array_equal(episode, latents.logs.episode_of(pairs.train.second.numpy()))
    assert (pairs.train.gap > 0).all()


def test_fresh_epochs_have_new_pairs_from_the_same_episodes(latents: Latents, evaluation: EvaluationSet) -> None:
    pairs = TemporalPairs(latents.without(evaluation), count=2000, validation=100, holdout=0.2, seed=4)
    again = TemporalPairs(latents.without(evaluation), count=2000, validation=100, holdout=0.2, seed=4)
    assert pairs.epoch(0) is pairs.train
    for number in (1, 2):
        assert torch.equal(pairs.epoch(number).first, again.epoch(number).first)
        assert not torch.equal(pairs.epoch(number).first, pairs.epoch(number - 1).first)
        sampled = latents.logs.episode_of(pairs.epoch(number).first.numpy())
        assert not np.isin(sampled, pairs.held_out).any()
    control = pairs.shuffled()
    assert torch.equal(control.epoch(1).first, pairs.epoch(1).first)
    assert not torch.equal(control.epoch(1).gap, pairs.epoch(1).gap)


def test_a_fresh_epoch_that_meets_the_evaluation_set_stops_training(
    latents: Latents, evaluation: EvaluationSet
) -> None:
    pairs = TemporalPairs(latents.without(evaluation), count=200, validation=20)
    seen = logged_pairs(latents, 100)
    pairs._exclusion = Exclusion(latents.logs, [seen])
    pairs._sample = lambda epoch: TemporalPairs(latents, count=2000, validation=20, sampling="mostly-endpoints").train
    with pytest.raises(ReachcostError, match="evaluation pairs"):
        fit(pairs, Recipe(hidden=8, epochs=2))


def test_oracle_pairs_have_true_distances_between_any_rows(
    task: TopoNav, latents: Latents, evaluation: EvaluationSet
) -> None:
    pairs = OraclePairs(latents.without(evaluation), task, count=1000, validation=100)
    states = latents.logs.columns["state"]
    expected = task.distance(states[pairs.train.first.numpy()], states[pairs.train.second.numpy()])
    np.testing.assert_array_equal(pairs.train.gap.numpy(), expected.astype(np.float32))
    episodes = [latents.logs.episode_of(rows.numpy()) for rows in (pairs.train.first, pairs.train.second)]
    assert (episodes[0] != episodes[1]).mean() > 0.9
    assert pairs.record["exclusion"]["overlapping_pairs"] == 0
    assert not torch.equal(pairs.epoch(1).first, pairs.train.first)


@pytest.fixture(scope="module")
def driven() -> Logs:
    """The logs that the frozen evaluation sets were sampled from."""
    return TwoRoom().generate_logs(10_000, 0)


@pytest.fixture(scope="module")
def goals() -> EvaluationSet:
    return TwoRoom().evaluation_set("high-distance")


@pytest.fixture(scope="module")
def fresh() -> EvaluationSet:
    """A set of other logs."""
    task = TwoRoom()
    return task.sample_evaluation_set("high-distance", task.generate_logs(10_000, 101), seed=101)


ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "float32": lambda states: states,
    "float64": lambda states: states.astype(np.float64),
    "0.0001": lambda states: states.round(4),
    "0.0001 in double": lambda states: states.astype(np.float64).round(4),
    "0.001": lambda states: states.round(3),
    "0.001 in double": lambda states: states.astype(np.float64).round(3).astype(np.float32),
    "0.01": lambda states: states.round(2),
    "float16": lambda states: states.astype(np.float16),
    "float16, widened": lambda states: states.astype(np.float16).astype(np.float32),
    "1": lambda states: states.round(),
}


def stored(logs: Logs, rounding: str) -> Logs:
    return Logs({"state": ROUNDED[rounding](logs.columns["state"])}, logs.lengths)


def reordered(logs: Logs) -> Logs:
    order = generator(0, "order").permutation(len(logs))
    rows = np.concatenate(
        [start + np.arange(length) for start, length in zip(logs.offsets[order], logs.lengths[order], strict=True)]
    )
    return Logs({"state": logs.columns["state"][rows]}, logs.lengths[order])


@pytest.mark.parametrize("rounding", ROUNDED)
def test_rounding_does_not_hide_the_sources_of_an_evaluation_set(
    rounding: str, driven: Logs, goals: EvaluationSet
) -> None:
    assert goals.source_episodes is not None
    exclusion = Exclusion(stored(driven, rounding), [goals])
    np.testing.assert_array_equal(exclusion.episodes, np.unique(goals.source_episodes))
    assert len(exclusion.episodes) == 199
    with pytest.raises(ReachcostError, match="199 episodes"):
        exclusion.prove(*np.asarray(goals.source_rows).T)
    part = stored(driven.keep(np.arange(int(driven.offsets[9000]))), rounding)
    assert len(Exclusion(part, [goals]).episodes) == len(np.unique(goals.source_episodes[goals.source_episodes < 9000]))


@pytest.mark.parametrize("rounding", ["float32", "0.0001", "0.001"])
def test_fine_rounding_does_not_hide_sources_in_another_order_either(
    rounding: str, driven: Logs, goals: EvaluationSet
) -> None:
    logs = reordered(stored(driven, rounding))
    # The one more is a state at the wall that two episodes share: one too many rather than one too few.
    assert len(Exclusion(logs, [goals]).episodes) == 199 + (rounding == "0.001")


@pytest.mark.parametrize(("rounding", "step"), [("float16", "float16"), ("0.01", "0.01"), ("1", "1")])
def test_logs_too_coarse_to_tell_sources_from_coincidences_are_reported(
    rounding: str, step: str, driven: Logs, goals: EvaluationSet
) -> None:
    logs = reordered(stored(driven, rounding))
    latents = Latents(torch.zeros(logs.rows, 1), logs)
    with pytest.warns(ReachcostWarning, match=f"to {step}, too coarse"):
        proof = TemporalPairs(latents.without(goals), count=1000, validation=100).record["exclusion"]
    assert proof["too_coarse_for"] == {goals.fingerprint: step}
    assert proof["evaluation_sets_sha256"] == []
    assert proof["excluded_episodes"] == proof["overlapping_rows"] == 0


@pytest.mark.parametrize("rounding", sorted(ROUNDED.keys() - {"1"}))
def test_coincidences_do_not_overlap(rounding: str, driven: Logs, fresh: EvaluationSet) -> None:
    latents = Latents(torch.zeros(driven.rows, 1), stored(driven, rounding))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proof = TemporalPairs(latents.without(fresh), count=1000, validation=100).record["exclusion"]
    assert proof["excluded_episodes"] == 0
    assert "too_coarse_for" not in proof


def test_a_set_sampled_from_coarse_logs_is_found_in_them_by_its_states() -> None:
    coarse = stored(TwoRoom().generate_logs(300), "float16")
    sampled = logged_goals(coarse, offset=20, count=30)
    assert np.isin(np.asarray(sampled.source_episodes), Exclusion(coarse, [sampled]).episodes).all()
    assert len(Exclusion(reordered(coarse), [sampled]).episodes) == len(Exclusion(coarse, [sampled]).episodes)
