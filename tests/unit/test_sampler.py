"""The sampler and its windows, driven by a clock that a test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from edge_sdk.clock import FakeClock
from edge_sdk.errors import ConfigError, MeterError, StateError
from edge_sdk.meter.base import RailReading, Reading
from edge_sdk.meter.sampler import EnergyMeter
from edge_sdk.power import MeterFacts, RailFacts

S = 1_000_000_000
RAIL = RailFacts("VDD_IN", "test", True, lsb_w=0.04)


class FakeMeter:
    """Gives what a function of the time says; a read takes as long as told."""

    def __init__(self, clock: FakeClock, watts: Callable[[float], float | None], read_ns: int = 0) -> None:
        self.clock, self.watts, self.read_ns, self.closed = clock, watts, read_ns, 0
        self.facts = MeterFacts("fake", "board", "module", (RAIL,))

    def read(self) -> Reading:
        before_ns = self.clock.now_ns()
        self.clock.advance_ns(self.read_ns)
        value = self.watts(before_ns / 1e9)
        if value is None:
            raise MeterError("nothing to read")
        return Reading(before_ns, self.clock.now_ns(), {"VDD_IN": RailReading(w=value)})

    def close(self) -> None:
        self.closed += 1


def sampler_of(
    watts: Callable[[float], float | None], read_ns: int = 0, **options: object
) -> tuple[EnergyMeter, FakeClock]:
    clock = FakeClock(5 * S)
    return EnergyMeter(FakeMeter(clock, watts, read_ns), clock=clock, **options), clock  # type: ignore[arg-type]


def run(sampler: EnergyMeter, clock: FakeClock, seconds: float, step_s: float = 0.1) -> None:
    for _ in range(round(seconds / step_s)):
        clock.advance_ns(round(step_s * S))
        sampler.sample()


def test_a_window_holds_the_energy_of_its_block() -> None:
    sampler, clock = sampler_of(lambda t: 6.0)
    with sampler.window("inspection") as window:
        run(sampler, clock, 3.0)
        window.inferences = 90
    assert window.energy.corrected_j == pytest.approx(18.0)
    assert window.per_inference_mj == pytest.approx(200.0)
    assert (window.name, window.start_ns, window.end_ns) == ("inspection", 5 * S, 8 * S)


def test_windows_nest_and_overlap() -> None:
    sampler, clock = sampler_of(lambda t: 2.0 if t < 10 else 8.0)
    with sampler.window("outer") as outer:
        run(sampler, clock, 3.0)
        with sampler.window("inner") as inner:
            run(sampler, clock, 2.0)
            with sampler.window("innermost") as innermost:
                run(sampler, clock, 2.5)
        run(sampler, clock, 0.5)
    assert inner.energy.duration_s == pytest.approx(4.5)
    assert innermost.energy.mean_w == pytest.approx(8.0, rel=0.02)
    assert outer.energy.corrected_j == pytest.approx(2 * 5 + 8 * 3, rel=0.02)


def test_the_middle_of_a_read_counts_and_slow_reads_are_reported() -> None:
    sampler, clock = sampler_of(lambda t: 5.0, read_ns=60_000_000)
    with sampler.window("w") as window:
        run(sampler, clock, 2.0)
    trace = sampler.trace()
    assert trace.times_ns[0] == 5 * S + 30_000_000
    assert set(trace.read_ns.tolist()) == {60_000_000}
    assert window.energy.slow_reads >= 20


def test_a_short_window_is_refused_when_asked_not_in_the_block() -> None:
    sampler, clock = sampler_of(lambda t: 5.0)
    with sampler.window("blink") as window:
        run(sampler, clock, 1.0)
    with pytest.raises(MeterError, match=r"window 'blink': the window lasted 1\.00 s, at least 2 s"):
        _ = window.energy


def test_an_open_window_has_no_energy_yet() -> None:
    sampler, clock = sampler_of(lambda t: 5.0)
    with sampler.window("w") as window:
        run(sampler, clock, 2.0)
        with pytest.raises(StateError, match="window 'w' is still open"):
            _ = window.energy
    with pytest.raises(StateError, match=r"set \.inferences inside the window"):
        _ = window.per_inference_mj


def test_an_error_in_the_block_is_not_hidden() -> None:
    sampler, _ = sampler_of(lambda t: 5.0)
    with pytest.raises(ZeroDivisionError), sampler.window("w"):
        _ = 1 // 0


def test_reads_that_fail_leave_gaps_and_at_last_end_the_sampling() -> None:
    sampler, clock = sampler_of(lambda t: None if 6 < t < 6.15 else 5.0)
    with sampler.window("w") as window:
        run(sampler, clock, 4.0)
    assert window.energy.corrected_j == pytest.approx(20.0)
    assert sampler.failed == ""
    sampler, clock = sampler_of(lambda t: None)
    run(sampler, clock, 3.0)
    assert sampler.failed == "nothing to read"


def test_reads_that_mostly_fail_are_no_energy() -> None:
    """18 of 19 reads fail while power doubles: the samples that came say 6 W, and nobody knows."""
    count = iter(range(10_000))
    sampler, clock = sampler_of(lambda t: 6.0 if next(count) % 19 == 0 else None)
    with sampler.window("blind") as window:
        run(sampler, clock, 60.0)
    with pytest.raises(MeterError, match="samples in the window are missing"):
        _ = window.energy


def test_a_read_that_hangs_is_time_that_nobody_saw() -> None:
    sampler, clock = sampler_of(lambda t: 6.0)
    with sampler.window("hung") as window:
        run(sampler, clock, 10.0)
        meter = sampler._meter
        assert isinstance(meter, FakeMeter)
        meter.read_ns = 20 * S
        sampler.sample()
        meter.read_ns = 0
        run(sampler, clock, 20.0)
    with pytest.raises(MeterError, match=r"no sample for 10\.\d+ s from"):
        _ = window.energy


def test_the_same_line_twice_is_one_sample() -> None:
    sampler, _ = sampler_of(lambda t: 5.0)
    sampler.sample()
    sampler.sample()
    assert len(sampler.trace()) == 1


def test_old_samples_are_forgotten_but_for_open_windows() -> None:
    sampler, clock = sampler_of(lambda t: 5.0, keep_s=10.0)
    run(sampler, clock, 500.0)
    assert len(sampler.trace()) <= 1124
    with sampler.window("long") as window:
        run(sampler, clock, 400.0)
    assert window.energy.corrected_j == pytest.approx(2000.0)
    everything, clock = sampler_of(lambda t: 5.0, keep_s=None)
    run(everything, clock, 300.0)
    assert len(everything.trace()) == 3000


def test_without_a_total_a_window_says_why() -> None:
    sampler, clock = sampler_of(lambda t: 5.0)
    sampler.facts = MeterFacts("fake", "Acme", "rails", (), note="board 'Acme' is not known here")
    with sampler.window("w") as window:
        run(sampler, clock, 3.0)
    with pytest.raises(MeterError, match="no total: board 'Acme' is not known here"):
        _ = window.energy


@pytest.mark.parametrize("hz", [0.0, -1.0, 1000.0, float("nan")])
def test_a_rate_that_means_nothing_is_refused(hz: float) -> None:
    with pytest.raises(ConfigError, match="hz: expected more than 0 and at most 100"):
        sampler_of(lambda t: 5.0, hz=hz)


def test_the_thread_samples_and_stops_with_the_block() -> None:
    taken = threading.Semaphore(0)
    clock = FakeClock(0, step_ns=1_000_000)

    def watts(t: float) -> float:
        taken.release()
        return 5.0

    meter = FakeMeter(clock, watts)
    with EnergyMeter(meter, hz=100, clock=clock) as sampler:
        for _ in range(5):
            assert taken.acquire(timeout=20)
    assert meter.closed == 1
    assert not any(thread.name == "edge-sdk-meter" for thread in threading.enumerate())
    assert np.all(np.diff(sampler.trace().times_ns) > 0)
    sampler.close()
    with pytest.raises(StateError, match="this meter is closed"):
        sampler.start()
