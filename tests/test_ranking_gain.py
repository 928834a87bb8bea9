"""The gain of an order lies between that of chance and that of the truth, whatever the scale of the cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from reachcost.audits.stages.ranking import ranking_gain

pytestmark = pytest.mark.processor

numbers = st.integers(0, 20).map(float)
"""Few different ones, so that many are equal."""
pools = array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12).flatmap(
    lambda shape: st.tuples(arrays(float, shape, elements=numbers), arrays(float, shape, elements=numbers))
)


@given(pools, st.data())
def test_the_gain_lies_between_chance_and_truth(pool: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    scores, distances = pool
    elites = data.draw(st.integers(1, scores.shape[1]))
    gain, possible = ranking_gain(scores, distances, elites)
    assert gain.shape == possible.shape == (len(scores),)
    np.testing.assert_array_less(-1e-9, possible)
    np.testing.assert_array_less(gain, possible + 1e-9)
    nothing, same = ranking_gain(np.full(scores.shape, 3.0), distances, elites)
    np.testing.assert_allclose(nothing, 0, atol=1e-9)
    np.testing.assert_array_equal(same, possible)
    np.testing.assert_allclose(ranking_gain(distances, distances, elites)[0], possible, atol=1e-9)
    worst = ranking_gain(-distances, distances, elites)[0]
    np.testing.assert_array_less(worst, gain + 1e-9)


@given(pools, st.data())
def test_only_the_order_of_a_cost_counts(pool: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    scores, distances = pool
    elites = data.draw(st.integers(1, scores.shape[1]))
    change = data.draw(st.sampled_from([np.exp, np.sqrt, lambda cost: 3 * cost - 7, lambda cost: cost**3]))
    gain, possible = ranking_gain(scores, distances, elites)
    np.testing.assert_array_equal(ranking_gain(change(scores), distances, elites), (gain, possible))
    nearer = ranking_gain(scores, 5 * distances + 2, elites)  # the unit cancels in the share, an offset at once
    np.testing.assert_allclose(nearer, (5 * gain, 5 * possible), atol=1e-9)


@given(pools, st.data())
def test_ties_count_as_a_random_order(pool: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    scores, distances = (part[:1] for part in pool)
    elites = data.draw(st.integers(1, scores.shape[1]))
    random = np.random.default_rng(0)
    noise = random.uniform(0, 0.5, (3000, scores.shape[1]))
    broken = ranking_gain(scores + noise, np.repeat(distances, len(noise), 0), elites)[0]
    expected = ranking_gain(scores, distances, elites)[0]
    assert broken.mean() == pytest.approx(expected[0], abs=6 * broken.std() / len(noise) ** 0.5 + 1e-9)


def test_ends_without_a_path_count_as_twice_the_farthest() -> None:
    distances = np.array([[1.0, 3.0, np.inf, np.inf]])
    known = np.array([[1.0, 3.0, 6.0, 6.0]])
    for scores in (np.array([[0.0, 1.0, 2.0, 3.0]]), np.array([[3.0, 2.0, 1.0, 0.0]]), np.zeros((1, 4))):
        np.testing.assert_array_equal(ranking_gain(scores, distances, 2), ranking_gain(scores, known, 2))
    nowhere = ranking_gain(np.array([[0.0, 1.0]]), np.full((1, 2), np.inf), 1)
    np.testing.assert_array_equal(nowhere, np.zeros((2, 1)))


def test_an_example_by_hand() -> None:
    """Of distances 0, 1, 2, 9 two elites at best have mean 0.5, the pool has 3; one tie for the second place."""
    distances = np.array([[0.0, 1.0, 2.0, 9.0]])
    gain, possible = ranking_gain(np.array([[0.0, 5.0, 5.0, 9.0]]), distances, 2)
    assert possible.tolist() == [2.5]
    assert gain.tolist() == [3 - (0 + 1.5) / 2]
