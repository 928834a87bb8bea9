"""Statistics against closed forms and the paper's own examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reachcost.results.stats import clustered_mean, hierarchical_bootstrap, mean_std, newcombe, paired_bootstrap, wilson

pytestmark = pytest.mark.processor


def test_sample_standard_deviation() -> None:
    assert mean_std(np.array([83.0, 91.0, 95.0])) == pytest.approx((89.6667, 6.1101), abs=1e-4)
    mean, deviation = mean_std(np.array([5.0]))
    assert mean == 5
    assert np.isnan(deviation)


def test_paired_bootstrap_matches_the_normal_interval() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = paired_bootstrap(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.01)


def test_columns_stay_paired() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=(3, 120, 1))
    values = np.concatenate([shared, shared + 1, np.ones_like(shared)], axis=2)
    low, high = hierarchical_bootstrap(values, resamples=2000)
    assert low[1] - low[0] == pytest.approx(1)
    assert (low[2], high[2]) == (1, 1)
    difference = hierarchical_bootstrap(values[..., 1] - values[..., 0], resamples=2000)
    assert difference == pytest.approx([1, 1])


def test_seeds_are_resampled_before_episodes() -> None:
    by_seed = np.repeat([[0.0], [50.0], [100.0]], 120, axis=1)  # episodes agree, seeds do not
    low, high = hierarchical_bootstrap(by_seed)
    assert (low, high) == pytest.approx((0, 100), abs=34)
    assert high - low > 60
    assert paired_bootstrap(by_seed.T.mean(1)) == pytest.approx([50, 50])


def test_intervals_are_reproducible_and_depend_on_the_seed() -> None:
    values = np.random.default_rng(3).normal(size=(3, 50))
    one, same = hierarchical_bootstrap(values, resamples=500), hierarchical_bootstrap(values, resamples=500)
    np.testing.assert_array_equal(one, same)
    assert (hierarchical_bootstrap(values, resamples=500, seed=1) != one).any()


@settings(max_examples=50)
@given(st.integers(1, 500), st.data())
def test_wilson_contains_the_share_and_mirrors(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    mirrored = wilson(trials - successes, trials)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-12)


def test_models_that_share_their_episodes_add_no_certainty_about_episodes() -> None:
    one = np.random.default_rng(0).normal(size=(1, 100))
    thrice = np.repeat(one, 3, axis=0)
    alone, apart, shared = (
        float(np.diff(hierarchical_bootstrap(values, resamples=4000, shared=together), axis=0)[0])
        for values, together in ((one, False), (thrice, False), (thrice, True))
    )
    assert shared == pytest.approx(alone, rel=0.1)
    assert apart < 0.7 * alone


def test_further_rows_of_an_episode_add_no_certainty() -> None:
    values, episodes = np.random.default_rng(0).normal(size=60), np.arange(60) // 3
    once = clustered_mean(values, episodes)
    assert clustered_mean(np.tile(values, 5), np.tile(episodes, 5)) == pytest.approx(once)
    apart = clustered_mean(np.tile(values, 5), np.arange(300))
    assert apart[1] - apart[0] < 0.6 * (once[1] - once[0])


def test_the_paired_interval_is_newcombes() -> None:
    """His example: 36 succeed both times, 12 only afterwards, 2 only before, none never."""
    before = np.repeat([True, False, True], [36, 12, 2])
    after = np.repeat([True, True, False], [36, 12, 2])
    assert newcombe(before, after) == pytest.approx((0.0569, 0.3404), abs=1e-4)
    assert newcombe(after, before) == pytest.approx((-0.3404, -0.0569), abs=1e-4)


@given(outcomes=arrays(bool, st.tuples(st.integers(1, 60), st.just(2))))
def test_the_paired_interval_holds_the_change(outcomes: np.ndarray) -> None:
    low, high = newcombe(*outcomes.T)
    change = outcomes[:, 1].mean() - outcomes[:, 0].mean()
    assert -1 - 1e-9 <= low <= change <= high <= 1 + 1e-9
    assert high - low > 0.01
