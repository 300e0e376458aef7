"""What is wrong with a trace of power: time without samples, counters that fall or stand still, values no
machine can have. One place, so that a window, a run, a log and a wall meter's file are held to the same.

A trace is taken at its word only where it was there: what a sensor did while nobody read it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import MeterError
from edge_sdk.power import PowerTrace, RailFacts

__all__ = [
    "FROZEN_S",
    "MAX_RAIL_W",
    "MIN_COVERED_SHARE",
    "Column",
    "gap_limit_s",
    "longest_standstill_s",
    "refuse_impossible",
    "sound_column",
]

MIN_COVERED_SHARE = 0.9
"""A window of which less is covered by samples has no figure: reads that failed are absent time."""

FROZEN_S = 30.0
"""A sensor that gives the very same reading for longer is not believed: voltage and load of a machine at work
both move by a step of the sensor's within that time, 70 time constants of an INA3221."""

MAX_RAIL_W = 20_000.0
"""No machine that this SDK runs on draws more; a larger value is a wrong unit or a broken line."""

_LEAST_GAP_LIMIT_S = 1.0
_GAP_PERIODS = 3.0
_COUNTER_AGREEMENT = 1.5
"""A counter and the power readings beside it may differ by this factor; both are means over other times."""


@dataclass(frozen=True, eq=False)
class Column:
    """The samples of one rail around a window.

    Attributes:
        times_ns: float64 [n], monotonic clock.
        values: float64 [n], watts, or joules where the rail is counted.
        gaps_s: float64, lengths of the times without a sample that are longer than usual, all tolerable.
        range_w: largest less smallest power of the whole trace: what may have happened in a gap.
    """

    times_ns: NDArray[np.float64]
    values: NDArray[np.float64]
    gaps_s: NDArray[np.float64]
    range_w: float


def gap_limit_s(period_s: float) -> float:
    """Returns how long a trace may be without a sample, in seconds: three periods, or a second."""
    return max(_LEAST_GAP_LIMIT_S, _GAP_PERIODS * period_s)


def sound_column(trace: PowerTrace, rail: RailFacts, start_ns: int, end_ns: int) -> Column:
    """Returns the samples of a rail that cover a window, counted energy where the rail has it.

    Raises:
        MeterError: the samples leave a hole or an end of the window uncovered, too many reads failed, the
            counter fell or stood still, or there is a value that no machine can have.
    """
    counters = trace.joules.get(rail.label)
    watts = trace.watts[rail.label]
    first = max(0, int(np.searchsorted(trace.times_ns, start_ns, side="right")) - 1)
    last = int(np.searchsorted(trace.times_ns, end_ns, side="left")) + 1
    times = trace.times_ns[first:last]
    values = (watts if counters is None else counters)[first:last]
    refuse_impossible(trace, rail, first, last)
    kept = np.isfinite(values)
    missing, wanted = int((~kept).sum()), len(times)
    if kept.sum() < 2:
        raise MeterError(f"rail {rail.label}: {int(kept.sum())} samples in the window, at least 2 are needed")
    if missing > (1.0 - MIN_COVERED_SHARE) * wanted:
        raise MeterError(f"rail {rail.label}: {missing} of {wanted} samples in the window are missing")
    kept_times, kept_values = times[kept], values[kept]
    steps_s = np.diff(kept_times) / 1e9
    usual_s = float(np.median(np.diff(times))) / 1e9 if len(times) > 1 else 0.0
    _refuse_open_ends(rail.label, kept_times, usual_s, start_ns, end_ns)
    if counters is not None:
        _refuse_bad_counter(rail.label, kept_times, kept_values, watts[first:last][kept], usual_s)
        return Column(kept_times.astype(np.float64), kept_values, np.zeros(0), 0.0)
    _refuse_holes(rail.label, kept_times, steps_s, usual_s, start_ns, end_ns)
    whole = watts[np.isfinite(watts)]
    gaps_s = steps_s[steps_s > 2.0 * usual_s]
    return Column(kept_times.astype(np.float64), kept_values, gaps_s, float(np.ptp(whole)))


def refuse_impossible(trace: PowerTrace, rail: RailFacts, first: int = 0, last: int | None = None) -> None:
    """Refuses power that no rail of a machine can have, within `first` to `last` of the samples.

    Raises:
        MeterError: a reading is below zero by more than the sensor's own errors, or above `MAX_RAIL_W`.
    """
    watts = trace.watts[rail.label][first:last]
    least_w = -(rail.offset_w + rail.lsb_w + 1e-9)
    wrong = np.flatnonzero((watts < least_w) | (watts > MAX_RAIL_W))
    if len(wrong):
        at_s = float(trace.times_ns[first + int(wrong[0])] - trace.times_ns[0]) / 1e9
        raise MeterError(
            f"rail {rail.label}: {watts[wrong[0]]:g} W at {at_s:.2f} s of the trace ({len(wrong)} such "
            f"samples); expected {least_w:.3g} to {MAX_RAIL_W:g} W. The sensor or the file's unit is wrong"
        )


