"""Estimates with bounds: percentiles, shares and rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_sdk.errors import ConfigError
from edge_sdk.stats.binomial import CONFIDENCE, admissible_over, check_shares, share_interval

__all__ = [
    "BLOCK_NS",
    "MIN_RATE_BLOCKS",
    "Bounds",
    "percentile",
    "percentile_bounds",
    "rate_bounds",
    "share_bounds",
    "student_t",
]

BLOCK_NS = 1_000_000_000
"""Length of the blocks that dependent frames are gathered into."""

MIN_RATE_BLOCKS = 10
"""Fewer blocks than this bound no rate."""


@dataclass(frozen=True)
class Bounds:
    """An estimate and what the samples allow around it.

    Attributes:
        estimate: the sample's own value, or None without samples.
        lower, upper: one-sided bounds, each at the asked confidence; None where the samples are too few.
        samples: how many there were.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    samples: int


def percentile(values: ArrayLike, share: float) -> float:
    """Returns the nearest-rank percentile: the smallest value that `share` of the values do not exceed.

    Raises:
        ConfigError: no values, a value that is not finite, or a share outside 0 - 1.
    """
    return _nearest_rank(_sorted(values), share)


def percentile_bounds(values: ArrayLike, share: float, confidence: float = CONFIDENCE) -> Bounds:
    """Bounds the true percentile that a sample comes from, without assuming a distribution.

    The upper bound is the smallest value with an admissible number of samples over it (the t+1-th
    largest, t from `admissible_over`); the lower one mirrors it.

    Arguments:
        values: any unit, any order.
        share: the percentile as a share, 0.99 for P99.
        confidence: of each bound.

    Raises:
        ConfigError: a value is not finite, or a share outside 0 - 1.
    """
    ordered = _sorted(values)
    count = len(ordered)
    check_shares(share, confidence)
    if not count:
        return Bounds(None, None, None, 0)
    over = admissible_over(count, share, confidence)
    under = admissible_over(count, 1.0 - share, confidence)
    return Bounds(
        estimate=_nearest_rank(ordered, share),
        lower=None if under is None else float(ordered[under]),
        upper=None if over is None else float(ordered[count - 1 - over]),
        samples=count,
    )


def share_bounds(hits: int, trials: int, confidence: float = CONFIDENCE) -> Bounds:
    """Bounds a share (dropped frames) from a count, exactly.

    Raises:
        ConfigError: `hits` is not within 0 - `trials`.
    """
    if trials == 0 and hits == 0:
        return Bounds(None, None, None, 0)
    lower, upper = share_interval(hits, trials, confidence)
    return Bounds(hits / trials, lower, upper, trials)


def rate_bounds(start_ns: ArrayLike, confidence: float = CONFIDENCE, block_ns: int = BLOCK_NS) -> Bounds:
    """Bounds the mean rate of events in hertz.

    Successive events are gathered into blocks of at least `block_ns`; Student's t over the blocks' rates
    gives the bounds. Blocks absorb the dependence of neighbouring frames, which single periods would not.

    Arguments:
        start_ns: times of the events in nanoseconds, ascending.
        block_ns: a second, unless the caller knows better.

    Returns: samples = number of blocks; no bounds below `MIN_RATE_BLOCKS` of them.
    """
    times = np.asarray(start_ns, dtype=np.int64)
    if len(times) < 2 or times[-1] <= times[0]:
        return Bounds(None, None, None, 0)
    estimate = (len(times) - 1) * 1e9 / float(times[-1] - times[0])
    rates: list[float] = []
    first = 0
    while True:
        last = int(np.searchsorted(times, times[first] + block_ns))
        if last >= len(times):
            break
        rates.append((last - first) * 1e9 / float(times[last] - times[first]))
        first = last
    if len(rates) < MIN_RATE_BLOCKS:
        return Bounds(estimate, None, None, len(rates))
    margin = student_t(confidence, len(rates) - 1) * float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
    return Bounds(estimate, max(0.0, estimate - margin), estimate + margin, len(rates))


def _sorted(values: ArrayLike) -> NDArray[np.float64]:
    ordered: NDArray[np.float64] = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not np.isfinite(ordered).all():
        raise ConfigError("measurements: expected finite numbers, found NaN or infinity")
    return ordered


def _nearest_rank(ordered: NDArray[np.float64], share: float) -> float:
    check_shares(share, CONFIDENCE)
    if not len(ordered):
        raise ConfigError("percentile of no values")
    # 0.07 * 100 is 7.000000000000001: without the margin the rank would be 8.
    return float(ordered[max(1, math.ceil(share * len(ordered) - 1e-9)) - 1])


def student_t(confidence: float, freedom: int) -> float:
    """Expands Student's quantile around the normal one; good to 0.001 from 9 degrees of freedom.

    Source: Abramowitz and Stegun, 26.7.5.
    """
    z = NormalDist().inv_cdf(confidence)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))
