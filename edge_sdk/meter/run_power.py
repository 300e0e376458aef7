"""The power of one run: idle before, samples during, idle after, and the part of the record made of it."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import ConfigError
from edge_sdk.meter.csv_values import ClockKind
from edge_sdk.meter.sampler import EnergyMeter
from edge_sdk.meter.wall import align, load_csv, with_note
from edge_sdk.power import PowerPart, Span

if TYPE_CHECKING:
    from edge_sdk.meter.wall import WallRecording

__all__ = ["DEFAULT_IDLE_S", "RunPower", "WallFile"]

DEFAULT_IDLE_S = 5.0
"""Idle is measured this long before and after a run; 0 leaves it out, and with it the marginal figure."""

_SETTLE_TAUS = 5.0  # after this many time constants a running average has forgotten what was before
_LEAST_SETTLE_S = 0.5


class WallFile:
    """The file of an external meter that records while the run goes on; read when the run is over."""

    def __init__(self, path: Path, offset_s: float | None = None, unix_s: Callable[[], float] = time.time):
        """Takes the file's name; it need not be there yet.

        Arguments:
            offset_s: the meter's clock minus this machine's; for times that are no dates, the reading of
                the meter's clock when the run begins. None: found by aligning power with the run.
            unix_s: this machine's date.
        """
        self.path, self.offset_s, self._unix_s = path, offset_s, unix_s

    def unix_s(self) -> float:
        """The date now, in seconds since 1970."""
        return self._unix_s()


class RunPower:
    """Follows one run with a meter, or notes when it was so that a recording can be laid beside it.

    Use: `before()`, the run with `paused(...)` after each frame, `after()`, `part(...)`.
    """

    def __init__(
        self,
        source: EnergyMeter | WallFile,
        *,
        idle_s: float = DEFAULT_IDLE_S,
        clock: Clock | None = None,
    ) -> None:
        """Prepares; the caller closes the meter.

        Arguments:
            source: a meter that was opened with `keep_s=None`, or the file of an external one.
            idle_s: 0, or at least 2.

        Raises:
            ConfigError: `idle_s` is between the two.
        """
        if not (idle_s == 0 or 2 <= idle_s < math.inf):
            raise ConfigError(f"idle_s: expected 0 or at least 2 s, found {idle_s:g}")
        self._source, self._idle_s, self._clock = source, idle_s, clock or MonotonicClock()
        self._idle_before: Span | None = None
        self._idle_after: Span | None = None
        self._pauses = array("q")
        self._unix_minus_clock_s = 0.0

    @property
    def meter(self) -> EnergyMeter | None:
        """The meter that samples while the run goes on; None where a file is read afterwards."""
        return self._source if isinstance(self._source, EnergyMeter) else None

    @property
    def measures_idle(self) -> bool:
        """Whether idle is measured before and after the run."""
        return self._idle_s > 0

    def part_so_far(self, start_ns: int) -> PowerPart | None:
        """Makes what the record's part would be of a run that goes on, for one window of it.

        Idle is not in it, since it is measured again when the run is over. Safe from any thread.

        Arguments:
            start_ns: monotonic clock; older samples are left out.

        Returns: None where a file is read when the run is over.
        """
        meter = self.meter
        if meter is None:
            return None
        return PowerPart(facts=meter.facts, trace=meter.trace(start_ns), hz=meter.hz, failed=meter.failed)

    def pauses_of(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Returns the pause after each of some frames of the run, int64 [n] in nanoseconds; 0 where none was.

        Arguments:
            numbers: of the answered frames, from 0.
        """
        noted = len(self._pauses)
        return np.array([self._pauses[at] if at < noted else 0 for at in numbers], dtype=np.int64)

    def before(self) -> None:
        """Begins sampling and measures idle; takes `idle_s` and the time that the sensor needs to settle."""
        if isinstance(self._source, EnergyMeter):
            self._source.start()
        else:
            self._unix_minus_clock_s = self._source.unix_s() - self._clock.now_ns() / 1e9
        self._idle_before = self._idle()

    def paused(self, pause_ns: int) -> None:
        """Notes how long something else than the pipeline worked after a frame."""
        self._pauses.append(pause_ns)

    def after(self, frames: int = 0, *, idle: bool = True) -> None:
        """Samples the end of the run, then measures idle again.

        Arguments:
            frames: in the run; those without a noted pause had none.
            idle: False where the run was ended early and nobody is to wait; there is no marginal figure then.
        """
        self._pauses.extend([0] * (frames - len(self._pauses)))
        self._idle_after = self._idle() if idle else None
        if isinstance(self._source, EnergyMeter):
            self._source.sample()

    def part(self, busy: Span) -> PowerPart:
        """Makes the record's part.

        Arguments:
            busy: when the first frame began and the last one ended, pauses included.

        Raises:
            MeterError: an external recording cannot be read or aligned.
        """
        pauses = np.array(self._pauses, dtype=np.int64)
        if isinstance(self._source, WallFile):
            return self._wall_part(self._source, load_csv(self._source.path), busy, pauses)
        meter = self._source
        return PowerPart(
            facts=meter.facts,
            trace=meter.trace(),
            hz=meter.hz,
            pause_ns=pauses,
            idle_before=self._idle_before,
            idle_after=self._idle_after,
            cpu_share=meter.cpu_share,
            failed=meter.failed,
        )

    def pauses_ns(self) -> int:
        """Returns the sum of all pauses but that after the last frame."""
        return sum(self._pauses[:-1])

    def _idle(self) -> Span | None:
        if not self._idle_s:
            if isinstance(self._source, EnergyMeter):
                self._source.sample()
            return None
        start_ns = self._clock.now_ns() + round(self._settle_s() * 1e9)
        end_ns = start_ns + round(self._idle_s * 1e9)
        self._clock.sleep_until_ns(end_ns)
        return start_ns, end_ns

    def _settle_s(self) -> float:
        if isinstance(self._source, WallFile):
            return _LEAST_SETTLE_S
        tau_s = max((rail.tau_s for rail in self._source.facts.rails if rail.in_total), default=0.0)
        return max(_LEAST_SETTLE_S, _SETTLE_TAUS * tau_s)

    def _wall_part(
        self,
        file: WallFile,
        recording: WallRecording,
        busy: Span,
        pauses: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> PowerPart:
        begin_s, end_s = busy[0] / 1e9, busy[1] / 1e9
        first_s = self._idle_before[0] / 1e9 if self._idle_before else begin_s
        last_s = self._idle_after[1] / 1e9 if self._idle_after else end_s
        if file.offset_s is None:
            near_s = [-self._unix_minus_clock_s - east_s for east_s in _zones_s(recording.kind)]
            shift_s, match = align(recording, [(begin_s, end_s)], (first_s, last_s), near_s)
            note = f"aligned with the run by its power (correlation {match:.2f})"
        else:
            dated = recording.kind is not ClockKind.ELAPSED
            zero_s = -self._unix_minus_clock_s - max(_zones_s(recording.kind), key=abs) if dated else begin_s
            shift_s = zero_s - file.offset_s
            note = f"aligned by an offset of {file.offset_s:g} s that was given"
        trace = recording.trace(shift_s)
        return PowerPart(
            facts=with_note(recording.facts, f"{file.path.name}, {note}"),
            trace=trace,
            hz=trace.rate_hz() or 0.0,
            pause_ns=pauses,
            idle_before=self._idle_before,
            idle_after=self._idle_after,
        )


def _zones_s(kind: ClockKind) -> list[float]:
    """How far east of UTC a file's dates may be, in seconds: without a zone, as here or not at all."""
    if kind is ClockKind.ELAPSED:
        return []
    if kind is ClockKind.DATED:
        return [0.0]
    return sorted({0.0, float(time.localtime().tm_gmtoff)})
