"""Watches the machine during a run, about once a second, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from edge_sdk.machine_state.clocks import has_shortfall
from edge_sdk.machine_state.reader import MachineReader, Sample
from edge_sdk.machine_state.state import ClockDomain, CoolingDevice, MachineSnapshot, RunState, WatchColumns

__all__ = ["RunWatch", "StateWatch"]

_PERIOD_S = 1.0
_MOST_SAMPLES = 7200
"""Two hours at one a second; after that every other sample is dropped and the period doubles."""


class StateWatch:
    """Collects samples; bounded memory however long it runs."""

    def __init__(self, reader: MachineReader, period_s: float = _PERIOD_S) -> None:
        self._reader = reader
        self._samples: list[tuple[int, int | None, int | None, float | None]] = []
        self._cooling: dict[str, CoolingDevice] = {}
        self._shortfalls: dict[str, ClockDomain] = {}
        self.period_s = period_s
        self.read_ns = 0

    def take(self) -> None:
        """Takes one sample."""
        self.add(self._reader.sample())

    def add(self, sample: Sample) -> None:
        """Keeps a sample that was taken elsewhere."""
        self.read_ns = max(self.read_ns, sample.read_ns)
        memory = sample.memory
        used_kb = None
        if memory.total_kb is not None and memory.available_kb is not None:
            used_kb = memory.total_kb - memory.available_kb
        self._samples.append((sample.at_ns, memory.rss_kb, used_kb, sample.hottest_c))
        self._keep_worst(sample)
        if len(self._samples) >= _MOST_SAMPLES:
            self._samples = self._samples[::2]
            self.period_s *= 2

    def columns(self) -> WatchColumns:
        """Lays out what was collected. Copies: yes."""
        first_ns = self._samples[0][0] if self._samples else 0
        return WatchColumns(
            period_s=self.period_s,
            at_ms=tuple((at_ns - first_ns) // 1_000_000 for at_ns, *_ in self._samples),
            rss_kb=tuple(rss_kb for _, rss_kb, _, _ in self._samples),
            used_kb=tuple(used_kb for _, _, used_kb, _ in self._samples),
            hottest_c=tuple(temp_c for *_, temp_c in self._samples),
            cooling_peak=tuple(self._cooling.values()),
            shortfalls=tuple(self._shortfalls.values()),
            read_ms=self.read_ns / 1e6,
        )

    def _keep_worst(self, sample: Sample) -> None:
        for device in sample.cooling:
            known = self._cooling.get(device.name)
            if known is None or (device.state or 0) > (known.state or 0):
                self._cooling[device.name] = device
        for domain in filter(has_shortfall, sample.domains):
            known_domain = self._shortfalls.get(domain.name)
            if known_domain is None or (domain.actual_hz or 0) < (known_domain.actual_hz or 0):
                self._shortfalls[domain.name] = domain


class RunWatch:
    """The machine around a run: a snapshot before, samples during, a snapshot after.

    Use it in a `with` block around the run; `state()` is there after it. A reading that fails for a
    cause nobody thought of must not end the run: the watch stops, and the record shows how far it came.
    """

    def __init__(
        self, reader: MachineReader, *, wait: Callable[[float], bool] | None = None, threaded: bool = True
    ) -> None:
        """Prepares the watch.

        Arguments:
            reader: of this machine.
            wait: waits so many seconds and says whether the run has ended; tests give their own.
            threaded: take samples during the run; without, only the snapshots.
        """
        self._reader = reader
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._thread = threading.Thread(target=self._run, name="machine-watch", daemon=True)
        self._threaded = threaded
        self._watch = StateWatch(reader)
        self._before: MachineSnapshot | None = None
        self._after: MachineSnapshot | None = None

    def __enter__(self) -> RunWatch:
        self._before = self._reader.snapshot()
        if self._threaded:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._threaded:
            self._thread.join()
        if kind is None:
            self._after = self._reader.snapshot()

    def state(self) -> RunState:
        """Returns what was seen; only after the block."""
        assert self._before is not None
        assert self._after is not None
        return RunState(self._before, self._after, self._watch.columns())

    def _run(self) -> None:
        while True:
            self._watch.take()
            if self._wait(self._watch.period_s):
                return
