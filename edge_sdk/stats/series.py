"""A run as a series: where it settles, and how far its frames are from independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_sdk.errors import ConfigError
from edge_sdk.stats.bounds import BLOCK_NS, percentile

__all__ = ["MAX_WARM_UP_SHARE", "Block", "block_percentiles", "lag1_autocorrelation", "warm_up_frames"]

MAX_WARM_UP_SHARE = 0.5
"""No more than this share of a series is ever taken for warm-up."""

_FEWEST = 10  # fewer values show no steady level to compare with
_RATIO_MIN = 1.05  # a head less than 5 % slower than the rest is not worth calling warm-up
_CLIP_SIGMAS = 4.0  # one stall in mid-run must not outweigh a plateau
_SIGMA_FLOOR = 0.01  # a series without noise still has 1 % of it, or rounding would look like a step


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
    start_ns: ArrayLike, values: ArrayLike, share: float, block_ns: int = BLOCK_NS
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
    edges = np.flatnonzero(np.diff(numbers)) + 1
    firsts = np.concatenate([[0], edges])
    return [
        Block(int(numbers[first]) * block_ns, len(chunk), percentile(chunk, share))
        for first, chunk in zip(firsts, np.split(series, edges), strict=True)
    ]


def warm_up_frames(values: ArrayLike, groups: Sequence[Any] | None = None) -> int:
    """Finds where a run settles: the number of leading frames that belong to its warm-up.

    No fixed count is dropped. The cut is the one that leaves the steadiest rest (White's MSER rule on
    logarithms, stalls clipped), and it stands only if what it cuts off is clearly slower than the rest:
    by 5 % and by four standard errors. So a steady run, or one that slows down later, loses nothing,
    and a run with two plateaus before it settles loses both. At most `MAX_WARM_UP_SHARE` is cut,
    and nothing from fewer than ten frames.

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
    if count < _FEWEST:
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
    relative: NDArray[np.float64] = logs.copy()
    for kind in np.unique(kinds):
        own = np.flatnonzero(kinds == kind)
        relative[own] -= np.median(logs[own[len(own) // 2 :]])
    return relative
