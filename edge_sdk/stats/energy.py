"""Energy of a window from power samples, corrected for the sensor's lag, with a standard uncertainty.

A Jetson's INA3221 gives a running average: y' = (x - y) / tau. Integrated over a window this is exact:
energy = integral of y + tau * (y_end - y_start). Without the last term a window that starts at a load
step reads low by a good part: 21 % of the step in 2 s.

Source: TI SBOS576 (averaging); L4T `nvpower.sh` (512 samples, 2 x 140 us, 3 channels: 0.43 s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edge_sdk.errors import MeterError
from edge_sdk.power import PowerTrace, RailFacts
from edge_sdk.stats.trace_checks import FROZEN_S, longest_standstill_s, sound_column

__all__ = [
    "IDLE_AGREEMENT",
    "LOW_CONFIDENCE_S",
    "MIN_INFERENCES",
    "MIN_SAMPLES",
    "MIN_WINDOW_S",
    "Energy",
    "Figure",
    "idle_power",
    "marginal_energy",
    "window_energy",
]

MIN_WINDOW_S = 2.0
"""A shorter window is refused: the lag of the sensor is most of what it would show."""

LOW_CONFIDENCE_S = 10.0
"""A shorter window is marked as of low confidence."""

MIN_SAMPLES = 20
"""Fewer samples are marked as of low confidence, and judge no SLA. Energy counters need two."""

MIN_INFERENCES = 64
"""Fewer inferences judge no SLA."""

IDLE_AGREEMENT = 0.03
"""Idle power before and after a run may differ by this share; beyond it no marginal figure exists."""


@dataclass(frozen=True)
class Figure:
    """A figure and its standard uncertainty, in one unit.

    Attributes:
        value: the estimate.
        sigma: one standard uncertainty.
    """

    value: float
    sigma: float


@dataclass(frozen=True)
class Energy:
    """Energy of one window.

    Attributes:
        duration_s: of the window.
        samples: inside it.
        corrected_j: with the correction for the sensor's lag. The figure to use.
        uncorrected_j: the plain integral of the readings.
        sigma_j: standard uncertainty of `corrected_j`.
        offset_sigma_j: the part of `sigma_j` that subtracting idle of the same rails cancels.
        slow_reads: samples whose read took longer than `slow_ns`.
        low_confidence: why the figure deserves little trust, or "".
        standstill_s: longest time in the window for which no reading changed at all.
    """

    duration_s: float
    samples: int
    corrected_j: float
    uncorrected_j: float
    sigma_j: float
    offset_sigma_j: float
    slow_reads: int = 0
    low_confidence: str = ""
    standstill_s: float = 0.0

    @property
    def mean_w(self) -> float:
        """Mean power over the window."""
        return self.corrected_j / self.duration_s

    @property
    def sigma_w(self) -> float:
        """Standard uncertainty of `mean_w`."""
        return self.sigma_j / self.duration_s


def window_energy(
    trace: PowerTrace,
    rails: tuple[RailFacts, ...],
    start_ns: int,
    end_ns: int,
    *,
    slow_ns: int = 50_000_000,
) -> Energy:
    """Returns the energy of the rails together from `start_ns` to `end_ns`.

    Arguments:
        trace: samples that cover the window; readings at its edges are interpolated.
        rails: which to add up, and their errors.
        slow_ns: a read that took longer is counted as slow.

    Raises:
        MeterError: the window is too short, there is no rail to add up, the samples do not cover it, or they
            cannot be true; see `sound_column`.
    """
    duration_s = (end_ns - start_ns) / 1e9
    if not rails:
        raise MeterError("no rails to add up: the board's total is not known")
    if duration_s < MIN_WINDOW_S:
        raise MeterError(
            f"the window lasted {max(0.0, duration_s):.2f} s, at least {MIN_WINDOW_S:g} s are needed: "
            "a sensor that averages shows nothing shorter. Measure longer"
        )
    first = int(np.searchsorted(trace.times_ns, start_ns, side="left"))
    last = int(np.searchsorted(trace.times_ns, end_ns, side="right"))
    parts = [_rail_energy(trace, rail, start_ns, end_ns) for rail in rails]
    counted = all(rail.label in trace.joules for rail in rails)
    samples = last - first
    doubts = []
    if duration_s < LOW_CONFIDENCE_S:
        doubts.append(f"{duration_s:.1f} s is under {LOW_CONFIDENCE_S:g} s")
    if samples < MIN_SAMPLES and not counted:
        doubts.append(f"{samples} samples are under {MIN_SAMPLES}")
    if (
        not counted
        and samples
        and not any(np.nan_to_num(trace.watts[rail.label][first:last]).any() for rail in rails)
    ):
        raise MeterError(f"0 W in each of {samples} samples: the sensor reads nothing")
    still_s = longest_standstill_s(trace, tuple(rail.label for rail in rails), start_ns, end_ns)
    if still_s > FROZEN_S:
        doubts.append(f"the reading did not change at all for {still_s:.1f} s")
    # Offsets and gains are of one kind of chip at one temperature: they are added, not squared.
    offset_j = sum(part.offset_j for part in parts)
    gain_j = math.sqrt(sum(part.gain_j**2 for part in parts))
    lag_j = sum(part.lag_j for part in parts)  # rails of one chip share its tau
    other = sum(part.random_j**2 for part in parts)
    return Energy(
        duration_s=duration_s,
        samples=samples,
        corrected_j=sum(part.corrected_j for part in parts),
        uncorrected_j=sum(part.uncorrected_j for part in parts),
        sigma_j=math.sqrt(offset_j**2 + gain_j**2 + lag_j**2 + other),
        offset_sigma_j=offset_j,
        slow_reads=int((trace.read_ns[first:last] > slow_ns).sum()),
        low_confidence="; ".join(doubts),
        standstill_s=still_s,
    )


def idle_power(before: Energy, after: Energy) -> tuple[Figure | None, str]:
    """Returns the idle power of a run, or None and why there is none.

    Idle moves with temperature, clocks and whatever else wakes up. Where it differs before and after
    by more than `IDLE_AGREEMENT`, nobody knows what it was in between.
    """
    low, high = sorted((before.mean_w, after.mean_w))
    if low <= 0 or (high - low) / low > IDLE_AGREEMENT:
        share = f"{100 * (high - low) / low:.1f} %" if low > 0 else "a sign"
        return None, (
            f"idle was {before.mean_w:.3f} W before and {after.mean_w:.3f} W after, {share} apart; "
            f"at most {100 * IDLE_AGREEMENT:g} % are taken"
        )
    # What the two differ by is how well idle is known, beside the errors that do not cancel.
    own = math.hypot(*(_without_offset(part) / part.duration_s for part in (before, after))) / 2
    return Figure((before.mean_w + after.mean_w) / 2, math.hypot(own, (high - low) / 2)), ""


def marginal_energy(run: Energy, idle_w: Figure) -> Figure:
    """Subtracts idle power: what the work itself took, in joules. Offsets of the sensor cancel."""
    value = run.corrected_j - idle_w.value * run.duration_s
    return Figure(value, math.hypot(_without_offset(run), idle_w.sigma * run.duration_s))


def _without_offset(part: Energy) -> float:
    return math.sqrt(max(0.0, part.sigma_j**2 - part.offset_sigma_j**2))


@dataclass(frozen=True)
class _Part:
    """One rail's share of a window: energy, and its errors by how they add up over rails."""

    corrected_j: float
    uncorrected_j: float
    offset_j: float
    gain_j: float
    lag_j: float
    random_j: float


