"""A recording played back as though it were measured now, for trying reports and SLAs. It always says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.base import RailReading, Reading
from edge_sdk.meter.recording import Recording
from edge_sdk.power import MeterFacts

__all__ = ["ReplayMeter"]


class ReplayMeter:
    """Gives the recording's value at the time since it was opened; ends where the recording ends."""

    def __init__(self, recording: Recording, clock: Clock | None = None) -> None:
        """Begins the playback now."""
        self._recording, self._clock = recording, clock or MonotonicClock()
        self._start_ns = self._clock.now_ns()
        note = f"{recording.path.name}, recorded by {recording.facts.meter}"
        self._facts = replace(recording.facts, meter="replay", origin="replay", note=note)

    @property
    def facts(self) -> MeterFacts:
        """See `Meter.facts`."""
        return self._facts

    def read(self) -> Reading:
        """Interpolates the recording at this moment.

        Raises:
            MeterError: the recording is at its end.
        """
        now_ns = self._clock.now_ns()
        trace = self._recording.trace
        at_ns = now_ns - self._start_ns + int(trace.times_ns[0])
        if at_ns > trace.times_ns[-1]:
            length_s = float(trace.times_ns[-1] - trace.times_ns[0]) / 1e9
            raise MeterError(f"{self._recording.path}: the recording ends after {length_s:.1f} s")
        rails = {}
        for label, column in trace.watts.items():
            watts = float(np.interp(at_ns, trace.times_ns, column))
            if np.isfinite(watts):
                counter = trace.joules.get(label)
                joules = None if counter is None else float(np.interp(at_ns, trace.times_ns, counter))
                rails[label] = RailReading(w=watts, j=joules)
        return Reading(now_ns, now_ns, rails)

    def close(self) -> None:
        """See `Meter.close`."""
