"""The machine's state over the last minutes of a run that goes on."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from edge_sdk.clock import Clock
from edge_sdk.machine_state.reader import MachineReader, Sample
from edge_sdk.machine_state.state import MachineSnapshot, RunState
from edge_sdk.machine_state.watch import StateWatch

__all__ = ["MachineWindow"]

_SNAPSHOT_NS = 5_000_000_000


class MachineWindow:
    """Reads the machine now and then, and says how it stood before, during and at the end of a window.

    What has left the window - a throttling that is over - spoils it no longer. Memory is followed from
    the start of the run: its growth shows over hours.

    Arguments:
        reader: of this machine.
        clock: that the run is timed with.
    """

    def __init__(self, reader: MachineReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock
        self._whole = StateWatch(reader)
        self._snapshots: deque[MachineSnapshot] = deque()
        self._samples: deque[Sample] = deque()

    def take(self) -> None:
        """Reads the machine; whole snapshots every five seconds."""
        sample = self._reader.sample()
        self._whole.add(sample)
        self._samples.append(sample)
        if not self._snapshots or self._clock.now_ns() - self._snapshots[-1].at_ns >= _SNAPSHOT_NS:
            self._snapshots.append(self._reader.snapshot())

    def state(self, start_ns: int) -> RunState | None:
        """Returns the state from the last snapshot before a moment until now, and forgets what is older.

        Returns: None before there are two snapshots.

        Arguments:
            start_ns: monotonic clock.
        """
        while len(self._snapshots) > 2 and self._snapshots[1].at_ns <= start_ns:
            self._snapshots.popleft()
        if len(self._snapshots) < 2:
            return None
        first_ns = self._snapshots[0].at_ns
        while self._samples and self._samples[0].at_ns < first_ns:
            self._samples.popleft()
        lately = StateWatch(self._reader)
        for sample in self._samples:
            lately.add(sample)
        seen = lately.columns()
        columns = replace(self._whole.columns(), cooling_peak=seen.cooling_peak, shortfalls=seen.shortfalls)
        return RunState(self._snapshots[0], self._snapshots[-1], columns)
