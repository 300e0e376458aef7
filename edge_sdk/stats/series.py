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

__all__ = [
    "MAX_WARM_UP_SHARE",
    "USUAL_WARM_UP",
    "Block",
    "Settling",
    "WarmUpBudget",
    "block_percentiles",
    "lag1_autocorrelation",
    "settling",
    "warm_up_frames",
]

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


@dataclass(frozen=True)
class WarmUpBudget:
    """How long a run may take to settle: a slow head within all three is warm-up, a longer one is not.

    Attributes:
        seconds: from the first frame's start.
        frames: leading frames, the cold first one included.
        share: of all frames of the run.
    """

    seconds: float = 5.0
    frames: int = 100
    share: float = 0.1


USUAL_WARM_UP = WarmUpBudget()
"""What a run may take to settle where nobody states otherwise."""


@dataclass(frozen=True)
class Settling:
    """How a run settled.

    Attributes:
        warm_up: leading frames that no steady figure counts: the cold one, and a slow head within the budget.
        head: leading frames of a slow head that is longer than the budget, counted with the rest; 0: none.
        head_s: how long that head lasted, in seconds.
        slower: by what factor its median is over that of the rest; 1 without a head.
    """

    warm_up: int
    head: int = 0
    head_s: float = 0.0
    slower: float = 1.0


def settling(
    start_ns: ArrayLike,
    latency_ns: ArrayLike,
    groups: Sequence[Any] | None = None,
    budget: WarmUpBudget = USUAL_WARM_UP,
) -> Settling:
    """Divides a run into warm-up and rest, and says where it did not settle in time.

    The first frame is cold and never counts. A slow head as `warm_up_frames` finds it is warm-up only as
    far as the budget allows all of it; a longer one would hide what the run was like for much of its time.

    Arguments:
        start_ns, latency_ns: of each frame in order, in nanoseconds.
        groups: the kind of each frame (its route), see `warm_up_frames`.
        budget: for warm-up.
    """
    starts, latencies = np.asarray(start_ns, np.int64), np.asarray(latency_ns, np.float64)
    count = len(latencies)
    if not count:
        return Settling(0)
    head = warm_up_frames(latencies, groups)
    if head <= 1:
        return Settling(1)
    head_s = float(starts[head] - starts[0]) / 1e9
    if head_s <= budget.seconds and head <= min(budget.frames, max(1, int(budget.share * count))):
        return Settling(head)
    levels = _over_own_level(np.log(latencies), groups)
    slower = math.exp(float(np.median(levels[:head])) - float(np.median(levels[head:])))
    return Settling(1, head, head_s, slower)


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
