"""A trace of power is taken at its word only where it was there: gaps, counters and values that cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from power_records import FACTS, RAIL, powered

from edge_sdk.errors import MeterError
from edge_sdk.power import PowerPart, PowerTrace, RailFacts
from edge_sdk.report.energy import energy_of_run
from edge_sdk.report.record import RunRecord
from edge_sdk.report.verdict import Outcome, judge
from edge_sdk.sla import parse_sla
from edge_sdk.stats import gap_limit_s, longest_standstill_s, window_energy

S = 1_000_000_000
COUNTED = RailFacts("GPU0", "nvml energy counter", True)


def trace_of(seconds: np.ndarray, watts: Any, joules: Any = None, label: str = "VDD_IN") -> PowerTrace:
    times = np.round(seconds * 1e9).astype(np.int64)
    counted = {} if joules is None else {label: np.asarray(joules, float)}
    return PowerTrace(times, np.zeros(len(times), np.int64), {label: np.asarray(watts, float)}, counted)


def without(record: RunRecord, first_s: float, last_s: float, *, rows: bool) -> RunRecord:
    """Takes the samples from a record's trace between two moments of its clock, or only their values."""
    part = record.meter
    assert part is not None
    trace = part.trace
    gone = (trace.times_ns > first_s * S) & (trace.times_ns < last_s * S)
    if rows:
        kept = PowerTrace(
            trace.times_ns[~gone],
            trace.read_ns[~gone],
            {label: column[~gone] for label, column in trace.watts.items()},
        )
    else:
        kept = replace(
            trace, watts={label: np.where(gone, np.nan, column) for label, column in trace.watts.items()}
        )
    return replace(record, meter=replace(part, trace=kept))


def with_watts(record: RunRecord, change: Any) -> RunRecord:
    part = record.meter
    assert isinstance(part, PowerPart)
    watts = {label: change(part.trace.times_ns / S, column) for label, column in part.trace.watts.items()}
    return replace(record, meter=replace(part, trace=replace(part.trace, watts=watts)))


def verdict(record: RunRecord, limits: str = "energy: {per_inference_mj: {max: 100000, kind: total}}") -> Any:
    (clause,) = judge(record, parse_sla(f"engine: substation-rgbt\n{limits}")).clauses
    return clause


def test_a_gap_may_be_three_periods_or_a_second() -> None:
    assert gap_limit_s(0.1) == 1.0
    assert gap_limit_s(2.0) == 6.0


@pytest.mark.parametrize("rows", [True, False])
def test_time_that_nobody_saw_is_no_energy(rows: bool) -> None:
    """24 of 60 s without samples, while power may have doubled: no figure, and no verdict."""
    record = without(powered(60.0), 20.0, 44.0, rows=rows)
    report, why = energy_of_run(record)
    assert report is None
    assert ("no sample for 24.0" in why) if rows else ("are missing" in why)
    assert verdict(record).verdict is Outcome.INVALID


def test_a_hole_names_its_place_and_what_is_bridged() -> None:
    seconds = np.concatenate([np.arange(0, 50), np.arange(80, 200)]) / 10
    with pytest.raises(
        MeterError, match=r"no sample for 3\.10 s from 4\.90 s of the window on .* at most 1\.00 s"
    ):
        window_energy(trace_of(seconds, np.full(len(seconds), 5.0)), (RAIL,), 0, 19 * S)


def test_reads_that_mostly_fail_are_absent_time() -> None:
    seconds = np.arange(0, 600) / 10
    watts = np.where(np.arange(600) % 19 == 0, 5.0, np.nan)
    with pytest.raises(MeterError, match="samples in the window are missing"):
        window_energy(trace_of(seconds, watts), (RAIL,), 0, 57 * S)


def test_a_gap_that_is_bridged_widens_the_uncertainty_by_what_may_have_happened() -> None:
    """Its length times the range of the trace over the root of 12."""
    seconds = np.concatenate([np.arange(0, 50), np.arange(59, 200)]) / 10
    rail = RailFacts("VDD_IN", "test", True)
    watts = np.where(seconds < 15.0, 5.0, 9.0)
    energy = window_energy(trace_of(seconds, watts), (rail,), 0, 19 * S)
    assert energy.sigma_j >= 1.0 * 4.0 / 12**0.5
    level = window_energy(trace_of(seconds, np.where(seconds < 0.05, 5.01, 5.0)), (rail,), 0, 19 * S)
    assert level.sigma_j < 0.02


def test_a_reading_that_never_moves_is_not_believed() -> None:
    """One value for 40 s of a run, whatever was drawn."""
    record = with_watts(powered(60.0), lambda t, w: np.where((t > 15) & (t < 55), 9.0, w))
    assert verdict(record).verdict is Outcome.INVALID
    assert "stood still: the same reading for 39.8 s of the run, at most 30 s" in verdict(record).reason
    assert verdict(powered(60.0)).verdict is Outcome.PASS


