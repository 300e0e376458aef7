"""The pace: no drift, no bursts, and what could not keep up is counted."""

from __future__ import annotations

import pytest

from edge_sdk.clock import FakeClock
from edge_sdk.errors import ConfigError
from edge_sdk.scheduler import Pace

MS = 1_000_000


def _starts(pace: Pace, clock: FakeClock, work_ms: list[int]) -> list[float]:
    starts = []
    for elapsed_ms in work_ms:
        pace.wait()
        starts.append(clock.now_ns() / MS)
        clock.advance_ns(elapsed_ms * MS)
    return starts


def test_frames_start_on_a_grid_whatever_the_work_takes() -> None:
    clock = FakeClock(start_ns=7 * MS)
    pace = Pace(25, clock)
    assert _starts(pace, clock, [3, 39, 0, 12]) == [7, 47, 87, 127]
    assert (pace.late_frames, pace.missed_turns) == (0, 0)


def test_a_pace_that_no_whole_nanosecond_hits_does_not_drift() -> None:
    clock = FakeClock()
    starts = _starts(Pace(3, clock), clock, [1] * 30_001)
    assert starts[-1] == pytest.approx(10_000_000, abs=1e-6)


def test_a_late_frame_starts_at_once_and_the_grid_stays() -> None:
    clock = FakeClock()
    pace = Pace(25, clock)
    assert _starts(pace, clock, [50, 5, 5]) == [0, 50, 80]
    assert (pace.late_frames, pace.missed_turns) == (1, 0)


def test_missed_turns_are_counted_and_not_made_up_for() -> None:
    clock = FakeClock()
    pace = Pace(25, clock)
    assert _starts(pace, clock, [130, 5, 5]) == [0, 130, 160]
    assert (pace.late_frames, pace.missed_turns) == (1, 2)


def test_work_that_ends_exactly_at_the_turn_is_not_late() -> None:
    clock = FakeClock()
    pace = Pace(25, clock)
    assert _starts(pace, clock, [40, 40, 40]) == [0, 40, 80]
    assert pace.late_frames == 0


def test_back_to_back_never_waits() -> None:
    clock = FakeClock()
    pace = Pace(None, clock)
    assert _starts(pace, clock, [3, 4]) == [0, 3]
    assert pace.late_frames == 0


@pytest.mark.parametrize("hz", [0, -1, float("nan"), float("inf")])
def test_a_pace_that_is_none_is_refused(hz: float) -> None:
    with pytest.raises(ConfigError, match="more than 0 frames/s"):
        Pace(hz, FakeClock())
