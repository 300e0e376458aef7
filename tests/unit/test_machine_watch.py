"""The watch during a run: what it keeps, that it ends, and what it costs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from machine_trees import KINDS

from edge_sdk.clock import FakeClock
from edge_sdk.machine_state import watch as module
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.watch import RunWatch, StateWatch


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def reader(tmp_path: Path, clock: FakeClock) -> MachineReader:
    KINDS["orin-nx"](tmp_path)
    return MachineReader(tmp_path, clock=clock)


def test_samples_are_columns_of_one_length(reader: MachineReader, clock: FakeClock) -> None:
    watch = StateWatch(reader)
    for _ in range(3):
        watch.take()
        clock.advance_ns(1_000_000_000)
    columns = watch.columns()
    assert columns.at_ms == (0, 1000, 2000)
    assert columns.rss_kb == (300_000,) * 3
    assert columns.used_kb == (14_000_000,) * 3
    assert columns.hottest_c == (49.5,) * 3
    assert {device.name for device in columns.cooling_peak} >= {"cpufreq-cpu0"}
    assert columns.shortfalls == ()


def test_a_long_run_keeps_bounded_memory(
    reader: MachineReader, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_SAMPLES", 8)
    watch = StateWatch(reader)
    for _ in range(20):
        watch.take()
        clock.advance_ns(round(watch.period_s * 1e9))
    columns = watch.columns()
    assert len(columns.at_ms) < 8
    assert columns.period_s >= 4
    assert columns.at_ms == tuple(sorted(columns.at_ms))


def test_a_run_has_two_snapshots_and_samples_from_another_thread(
    reader: MachineReader, clock: FakeClock
) -> None:
    three, names = threading.Event(), []

    def wait(seconds: float) -> bool:
        names.append(threading.current_thread().name)
        clock.advance_ns(round(seconds * 1e9))
        if len(names) < 3:
            return False
        three.set()
        return True

    with RunWatch(reader, wait=wait) as watch:
        assert three.wait(60)
    state = watch.state()
    assert state.watch.at_ms == (0, 1000, 2000)
    assert state.after.at_ns > state.before.at_ns
    assert set(names) == {"machine-watch"}
    assert "machine-watch" not in [thread.name for thread in threading.enumerate()]


def test_leaving_ends_a_watch_that_waits(reader: MachineReader) -> None:
    with RunWatch(reader) as watch:
        pass
    assert 0 <= len(watch.state().watch.at_ms) <= 1
    with RunWatch(reader, threaded=False) as quiet:
        pass
    assert quiet.state().watch.at_ms == ()


def test_a_failed_run_ends_the_watch_too(reader: MachineReader) -> None:
    with pytest.raises(KeyError), RunWatch(reader):
        raise KeyError
    assert "machine-watch" not in [thread.name for thread in threading.enumerate()]


def test_the_time_of_a_sample_is_kept(tmp_path: Path) -> None:
    KINDS["orin-nx"](tmp_path)
    watch = StateWatch(MachineReader(tmp_path, clock=FakeClock(step_ns=2_000_000)))
    watch.take()
    assert watch.columns().read_ms == 2.0