def longest_standstill_s(trace: PowerTrace, labels: tuple[str, ...], start_ns: int, end_ns: int) -> float:
    """Returns the longest time in a window for which none of the rails' readings changed at all, in seconds.

    Counted rails are not looked at here: a counter that stands still is refused by `sound_column`.
    """
    read = [label for label in labels if label not in trace.joules]
    inside = (trace.times_ns >= start_ns) & (trace.times_ns <= end_ns)
    if not read or inside.sum() < 2:
        return 0.0
    columns = np.stack([trace.watts[label][inside] for label in read])
    whole = np.isfinite(columns).all(axis=0)
    times, columns = trace.times_ns[inside][whole], columns[:, whole]
    if len(times) < 2:
        return 0.0
    moved = np.flatnonzero((np.diff(columns, axis=1) != 0.0).any(axis=0))
    edges = np.concatenate([[0], moved + 1, [len(times)]])
    return max(float(times[end - 1] - times[start]) / 1e9 for start, end in pairwise(edges))


def _refuse_open_ends(
    label: str, times: NDArray[np.int64], usual_s: float, start_ns: int, end_ns: int
) -> None:
    late_s = max(int(times[0]) - start_ns, end_ns - int(times[-1])) / 1e9
    if late_s > max(2 * usual_s, 0.5):
        raise MeterError(f"rail {label}: the samples leave {late_s:.2f} s of the window uncovered at an end")


def _refuse_holes(
    label: str,
    times: NDArray[np.int64],
    steps_s: NDArray[np.float64],
    usual_s: float,
    start_ns: int,
    end_ns: int,
) -> None:
    limit_s = gap_limit_s(usual_s)
    holes = np.flatnonzero(steps_s > limit_s)
    if len(holes):
        worst = int(holes[np.argmax(steps_s[holes])])
        from_s = (int(times[worst]) - start_ns) / 1e9
        raise MeterError(
            f"rail {label}: no sample for {steps_s[worst]:.2f} s from {max(0.0, from_s):.2f} s of the window "
            f"on ({len(holes)} such holes, {steps_s[holes].sum():.2f} of {(end_ns - start_ns) / 1e9:.2f} s); "
            f"at most {limit_s:.2f} s are bridged. What was drawn meanwhile is unknown"
        )


def _refuse_bad_counter(
    label: str,
    times: NDArray[np.int64],
    joules: NDArray[np.float64],
    watts: NDArray[np.float64],
    usual_s: float,
) -> None:
    grown = np.diff(joules)
    fell = np.flatnonzero(grown < 0.0)
    if len(fell):
        at_s = (int(times[fell[0] + 1]) - int(times[0])) / 1e9
        raise MeterError(
            f"rail {label}: its energy counter fell from {joules[fell[0]]:.3f} to "
            f"{joules[fell[0] + 1]:.3f} J {at_s:.2f} s into the window: it was restarted, and what it had "
            "counted is lost"
        )
    steps_s = np.diff(times) / 1e9
    fast = np.flatnonzero(grown > MAX_RAIL_W * np.maximum(steps_s, 1e-3))
    if len(fast):
        raise MeterError(
            f"rail {label}: its energy counter grew by {grown[fast[0]]:g} J in {steps_s[fast[0]]:.3f} s, "
            f"more than {MAX_RAIL_W:g} W: it started over or is broken"
        )
    drawn = np.isfinite(watts)
    if drawn.sum() < 2:
        return
    _refuse_counter_beside_power(label, times[drawn], joules[drawn], watts[drawn], gap_limit_s(usual_s))


def _refuse_counter_beside_power(
    label: str,
    times: NDArray[np.int64],
    joules: NDArray[np.float64],
    watts: NDArray[np.float64],
    limit_s: float,
) -> None:
    """Compares a counter with the power that the same sensor reads: over the whole, and while it stands."""
    read_j = np.concatenate([[0.0], np.cumsum(np.diff(times) / 1e9 * (watts[1:] + watts[:-1]) / 2.0)])
    counted_j, seconds = float(joules[-1] - joules[0]), float(times[-1] - times[0]) / 1e9
    step_j = float(np.diff(joules).max())  # a counter of whole Wh stands still between its steps
    least_j, most_j = read_j[-1] / _COUNTER_AGREEMENT - step_j, read_j[-1] * _COUNTER_AGREEMENT + step_j
    if seconds > limit_s and not least_j <= counted_j <= most_j:
        raise MeterError(
            f"rail {label}: its counter grew by {counted_j:.3f} J in {seconds:.2f} s, "
            f"its power readings make {read_j[-1]:.3f} J: one of the two is wrong"
        )
    edges = np.concatenate([[0], np.flatnonzero(np.diff(joules) > 0.0) + 1, [len(joules) - 1]])
    for start, end in pairwise(edges):
        still_s = float(times[end] - times[start]) / 1e9
        if still_s > limit_s and read_j[end] - read_j[start] > _COUNTER_AGREEMENT * step_j:
            raise MeterError(
                f"rail {label}: its counter stood still for {still_s:.2f} s while power was drawn "
                f"({watts[start:end].mean():.3f} W): energy is missing from it"
            )
