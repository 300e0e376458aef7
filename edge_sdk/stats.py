"""What a run's numbers can and cannot show: pure functions on arrays of measurements.

A percentile of a few hundred frames is an estimate, not a fact. The functions here say how far the
true value can be from it at a stated confidence. The bounds on percentiles and shares are exact for
independent samples (binomial, as in MLPerf LoadGen's early stopping). Frames are not independent
(throttling, shutter corrections, garbage collection), so `lag1_autocorrelation` and `block_percentiles`
belong beside every bound, and the bounds are optimistic where the autocorrelation is not near zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_sdk.errors import ConfigError

__all__ = [
    "CONFIDENCE",
    "MAX_WARM_UP_SHARE",
    "MIN_RATE_BLOCKS",
    "Block",
    "Bounds",
    "admissible_over",
    "binomial_cdf",
    "block_percentiles",
    "lag1_autocorrelation",
    "percentile",
    "percentile_bounds",
    "rate_bounds",
    "samples_needed",
    "share_bounds",
    "warm_up_frames",
]

CONFIDENCE = 0.99
"""Confidence of every one-sided bound unless another is asked for. Source: MLPerf inference rules."""

MAX_WARM_UP_SHARE = 0.5
"""No more than this share of a series is ever taken for warm-up."""

MIN_RATE_BLOCKS = 10
"""Fewer blocks than this bound no rate."""

_BLOCK_NS = 1_000_000_000
_RATIO_MIN = 1.05  # a head less than 5 % slower than the rest is not worth calling warm-up
_CLIP_SIGMAS = 4.0  # one stall in mid-run must not outweigh a plateau
_SIGMA_FLOOR = 0.01  # a series without noise still has 1 % of it, or rounding would look like a step


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


@dataclass(frozen=True)
class Block:
    """One second (or another fixed span) of a run.

    Attributes:
        start_ns: from the start of the run.
        samples: values in the block.
        value: their percentile.
    """

    start_ns: int
    samples: int
    value: float


def binomial_cdf(most: int, trials: int, share: float) -> float:
    """Computes P[Binomial(trials, share) <= most].

    Each term comes from Loader's saddle-point form, which keeps full double precision up to a million
    trials and beyond, where log-gamma differences do not.

    Source: C. Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000.
    """
    if most < 0:
        return 0.0
    if most >= trials or share <= 0.0:
        return 1.0
    if share >= 1.0:
        return 0.0
    if most <= trials * share:
        return min(1.0, _lower_tail(most, trials, share))
    return max(0.0, 1.0 - _lower_tail(trials - most - 1, trials, 1.0 - share))


@lru_cache(maxsize=1024)
def admissible_over(samples: int, share: float, confidence: float = CONFIDENCE) -> int | None:
    """Finds how many of `samples` may lie over a bound that percentile `share` is claimed to keep.

    Arguments:
        samples: how many there are.
        share: the percentile as a share, 0.99 for P99.
        confidence: of the claim.

    Returns: the largest t with P[Binomial(samples, 1 - share) <= t] <= 1 - confidence; None when even
        t = 0 is not admissible, so that nothing can be claimed.
    """
    _check_shares(share, confidence)
    over_share, risk = 1.0 - share, 1.0 - confidence
    if samples <= 0 or binomial_cdf(0, samples, over_share) > risk:
        return None
    return _last_true(0, samples - 1, lambda over: binomial_cdf(over, samples, over_share) <= risk)


@lru_cache(maxsize=1024)
def samples_needed(share: float, over: int = 0, confidence: float = CONFIDENCE) -> int:
    """Finds the fewest samples that bound percentile `share` when `over` of them lie over the bound."""
    _check_shares(share, confidence)
    over_share, risk = 1.0 - share, 1.0 - confidence
    too_few, enough = over, over + 1
    while binomial_cdf(over, enough, over_share) > risk:
        too_few, enough = enough, enough * 2
    return _last_true(too_few, enough, lambda count: binomial_cdf(over, count, over_share) > risk) + 1


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
    _check_shares(share, confidence)
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
    """Bounds a share (dropped frames) from a count: Clopper and Pearson's exact one-sided bounds.

    Raises:
        ConfigError: `hits` is not within 0 - `trials`.
    """
    if not 0 <= hits <= trials:
        raise ConfigError(f"share_bounds: {hits} of {trials}: expected 0 <= hits <= trials")
    _check_shares(0.5, confidence)
    if trials == 0:
        return Bounds(None, None, None, 0)
    risk = 1.0 - confidence
    upper = 1.0 if hits == trials else _root(lambda q: binomial_cdf(hits, trials, q) - risk)
    lower = 0.0 if hits == 0 else _root(lambda q: binomial_cdf(hits - 1, trials, q) - confidence)
    return Bounds(hits / trials, lower, upper, trials)


def rate_bounds(start_ns: ArrayLike, confidence: float = CONFIDENCE, block_ns: int = _BLOCK_NS) -> Bounds:
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
    margin = _student_t(confidence, len(rates) - 1) * float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
    return Bounds(estimate, max(0.0, estimate - margin), estimate + margin, len(rates))


def lag1_autocorrelation(values: ArrayLike) -> float | None:
    """Correlates each value with the next: near 0 when frames are independent, near 1 when they drift.

    Returns: -1 to 1, or None for fewer than three values or values that are all equal.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) < 3:
        return None
    deviation = series - series.mean()
    total = float(deviation @ deviation)
    if total <= 1e-24 * len(series) * max(1.0, float(np.abs(series).max())) ** 2:
        return None
    return float(deviation[:-1] @ deviation[1:]) / total


