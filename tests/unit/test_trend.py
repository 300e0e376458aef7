"""Slopes with bounds: that the bounds hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from edge_sdk.stats.trend import MIN_TREND_SAMPLES, slope_bounds


def test_a_line_gives_its_slope_and_resolution_widens_the_bounds() -> None:
    at = np.arange(100.0)
    bounds = slope_bounds(at, 5 + 0.25 * at)
    assert bounds.estimate == pytest.approx(0.25)
    assert bounds.lower == pytest.approx(0.25)
    widened = slope_bounds(at, 5 + 0.25 * at, resolution=9.9)
    assert (widened.lower, widened.upper) == (pytest.approx(0.15), pytest.approx(0.35))
    assert widened.samples == 100


def test_few_samples_bound_nothing() -> None:
    short = np.arange(float(MIN_TREND_SAMPLES - 1))
    bounds = slope_bounds(short, short)
    assert (bounds.estimate, bounds.lower, bounds.upper) == (pytest.approx(1), None, None)
    assert slope_bounds([], []).estimate is None
    assert slope_bounds([1.0, 1.0], [1.0, 2.0]).estimate is None


@pytest.mark.parametrize("dependence", [0.0, 0.6, 0.9])
def test_bounds_hold_the_true_slope_as_often_as_they_say(dependence: float) -> None:
    random = np.random.default_rng(5)
    at, misses, runs = np.arange(240.0), 0, 400
    for _ in range(runs):
        noise = random.normal(size=240)
        for index in range(1, 240):
            noise[index] += dependence * noise[index - 1]
        upper = slope_bounds(at, 100 + 0.01 * at + noise, 0.99).upper
        assert upper is not None
        misses += upper < 0.01
    assert misses / runs <= 0.025  # 1 % asked for, and some slack for what blocks cannot see


@pytest.mark.parametrize("rate", [1, 3, 10, 20, 60])
def test_growth_in_random_steps_is_not_cleared_by_a_line_through_them(rate: int) -> None:
    """Steps of 8 MB, `rate` of them an hour on average: the bound is under the truth in 1 % of runs."""
    random = np.random.default_rng(rate)
    at, misses, runs = np.arange(1200.0) / 1200, 0, 300
    for _ in range(runs):
        steps = np.sort(random.random(random.poisson(rate)))
        memory = 200 + 8 * np.searchsorted(steps, at) + random.normal(0, 0.05, len(at))
        upper = slope_bounds(at, memory, 0.99, 1.0, step=8.0).upper
        assert upper is not None
        misses += upper < 8 * rate
    assert misses / runs <= 0.02


def test_a_steady_series_shows_what_its_length_can_show() -> None:
    at = np.arange(3600.0) / 3600
    still = 200 + np.random.default_rng(8).normal(0, 0.05, len(at))
    hour, night = (slope_bounds(at * hours, still, 0.99, 1.0, step=8.0).upper for hours in (1, 10))
    assert hour is not None
    assert night is not None
    assert 40 < hour < 50
    assert night < 6


def test_a_leak_is_told_from_noise() -> None:
    random = np.random.default_rng(6)
    at = np.arange(120.0)
    leak = slope_bounds(at, 300 + 0.1 * at + random.normal(0, 0.5, 120))
    assert leak.lower is not None
    assert leak.lower > 0.08
    still = slope_bounds(at, 300 + random.normal(0, 0.5, 120))
    assert still.lower is not None
    assert still.upper is not None
    assert still.lower < 0 < still.upper
