"""The binomial distribution, exact, and the claims that rest on it alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from edge_sdk.errors import ConfigError

__all__ = [
    "CONFIDENCE",
    "admissible_over",
    "binomial_cdf",
    "check_shares",
    "samples_needed",
    "share_interval",
]

CONFIDENCE = 0.99
"""Confidence of every one-sided bound unless another is asked for. Source: MLPerf inference rules."""


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
    check_shares(share, confidence)
    over_share, risk = 1.0 - share, 1.0 - confidence
    if samples <= 0 or binomial_cdf(0, samples, over_share) > risk:
        return None
    return _last_true(0, samples - 1, lambda over: binomial_cdf(over, samples, over_share) <= risk)


@lru_cache(maxsize=1024)
def samples_needed(share: float, over: int = 0, confidence: float = CONFIDENCE) -> int:
    """Finds the fewest samples that bound percentile `share` when `over` of them lie over the bound."""
    check_shares(share, confidence)
    over_share, risk = 1.0 - share, 1.0 - confidence
    too_few, enough = over, over + 1
    while binomial_cdf(over, enough, over_share) > risk:
        too_few, enough = enough, enough * 2
    return _last_true(too_few, enough, lambda count: binomial_cdf(over, count, over_share) > risk) + 1


def share_interval(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Computes Clopper and Pearson's exact one-sided bounds of a share, each at the asked confidence.

    Raises:
        ConfigError: `hits` is not within 0 - `trials`, or there is no trial.
    """
    if not 0 <= hits <= trials or trials == 0:
        raise ConfigError(f"share of {hits} in {trials}: expected at least one trial and 0 <= hits <= trials")
    check_shares(0.5, confidence)
    lower = 0.0 if hits == 0 else _root(lambda q: binomial_cdf(hits - 1, trials, q) - confidence)
    upper = 1.0 if hits == trials else _root(lambda q: binomial_cdf(hits, trials, q) - (1.0 - confidence))
    return lower, upper


def check_shares(share: float, confidence: float) -> None:
    """Refuses a percentile or a confidence that makes no sense.

    Raises:
        ConfigError: the share is not within 0 - 1, or the confidence not within 0.5 - 1.
    """
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