def block_percentiles(
    start_ns: ArrayLike, values: ArrayLike, share: float, block_ns: int = _BLOCK_NS
) -> list[Block]:
    """Cuts a run into blocks of fixed time and takes the percentile of each, to show drift.

    Arguments:
        start_ns: time of each value in nanoseconds, ascending.
        values: one a time.
        share: the percentile as a share.

    Returns: the blocks that hold any value, in order.
    """
    times, series = np.asarray(start_ns, dtype=np.int64), np.asarray(values, dtype=np.float64)
    if len(times) == 0:
        return []
    numbers = (times - times[0]) // block_ns
    return [
        Block(int(number) * block_ns, int((numbers == number).sum()), percentile(series[numbers == number], share))
        for number in np.unique(numbers)
    ]


def warm_up_frames(values: ArrayLike, groups: Sequence[Any] | None = None) -> int:
    """Finds where a run settles: the number of leading frames that belong to its warm-up.

    No fixed count is dropped. The cut is the one that leaves the steadiest rest (White's MSER rule on
    logarithms, stalls clipped), and it stands only if what it cuts off is clearly slower than the rest:
    by 5 % and by four standard errors. So a steady run, or one that slows down later, loses nothing,
    and a run with two plateaus before it settles loses both. At most `MAX_WARM_UP_SHARE` is cut.

    Arguments:
        values: latencies in order, any unit, all positive.
        groups: the kind of each frame (its route). Each is compared with its own steady level, so
            that going over to a slower route is not taken for a change of the machine.

    Raises:
        ConfigError: a value is not a positive finite number.

    Source: K. P. White, "An effective truncation heuristic for bias reduction in simulation output", 1997.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) and not (np.isfinite(series).all() and series.min() > 0):
        raise ConfigError("warm_up_frames: expected positive finite values")
    count = len(series)
    if count < 4:
        return 0
    levels = _over_own_level(np.log(series), groups)
    settled = levels[count // 2 :]
    sigma = max(_SIGMA_FLOOR, 1.4826 * float(np.median(np.abs(settled - np.median(settled)))))
    level = float(np.median(settled))
    clipped = np.clip((levels - level) / sigma, -_CLIP_SIGMAS, _CLIP_SIGMAS)
    remaining = count - np.arange(int(count * MAX_WARM_UP_SHARE) + 1)
    sums = np.cumsum(clipped[::-1])[::-1][: len(remaining)]
    squares = np.cumsum(clipped[::-1] ** 2)[::-1][: len(remaining)]
    spread = squares / remaining - (sums / remaining) ** 2
    cut = int(np.argmin(np.round(spread / remaining, 12)))
    if cut == 0:
        return 0
    head = levels[:cut]
    slower = float(np.median(head)) - level >= math.log(_RATIO_MIN)
    sure = float(clipped[:cut].mean()) * math.sqrt(cut) >= _CLIP_SIGMAS - 1e-9
    return cut if slower and sure else 0


def _over_own_level(logs: NDArray[np.float64], groups: Sequence[Any] | None) -> NDArray[np.float64]:
    if groups is None:
        return logs
    kinds = np.asarray([str(group) for group in groups])
    if len(kinds) != len(logs):
        raise ConfigError(f"warm_up_frames: {len(logs)} values, {len(kinds)} groups")
    relative = logs.copy()
    for kind in np.unique(kinds):
        own = np.flatnonzero(kinds == kind)
        relative[own] -= np.median(logs[own[len(own) // 2 :]])
    return relative


def _sorted(values: ArrayLike) -> NDArray[np.float64]:
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not np.isfinite(ordered).all():
        raise ConfigError("measurements: expected finite numbers, found NaN or infinity")
    return ordered


def _nearest_rank(ordered: NDArray[np.float64], share: float) -> float:
    _check_shares(share, CONFIDENCE)
    if not len(ordered):
        raise ConfigError("percentile of no values")
    # 0.07 * 100 is 7.000000000000001: without the margin the rank would be 8.
    return float(ordered[max(1, math.ceil(share * len(ordered) - 1e-9)) - 1])


def _check_shares(share: float, confidence: float) -> None:
    if not 0.0 < share < 1.0:
        raise ConfigError(f"percentile share: expected more than 0 and less than 1, found {share}")
    if not 0.5 <= confidence < 1.0:
        raise ConfigError(f"confidence: expected 0.5 - 1 (1 excluded), found {confidence}")


def _last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Bisects for the last number for which `holds`, true at `low` and monotonic."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _root(falling: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _lower_tail(most: int, trials: int, share: float) -> float:
    """Sums the terms 0 - `most`, largest first, until they no longer count. Needs most <= mean."""
    term = _binomial_term(most, trials, share)
    odds = (1.0 - share) / share
    total, hits = term, most
    while hits > 0 and term > total * 1e-18:
        term *= hits * odds / (trials - hits + 1)
        total += term
        hits -= 1
    return total


def _binomial_term(hits: int, trials: int, share: float) -> float:
    if hits == 0:
        return math.exp(trials * math.log1p(-share))
    if hits == trials:
        return math.exp(trials * math.log(share))
    rest = trials - hits
    exponent = (
        _stirling_error(trials)
        - _stirling_error(hits)
        - _stirling_error(rest)
        - _deviance(hits, trials * share)
        - _deviance(rest, trials * (1.0 - share))
    )
    return math.exp(exponent) * math.sqrt(trials / (2.0 * math.pi * hits * rest))


def _stirling_error(n: int) -> float:
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / n


def _deviance(found: float, expected: float) -> float:
    """Computes found * ln(found / expected) + expected - found without cancellation."""
    difference = found - expected
    if abs(difference) >= 0.1 * (found + expected):
        return found * math.log(found / expected) + expected - found
    ratio = difference / (found + expected)
    total, power, odd = difference * ratio, 2.0 * found * ratio, 1
    while True:
        power *= ratio * ratio
        odd += 2
        grown = total + power / odd
        if grown == total:
            return total
        total = grown


def _student_t(confidence: float, freedom: int) -> float:
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
    return sum(term / freedom**power for power, term in enumerate(terms))
