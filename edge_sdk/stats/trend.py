"""Whether something grows over a run: the slope of a series of dependent samples, with bounds."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_sdk.stats.binomial import CONFIDENCE
from edge_sdk.stats.bounds import Bounds, student_t
from edge_sdk.stats.series import lag1_autocorrelation

__all__ = ["MIN_TREND_SAMPLES", "slope_bounds"]

MIN_TREND_SAMPLES = 24
"""Fewer samples bound no slope."""

_MOST_BLOCKS = 30
_STRONGEST = 0.9  # autocorrelation beyond it cannot be told from a trend by so few blocks


_MANY_MOVES = 12
"""So many blocks that moved make the mean move a normal figure; fewer are counted as rare events."""

_WALK_SLACK = 1.15
"""Widens the bound of a walk of many moves: measured, wrong in at most 1 % of simulated runs."""


def slope_bounds(
    at: ArrayLike,
    values: ArrayLike,
    confidence: float = CONFIDENCE,
    resolution: float = 0.0,
    step: float = 0.0,
) -> Bounds:
    """Bounds the slope of a line through a series.

    Neighbouring samples hang together, so they are gathered into blocks; least squares goes through the
    blocks' means, Student's t gives the error, and what dependence the blocks still show (lag-1
    autocorrelation r of the residuals, freed of the bias that few blocks give it) widens it by
    sqrt((1 + r) / (1 - r)).

    Arguments:
        at: times, ascending.
        values: one a time.
        confidence: of each one-sided bound.
        resolution: a change of the values that the series cannot show; it widens both bounds by
            `resolution` over the time spanned.
        step: growth may come in steps of this size at random times, as memory does. A line through such a
            walk is surer of itself than it may be, so the bounds are also those of the number of steps:
            a run in which none came has not shown that none will.

    Returns: estimate and bounds in units of `values` per unit of `at`; samples = how many values. No bounds
        below `MIN_TREND_SAMPLES`.

    Source: the bias of r is -(1 + 4r) / n, M. G. Kendall, "Note on bias in the estimation of
    autocorrelation", 1954.
    """
    times, series = np.asarray(at, dtype=np.float64), np.asarray(values, dtype=np.float64)
    count = len(series)
    if count < 2 or times[-1] <= times[0]:
        return Bounds(None, None, None, count)
    blocks = min(_MOST_BLOCKS, count // 2) if count >= MIN_TREND_SAMPLES else count
    t = np.array([part.mean() for part in np.array_split(times, blocks)])
    y = np.array([part.mean() for part in np.array_split(series, blocks)])
    t_from_mean = t - t.mean()
    spread = float(t_from_mean @ t_from_mean)
    slope = float(t_from_mean @ (y - y.mean())) / spread
    if count < MIN_TREND_SAMPLES:
        return Bounds(slope, None, None, count)
    residuals = y - y.mean() - slope * t_from_mean
    r = lag1_autocorrelation(residuals) or 0.0
    r = min(_STRONGEST, max(0.0, r + (1 + 4 * r) / blocks))
    variance = float(residuals @ residuals) / (blocks - 2) * (1 + r) / (1 - r)
    margin = student_t(confidence, blocks - 2) * math.sqrt(variance / spread)
    margin += resolution / float(times[-1] - times[0])
    lower, upper = slope - margin, slope + margin
    if step > 0.0:
        levels = np.array([np.median(part) for part in np.array_split(series, blocks)])
        grown, spanned = float(levels[-1] - levels[0]), float(t[-1] - t[0])
        seen = float(np.abs(np.diff(levels)).max())
        lower = min(lower, (grown - _reach(levels, confidence, seen)) / spanned)
        upper = max(upper, (grown + _reach(levels, confidence, max(seen, step))) / spanned)
    return Bounds(slope, lower, upper, count)


def _reach(levels: NDArray[np.float64], confidence: float, step: float) -> float:
    """Returns how much further a walk in random steps may have moved on another day.

    Few moves are a compound Poisson process, bounded by the score interval of its count, in steps of
    `step`; many are bounded by Student's t over the blocks.
    """
    moves = np.diff(levels)
    if int((np.abs(moves) > step / 2.0).sum()) >= _MANY_MOVES:
        spread = float(moves.std(ddof=1)) * math.sqrt(len(moves))
        return _WALK_SLACK * student_t(confidence, len(moves) - 1) * spread
    z, squares = NormalDist().inv_cdf(confidence), float(moves @ moves)
    return step * z * z / 2.0 + z * math.sqrt(squares + step * step * z * z / 4.0)
