"""Energy of a window: exact where it can be worked out by hand, refused where it would mean nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import MeterError
from edge_sdk.power import PowerTrace, RailFacts
from edge_sdk.stats import Energy, Figure, fit_by_group, idle_power, marginal_energy, window_energy

S = 1_000_000_000
IDEAL = RailFacts("VDD_IN", "test", in_total=True, tau_s=0.43)
NX = RailFacts("VDD_IN", "test", True, 0.43, 0.15, lsb_w=0.04, offset_w=0.08, gain_share=0.002)


def trace_of(
    seconds: list[float] | np.ndarray, watts: list[float] | np.ndarray, **more: object
) -> PowerTrace:
    times = np.round(np.asarray(seconds) * 1e9).astype(np.int64)
    return PowerTrace(times, np.zeros(len(times), np.int64), {"VDD_IN": np.asarray(watts, float)}, **more)  # type: ignore[arg-type]


def lagging(watts: float, before: float, seconds: np.ndarray, tau_s: float = 0.43) -> np.ndarray:
    return watts + (before - watts) * np.exp(-np.maximum(seconds, 0) / tau_s)


@pytest.mark.parametrize(("window_s", "missing"), [(2.0, -0.135), (5.0, -0.055), (10.0, -0.027)])
def test_a_step_at_the_start_reads_low_by_what_is_known_and_is_corrected(
    window_s: float, missing: float
) -> None:
    seconds = np.arange(-10, round(window_s * 10) + 11) / 10
    trace = trace_of(seconds, lagging(30.0, 11.0, seconds))
    energy = window_energy(trace, (IDEAL,), 0, round(window_s * S))
    truth = 30.0 * window_s
    assert energy.uncorrected_j / truth - 1 == pytest.approx(missing, abs=0.002)
    assert energy.corrected_j == pytest.approx(truth, rel=0.0013)
    assert energy.mean_w == pytest.approx(30.0, rel=0.0013)


def test_a_wrong_time_constant_is_inside_the_stated_uncertainty() -> None:
    seconds = np.arange(-10, 41) / 10
    trace = trace_of(seconds, lagging(30.0, 11.0, seconds, tau_s=0.37))
    rail = RailFacts("VDD_IN", "test", True, tau_s=0.43, tau_share=0.15)
    energy = window_energy(trace, (rail,), 0, 3 * S)
    assert abs(energy.corrected_j - 90.0) < 2 * energy.sigma_j


@pytest.mark.parametrize(
    ("seconds", "words"), [(1.99, "lasted 1.99 s, at least 2 s are needed"), (0.0, "lasted 0.00 s")]
)
def test_windows_under_two_seconds_are_refused(seconds: float, words: str) -> None:
    trace = trace_of(np.arange(0, 100) / 10, np.full(100, 5.0))
    with pytest.raises(MeterError, match=words):
        window_energy(trace, (NX,), S, S + round(seconds * S))


def test_windows_under_ten_seconds_are_of_low_confidence() -> None:
    trace = trace_of(np.arange(0, 200) / 10, np.full(200, 5.0))
    assert window_energy(trace, (NX,), 0, 2 * S).low_confidence == "2.0 s is under 10 s"
    assert window_energy(trace, (NX,), 0, 10 * S).low_confidence == ""
    slow = trace_of(np.arange(0, 20), np.full(20, 5.0))
    assert "11 samples are under 20" in window_energy(slow, (NX,), 0, 10 * S).low_confidence


def test_samples_must_cover_the_window_and_be_there() -> None:
    trace = trace_of(np.arange(0, 50) / 10, np.full(50, 5.0))
    with pytest.raises(MeterError, match=r"leave 3\.10 s of the window uncovered"):
        window_energy(trace, (NX,), 0, 8 * S)
    with pytest.raises(MeterError, match="0 samples in the window"):
        window_energy(trace_of([], []), (NX,), 0, 8 * S)
    gaps = np.full(50, 5.0)
    gaps[10:20] = np.nan
    with pytest.raises(MeterError, match=r"10 of 50 samples in the window are missing"):
        window_energy(trace_of(np.arange(0, 50) / 10, gaps), (NX,), 0, round(4.9 * S))
    gaps[11:] = 5.0
    kept = window_energy(trace_of(np.arange(0, 50) / 10, gaps), (NX,), 0, round(4.9 * S))
    assert kept.corrected_j == pytest.approx(5.0 * 4.9)


def test_no_rails_is_no_energy() -> None:
    with pytest.raises(MeterError, match="no rails to add up"):
        window_energy(trace_of([0, 9], [1, 1]), (), 0, 3 * S)


def test_sigma_is_the_sum_of_statistics_md() -> None:
    """(T u_q)^2 + (T u_off)^2 + (u_gain E)^2 + (u_tau dP)^2 + (dt dP / 2)^2 / 3, and both ends rounded."""
    seconds = np.arange(0, 101) / 10
    watts = np.where(seconds < 5.0, 4.0, 6.0)
    energy = window_energy(trace_of(seconds, watts), (NX,), 0, 10 * S)
    u_q = 0.04 / math.sqrt(12)
    terms = [
        10 * u_q,
        10 * 0.08 / math.sqrt(3),
        0.002 * energy.corrected_j,
        0.15 * 0.43 * 2.0,
        0.1 * 2.0 / 2 / math.sqrt(3),
        math.sqrt(2) * 0.43 * u_q,
    ]
    assert energy.sigma_j == pytest.approx(math.sqrt(sum(term**2 for term in terms)), rel=1e-6)
    assert energy.offset_sigma_j == pytest.approx(terms[1])


def test_rounding_is_not_averaged_away() -> None:
    def sigma(hz: int) -> float:
        count = 20 * hz + 1
        return window_energy(trace_of(np.arange(count) / hz, np.full(count, 5.0)), (NX,), 0, 20 * S).sigma_j

    assert sigma(10) == pytest.approx(sigma(40))


def test_offsets_of_rails_add_up_linearly() -> None:
    other = RailFacts("VDD_SOC", "test", True, offset_w=0.08)
    times = np.arange(0, 21, dtype=np.int64) * S
    rails = {label: np.full(21, 5.0) for label in ("VDD_IN", "VDD_SOC")}
    energy = window_energy(PowerTrace(times, np.zeros(21, np.int64), rails), (NX, other), 0, 20 * S)
    assert energy.corrected_j == pytest.approx(200.0)
    assert energy.offset_sigma_j == pytest.approx(20 * 0.16 / math.sqrt(3))


def test_slow_reads_are_counted() -> None:
    trace = trace_of(np.arange(0, 50) / 10, np.full(50, 5.0))
    trace.read_ns[3:5] = 60_000_000
    assert window_energy(trace, (NX,), 0, 4 * S).slow_reads == 2


def test_a_counter_is_subtracted_not_integrated() -> None:
    seconds = np.arange(0, 21) / 10
    trace = trace_of(seconds, np.full(21, np.nan), joules={"VDD_IN": 7.0 * seconds + 100})
    energy = window_energy(trace, (RailFacts("VDD_IN", "rapl", True),), 0, 2 * S)
    assert energy.corrected_j == energy.uncorrected_j == pytest.approx(14.0)
    assert energy.low_confidence == "2.0 s is under 10 s"


@given(st.floats(0.5, 60), st.floats(2.0, 60), st.floats(0.0, 0.09))
def test_constant_power_is_exact_at_any_phase(watts: float, window_s: float, phase_s: float) -> None:
    seconds = np.arange(0, 720) / 10 + phase_s - 0.1
    energy = window_energy(trace_of(seconds, np.full(720, watts)), (IDEAL,), S, S + round(window_s * 1e9))
    assert energy.corrected_j == pytest.approx(watts * window_s, rel=1e-6)
    assert energy.uncorrected_j == pytest.approx(energy.corrected_j)


def _energy(mean_w: float, duration_s: float = 10.0, sigma_j: float = 0.5, offset_j: float = 0.4) -> Energy:
    return Energy(duration_s, 100, mean_w * duration_s, mean_w * duration_s, sigma_j, offset_j)


@pytest.mark.parametrize(("after_w", "agrees"), [(5.0, True), (5.149, True), (5.16, False), (4.8, False)])
def test_idle_before_and_after_must_agree_within_three_percent(after_w: float, agrees: bool) -> None:
    idle_w, why = idle_power(_energy(5.0), _energy(after_w))
    assert (idle_w is not None) is agrees
    if idle_w is None:
        assert f"idle was 5.000 W before and {after_w:.3f} W after" in why
        assert "at most 3 % are taken" in why
    else:
        assert idle_w.value == pytest.approx((5.0 + after_w) / 2)
        assert idle_w.sigma >= abs(after_w - 5.0) / 2


def test_marginal_energy_is_what_is_left_and_offsets_cancel() -> None:
    run = _energy(8.0, 20.0, sigma_j=5.0, offset_j=4.0)
    left = marginal_energy(run, Figure(5.0, 0.01))
    assert left.value == pytest.approx(60.0)
    assert left.sigma == pytest.approx(math.hypot(3.0, 0.2))


def _blocks(
    random: np.random.Generator, count: int, noise: float
) -> tuple[list[float], dict[str, list[int]]]:
    rgb = random.integers(0, 40, count).tolist()
    fuse = random.integers(0, 20, count).tolist()
    energies = [100.0 * a + 260.0 * b + random.normal(0, noise) for a, b in zip(rgb, fuse, strict=True)]
    return energies, {"rgb": rgb, "fuse": fuse, "thermal": [0] * count}


def test_energy_is_split_by_route_with_standard_errors() -> None:
    fit = fit_by_group(*_blocks(np.random.default_rng(3), 60, 50.0))
    assert set(fit.groups) == {"rgb", "fuse"}
    for name, truth in (("rgb", 100.0), ("fuse", 260.0)):
        assert abs(fit.groups[name].value - truth) < 4 * fit.groups[name].sigma
        assert 0 < fit.groups[name].sigma < 3


def test_standard_errors_cover_the_truth() -> None:
    random = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        fit = fit_by_group(*_blocks(random, 40, 80.0))
        inside += abs(fit.groups["fuse"].value - 260.0) <= 2 * fit.groups["fuse"].sigma
    assert inside >= 180


def test_a_mixture_that_never_changes_is_not_identifiable() -> None:
    fit = fit_by_group([100.0] * 40, {"rgb": [10] * 40, "fuse": [5] * 40})
    assert not fit.groups
    assert fit.why == "not identifiable: the mixture of frames hardly changes over the run"


def test_too_few_blocks_or_none_are_not_identifiable() -> None:
    fit = fit_by_group([1.0] * 7, {"rgb": [1, 2, 3, 4, 5, 6, 7], "fuse": [3, 1, 2, 5, 4, 1, 0]})
    assert fit.why == "not identifiable: 7 blocks of the run for 2 kinds of frame, 8 are needed"
    assert fit_by_group([], {}).why == "not identifiable: no frames"


def test_a_coefficient_that_noise_hides_is_not_identifiable() -> None:
    fit = fit_by_group(*_blocks(np.random.default_rng(7), 12, 20_000.0))
    assert fit.why.startswith("not identifiable: the fit leaves ")


def test_one_route_is_a_mean() -> None:
    fit = fit_by_group([100.0, 200.0, 100.0, 200.0], {"fuse": [1, 2, 1, 2]})
    assert fit.groups["fuse"].value == pytest.approx(100.0)
