"""Clocks: the machine's own, and the one that tests hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.clock import Clock, FakeClock, MonotonicClock


def test_the_machines_clock_never_runs_backwards() -> None:
    clock: Clock = MonotonicClock()
    readings = [clock.now_ns() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_deadline_in_the_past_returns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"slept {seconds} s"))
    clock = MonotonicClock()
    clock.sleep_until_ns(clock.now_ns() - 1)


def test_the_machines_clock_waits_for_what_is_left_and_wakes_no_earlier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ns = [1_000]
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_ns[0] += 600  # wakes too early the first time

    monkeypatch.setattr("time.perf_counter_ns", lambda: now_ns[0])
    monkeypatch.setattr("time.sleep", sleep)
    MonotonicClock().sleep_until_ns(2_000)
    assert slept == pytest.approx([1e-6, 0.4e-6])
    assert now_ns[0] >= 2_000


@given(st.integers(0, 10**12), st.integers(0, 10**6), st.integers(1, 20))
def test_fake_time_moves_by_its_step_a_reading(start_ns: int, step_ns: int, count: int) -> None:
    clock: Clock = FakeClock(start_ns, step_ns)
    assert [clock.now_ns() for _ in range(count)] == [start_ns + step_ns * i for i in range(count)]


def test_fake_time_jumps_to_a_deadline_and_never_back() -> None:
    clock = FakeClock(100)
    clock.sleep_until_ns(500)
    clock.sleep_until_ns(200)
    assert clock.now_ns() == 500
    clock.advance_ns(7)
    assert clock.now_ns() == 507