def test_a_sensor_frozen_through_idle_and_run_is_not_believed() -> None:
    record = with_watts(powered(12.0), lambda t, w: np.full(len(w), 7.0))
    assert verdict(record).verdict is Outcome.INVALID
    assert "idle and run have the very same reading" in verdict(record).reason


def test_a_sensor_that_reads_nothing_is_no_zero() -> None:
    clause = verdict(with_watts(powered(), lambda t, w: np.zeros(len(w))))
    assert clause.verdict is Outcome.INVALID
    assert "0 W in each of" in clause.reason


@pytest.mark.parametrize("value", [-500.0, 1e9, float("inf")])
def test_a_value_that_no_machine_has_is_refused(value: float) -> None:
    def broken(seconds: np.ndarray, watts: np.ndarray) -> np.ndarray:
        changed = watts.copy()
        changed[200] = value
        return changed

    clause = verdict(with_watts(powered(60.0), broken))
    assert clause.verdict is Outcome.INVALID
    assert f"{value:g} W at 20.00 s of the trace (1 such samples)" in clause.reason


def test_a_small_negative_reading_is_the_sensors_offset() -> None:
    seconds = np.arange(0, 200) / 10
    watts = np.where(np.arange(200) % 2, 0.1, -0.04)
    assert window_energy(trace_of(seconds, watts), (RAIL,), 0, 19 * S).corrected_j == pytest.approx(
        0.57, abs=0.1
    )


def test_a_run_below_idle_has_no_marginal_energy() -> None:
    """Idle 9 W and 7 W at work would be -80 mJ a frame, and would pass every limit."""
    record = powered(idle_after_w=5.0)
    swapped = with_watts(record, lambda t, w: 14.0 - w)
    report, _ = energy_of_run(swapped)
    assert report is not None
    assert report.marginal_mj is None
    clause = verdict(swapped, "energy: {per_inference_mj: {max: 1000, kind: marginal}}")
    assert clause.verdict is Outcome.INVALID
    assert "less than idle (9.000 W): idle was not idle" in clause.reason


def counted(seconds: np.ndarray, joules: np.ndarray, watts: Any) -> None:
    window_energy(trace_of(seconds, watts, joules, "GPU0"), (COUNTED,), 0, round(float(seconds[-1]) * S))


def test_a_counter_that_falls_was_restarted() -> None:
    seconds = np.arange(0, 601) / 10
    joules = np.where(seconds < 30, 1000 + 50 * seconds, 50 * (seconds - 30))
    with pytest.raises(
        MeterError, match=r"fell from 2495\.000 to 0\.000 J 30\.00 s into the window: it was restarted"
    ):
        counted(seconds, joules, np.full(601, np.nan))


def test_a_counter_that_stands_still_while_power_is_drawn_is_refused() -> None:
    seconds = np.arange(0, 601) / 10
    joules = 1000 + 50 * np.minimum(seconds, 50)
    with pytest.raises(MeterError, match=r"stood still for 10\.\d+ s while power was drawn \(50\.000 W\)"):
        counted(seconds, joules, np.full(601, 50.0))
    counted(seconds, 1000 + 50 * seconds, np.full(601, 50.0))
    with pytest.raises(MeterError, match="one of the two is wrong"):
        counted(seconds, 1000 + 20 * seconds, np.full(601, 50.0))


def test_a_counter_cannot_jump() -> None:
    seconds = np.arange(0, 601) / 10
    joules = 50 * seconds + np.where(seconds > 20, 260_000, 0)
    with pytest.raises(MeterError, match=r"grew by 260005 J in 0\.100 s, more than 20000 W"):
        counted(seconds, joules, np.full(601, np.nan))


def test_standstill_is_that_of_all_rails_together() -> None:
    times = np.arange(0, 100, dtype=np.int64) * S
    still, moving = np.full(100, 4.0), np.arange(100.0)
    trace = PowerTrace(times, np.zeros(100, np.int64), {"A": still, "B": moving})
    assert longest_standstill_s(trace, ("A",), 0, 99 * S) == 99.0
    assert longest_standstill_s(trace, ("A", "B"), 0, 99 * S) == 0.0
    assert longest_standstill_s(trace, (), 0, 99 * S) == 0.0


def test_the_report_says_that_peaks_are_averaged() -> None:
    verdicts = judge(powered(95.0), parse_sla("engine: substation-rgbt\npower: {p95_w: 12}"))
    assert any("p95_w is that of the sensor's own average over 0.43 s" in note for note in verdicts.notes)
    assert FACTS.rails[0].tau_s == 0.43
