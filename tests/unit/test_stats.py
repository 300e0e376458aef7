"""Bounds and series: every number of the published tables, and the edges where claims end."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk import stats
from edge_sdk.errors import ConfigError

# MLPerf LoadGen's early stopping: the fewest samples when t of them are over the bound.
SMALLEST_N = [
    (0.5, {0: 7, 1: 11, 2: 14, 5: 22, 10: 35, 20: 59, 50: 128}),
    (0.9, {0: 44, 1: 64, 2: 81, 5: 127, 10: 197, 20: 325, 50: 681}),
    (0.95, {0: 90, 1: 130, 2: 165, 5: 259, 10: 398, 20: 656, 50: 1372}),
    (0.99, {0: 459, 1: 662, 2: 838, 5: 1307, 10: 2010, 20: 3304, 50: 6898}),
    (0.999, {0: 4603, 1: 6636, 2: 8403, 5: 13105, 10: 20140, 20: 33097, 50: 69058}),
    (0.9999, {0: 46050, 1: 66381}),
]
TABLE = [(share, over, count) for share, row in SMALLEST_N for over, count in row.items()]
ADMISSIBLE = [
    (0.99, 1000, 2),
    (0.99, 2000, 9),
    (0.99, 5000, 33),
    (0.99, 10000, 77),
    (0.99, 24576, 209),
    (0.9, 1000, 78),
    (0.95, 1000, 34),
]


@pytest.mark.parametrize(("share", "over", "count"), TABLE)
def test_smallest_sample_counts_are_those_of_loadgen(share: float, over: int, count: int) -> None:
    assert stats.samples_needed(share, over) == count


@pytest.mark.parametrize(("share", "over", "count"), TABLE)
def test_one_sample_fewer_admits_one_over_fewer(share: float, over: int, count: int) -> None:
    assert stats.admissible_over(count, share) == over
    assert stats.admissible_over(count - 1, share) == (over - 1 if over else None)


@pytest.mark.parametrize(("share", "count", "over"), ADMISSIBLE)
def test_admissible_counts_are_those_of_loadgen(share: float, count: int, over: int) -> None:
    assert stats.admissible_over(count, share) == over


@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(3, 10), Fraction(1, 2), Fraction(97, 100)])
@pytest.mark.parametrize("trials", [1, 7, 60])
def test_binomial_cdf_agrees_with_exact_fractions(trials: int, share: Fraction) -> None:
    exact = Fraction(0)
    for most in range(trials):
        exact += comb(trials, most) * share**most * (1 - share) ** (trials - most)
        assert stats.binomial_cdf(most, trials, float(share)) == pytest.approx(float(exact), rel=1e-11)


def test_binomial_cdf_keeps_its_precision_at_a_million_trials() -> None:
    trials = 1_000_000
    assert stats.binomial_cdf(499_999, trials, 0.5) + 0.5 * _central_term(trials) == pytest.approx(
        0.5, abs=1e-12
    )
    assert stats.binomial_cdf(0, trials, 1e-6) == pytest.approx(0.36787925723, rel=1e-10)


def _central_term(trials: int) -> float:
    return stats.binomial_cdf(trials // 2, trials, 0.5) - stats.binomial_cdf(trials // 2 - 1, trials, 0.5)


@pytest.mark.parametrize(("most", "share", "expected"), [(-1, 0.5, 0), (5, 0.5, 1), (2, 0.0, 1), (2, 1.0, 0)])
def test_binomial_cdf_at_its_ends(most: int, share: float, expected: float) -> None:
    assert stats.binomial_cdf(most, 5, share) == expected


def test_percentile_is_the_nearest_rank() -> None:
    values = list(range(1, 101))
    assert [stats.percentile(values, share) for share in (0.01, 0.07, 0.5, 0.99)] == [1, 7, 50, 99]


def test_bounds_are_the_ranks_that_the_counts_admit() -> None:
    values = np.arange(1, 1001)
    bounds = stats.percentile_bounds(values[::-1], 0.99)
    assert (bounds.estimate, bounds.upper, bounds.samples) == (990, 998, 1000)
    assert bounds.lower == 982


def test_too_few_samples_bound_nothing_above() -> None:
    bounds = stats.percentile_bounds(np.arange(458), 0.99)
    assert bounds.upper is None
    assert bounds.lower is not None
    assert stats.percentile_bounds(np.arange(459), 0.99).upper == 458


def test_no_samples_and_equal_samples() -> None:
    assert stats.percentile_bounds([], 0.5) == stats.Bounds(None, None, None, 0)
    assert stats.percentile_bounds([4.0] * 10, 0.5) == stats.Bounds(4.0, 4.0, 4.0, 10)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="finite"):
        stats.percentile_bounds([1.0, bad], 0.5)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, 99.0])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="percentile share"):
        stats.percentile_bounds([1.0], share)


def test_a_confidence_outside_its_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="confidence"):
        stats.samples_needed(0.5, confidence=1.0)


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no values"):
        stats.percentile([], 0.5)


@given(
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
    st.sampled_from([0.9, 0.99]),
)
def test_bounds_enclose_the_estimate_and_are_samples(
    values: list[float], share: float, confidence: float
) -> None:
    bounds = stats.percentile_bounds(values, share, confidence)
    assert bounds.estimate in values
    assert bounds.lower is None or (bounds.lower in values and bounds.lower <= bounds.estimate)
    assert bounds.upper is None or (bounds.upper in values and bounds.upper >= bounds.estimate)


@pytest.mark.parametrize(("share", "count"), [(0.5, 40), (0.9, 150), (0.99, 700)])
def test_bounds_cover_the_true_percentile_as_often_as_they_say(share: float, count: int) -> None:
    random = np.random.default_rng(5)
    truth = -np.log(1 - share)
    rounds = 600
    bounds = [stats.percentile_bounds(random.exponential(size=count), share, 0.95) for _ in range(rounds)]
    assert sum(b.upper is not None and b.upper >= truth for b in bounds) / rounds >= 0.93
    assert sum(b.lower is not None and b.lower <= truth for b in bounds) / rounds >= 0.93


def test_share_bounds_are_clopper_and_pearsons() -> None:
    bounds = stats.share_bounds(3, 1000)
    assert bounds.estimate == 0.003
    # scipy.stats.beta.ppf(0.01, 3, 998) and beta.ppf(0.99, 4, 997)
    assert bounds.lower == pytest.approx(0.00043638656, rel=1e-6)
    assert bounds.upper == pytest.approx(0.01000979199, rel=1e-6)


def test_share_bounds_at_their_ends() -> None:
    assert stats.share_bounds(0, 0) == stats.Bounds(None, None, None, 0)
    assert stats.share_bounds(0, 459).lower == 0.0
    assert stats.share_bounds(0, 459).upper == pytest.approx(1 - 0.01 ** (1 / 459))
    assert stats.share_bounds(5, 5).upper == 1.0
    with pytest.raises(ConfigError, match="6 in 5"):
        stats.share_bounds(6, 5)


def test_rate_of_a_steady_run_is_exact() -> None:
    starts = np.arange(0, 12 * 25 + 1) * 40_000_000
    bounds = stats.rate_bounds(starts)
    assert bounds.samples == 12
    assert (bounds.lower, bounds.estimate, bounds.upper) == pytest.approx((25, 25, 25))


def test_rate_bounds_need_ten_blocks() -> None:
    bounds = stats.rate_bounds(np.arange(0, 9 * 25 + 1) * 40_000_000)
    assert (bounds.lower, bounds.upper, bounds.samples) == (None, None, 9)
    assert bounds.estimate == pytest.approx(25)
    assert stats.rate_bounds([5]) == stats.Bounds(None, None, None, 0)
    assert stats.rate_bounds([5, 5]) == stats.Bounds(None, None, None, 0)


def test_rate_bounds_cover_the_true_rate() -> None:
    random = np.random.default_rng(9)
    covered = 0
    for _ in range(300):
        periods_ns = random.gamma(4.0, 10.0, 1500) * 1e6
        bounds = stats.rate_bounds(np.cumsum(periods_ns).astype(np.int64), 0.95)
        assert bounds.lower is not None
        covered += bounds.lower <= 25
    assert covered / 300 >= 0.92


def test_lag1_autocorrelation_tells_drift_from_noise() -> None:
    noise = np.random.default_rng(1).normal(size=5000)
    assert abs(stats.lag1_autocorrelation(noise) or 1) < 0.05
    assert (stats.lag1_autocorrelation(np.cumsum(noise)) or 0) > 0.95
    assert (stats.lag1_autocorrelation([1, -1] * 50) or 0) < -0.9
    assert stats.lag1_autocorrelation([1, 2]) is None
    assert stats.lag1_autocorrelation([7.1] * 100) is None


def test_blocks_follow_time_and_skip_gaps() -> None:
    starts = [0, 400_000_000, 900_000_000, 1_000_000_000, 3_500_000_000]
    blocks = stats.block_percentiles(starts, [1, 2, 3, 4, 5], 0.5)
    assert blocks == [
        stats.Block(0, 3, 2),
        stats.Block(1_000_000_000, 1, 4),
        stats.Block(3_000_000_000, 1, 5),
    ]
    assert stats.block_percentiles([], [], 0.5) == []


def _noisy(level_ms: float, count: int, seed: int = 0, sigma: float = 0.03) -> np.ndarray:
    return level_ms * np.exp(np.random.default_rng(seed).normal(0, sigma, count))


def test_warm_up_finds_a_single_cold_frame() -> None:
    assert stats.warm_up_frames([330.0] + [25.0] * 99) == 1


def test_warm_up_finds_a_plateau() -> None:
    series = np.concatenate([_noisy(6.8, 25), _noisy(4.95, 400, 1)])
    assert stats.warm_up_frames(series) == pytest.approx(25, abs=2)


def test_warm_up_finds_a_cold_frame_and_two_plateaus() -> None:
    series = np.concatenate([[330.0], _noisy(6.8, 25), _noisy(4.95, 400, 1)])
    assert stats.warm_up_frames(series) == pytest.approx(26, abs=2)


def test_warm_up_is_not_misled_by_stalls_in_mid_run() -> None:
    series = np.concatenate([_noisy(6.8, 25), _noisy(4.95, 400, 1)])
    series[[60, 150, 151, 300]] *= 12
    assert stats.warm_up_frames(series) == pytest.approx(25, abs=3)


@pytest.mark.parametrize("sigma", [0.0, 0.01, 0.1, 0.4])
@pytest.mark.parametrize("count", [9, 12, 30, 1000])
def test_a_steady_run_has_no_warm_up(count: int, sigma: float) -> None:
    assert all(stats.warm_up_frames(_noisy(5, count, seed, sigma)) == 0 for seed in range(40))


def test_a_run_that_slows_down_later_has_no_warm_up() -> None:
    assert stats.warm_up_frames(np.concatenate([_noisy(4.95, 300), _noisy(7, 300, 1)])) == 0


def test_a_change_of_route_is_not_warm_up() -> None:
    series = np.concatenate([_noisy(20, 100), _noisy(9, 200, 1)])
    routes = ["fuse"] * 100 + ["rgb"] * 200
    assert stats.warm_up_frames(series, routes) == 0
    series[:10] *= 3
    assert stats.warm_up_frames(series, routes) == pytest.approx(12, abs=2)


def test_warm_up_of_short_or_wrong_series() -> None:
    assert stats.warm_up_frames([]) == 0
    assert stats.warm_up_frames([9.0, 1.0, 1.0]) == 0
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="positive finite"):
            stats.warm_up_frames([1.0, bad, 1.0, 1.0])
    with pytest.raises(ConfigError, match="10 values, 1 groups"):
        stats.warm_up_frames([1.0] * 10, ["rgb"])


@given(st.lists(st.floats(1e-3, 1e6), max_size=200))
def test_warm_up_never_takes_more_than_its_share(values: list[float]) -> None:
    assert 0 <= stats.warm_up_frames(values) <= stats.MAX_WARM_UP_SHARE * len(values)
