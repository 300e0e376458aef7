"""When the next frame starts: at a camera's pace or back to back. Knows no hardware."""

from __future__ import annotations

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError

__all__ = ["Pace"]


class Pace:
    """Starts frames on a grid of fixed times, as a camera would, and counts what could not keep up.

    Each turn is computed from the first one, so rounding and late wake-ups do not add up. A frame that
    is not ready at its turn starts at once and counts as late; turns that passed meanwhile are missed,
    not made up for in a burst: a camera would have given those frames to nobody.

    Attributes:
        hz: turns a second, or None for back to back.
        late_frames: frames that started after their turn because the one before was not done.
        missed_turns: turns at which no frame started.
    """

    def __init__(self, hz: float | None, clock: Clock) -> None:
        """Prepares the grid; the first `wait` fixes where it begins.

        Arguments:
            hz: more than 0, or None.
            clock: what time is read from and slept on.

        Raises:
            ConfigError: `hz` is not more than 0.
        """
        if hz is not None and not 0 < hz < float("inf"):
            raise ConfigError(f"pace: expected more than 0 frames/s, found {hz}")
        self.hz = hz
        self.late_frames = 0
        self.missed_turns = 0
        self._clock = clock
        self._first_ns: int | None = None
        self._turn = 0

    def wait(self) -> None:
        """Returns when the next frame is due; at once when back to back or late."""
        if self.hz is None:
            return
        if self._first_ns is None:
            self._first_ns = self._clock.now_ns()
            return
        self._turn += 1
        behind_ns = self._clock.now_ns() - self._due_ns(self._turn)
        if behind_ns <= 0:
            self._clock.sleep_until_ns(self._due_ns(self._turn))
            return
        self.late_frames += 1
        missed = int(behind_ns * self.hz / 1e9)
        self.missed_turns += missed
        self._turn += missed

    def _due_ns(self, turn: int) -> int:
        assert self._first_ns is not None
        assert self.hz is not None
        return self._first_ns + round(turn * 1e9 / self.hz)