def _rail_energy(trace: PowerTrace, rail: RailFacts, start_ns: int, end_ns: int) -> _Part:
    column = sound_column(trace, rail, start_ns, end_ns)
    values = column.values
    seconds = (column.times_ns - start_ns) / 1e9
    length_s = (end_ns - start_ns) / 1e9
    if rail.label in trace.joules:
        energy = float(np.interp(length_s, seconds, values) - np.interp(0.0, seconds, values))
        # A counter is read between its own updates, at each end of the window.
        steps = np.diff(values, prepend=values[0])
        end_j = math.sqrt(2.0) * float(np.abs(steps).max(initial=0.0)) / math.sqrt(12.0)
        gain_j = rail.gain_share * abs(energy)
        return _Part(energy, energy, rail.offset_w / math.sqrt(3.0) * length_s, gain_j, 0.0, end_j)
    edges = np.interp([0.0, length_s], seconds, values)
    within = (seconds > 0.0) & (seconds < length_s)
    x = np.concatenate([[0.0], seconds[within], [length_s]])
    y = np.concatenate([edges[:1], values[within], edges[1:]])
    integral = float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2.0))
    rise_w = float(edges[1] - edges[0])
    corrected = integral + rail.tau_s * rise_w
    code_w = rail.lsb_w / math.sqrt(12.0)
    step_s = float(np.diff(x).max())
    swing_w = float(y.max() - y.min())
    # The error of rounding is not divided by the root of the samples: a reading that sits on one code
    # has the same error in each of them. The two edges of the lag term are rounded on their own.
    rounding_j = code_w * math.hypot(length_s, math.sqrt(2.0) * rail.tau_s)
    # A load that changes between two samples; a running average bends there by its own time constant.
    bend_w = swing_w if rail.tau_s == 0.0 else max(abs(rise_w), min(1.0, step_s / rail.tau_s) * swing_w)
    sampling_j = step_s * bend_w / 2.0 / math.sqrt(3.0)
    # In a gap the power may have been anything that this trace has seen.
    gaps_j = column.range_w * float(np.sqrt((column.gaps_s**2).sum())) / math.sqrt(12.0)
    return _Part(
        corrected_j=corrected,
        uncorrected_j=integral,
        offset_j=rail.offset_w / math.sqrt(3.0) * length_s,
        gain_j=rail.gain_share * abs(corrected),
        lag_j=rail.tau_share * rail.tau_s * abs(rise_w),
        random_j=math.hypot(rounding_j, max(sampling_j, gaps_j)),
    )
