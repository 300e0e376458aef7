"""The clock every stage reads, as an argument, so that a test can hold time still."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "FakeClock", "MonotonicClock"]


class Clock(Protocol):
    """A monotonic clock in nanoseconds, and the only way this SDK sleeps."""

    def now_ns(self) -> int:
        """Returns the time in nanoseconds since an arbitrary start; never runs backwards."""
        ...

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """Waits until `now_ns()` has reached `deadline_ns`; returns at once if it has."""
        ...


class MonotonicClock:
    """The machine's clock: `time.perf_counter_ns`."""

    def now_ns(self) -> int:
        """See `Clock.now_ns`."""
        return time.perf_counter_ns()

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """See `Clock.sleep_until_ns`."""
        while (remaining_ns := deadline_ns - self.now_ns()) > 0:
            time.sleep(remaining_ns / 1e9)


class FakeClock:
    """A clock for tests and replays: time moves only when told to, or by a fixed step a reading."""

    def __init__(self, start_ns: int = 0, step_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._step_ns = step_ns

    def now_ns(self) -> int:
        """Returns the fake time, then moves it on by the step."""
        now_ns = self._now_ns
        self._now_ns += self._step_ns
        return now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """Moves the fake time to the deadline without waiting."""
        self._now_ns = max(self._now_ns, deadline_ns)

    def advance_ns(self, elapsed_ns: int) -> None:
        """Moves the fake time on."""
        self._now_ns += elapsed_ns
