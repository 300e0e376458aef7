"""A meter read at a steady rate on a thread of its own, and windows of energy over what it reads."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import ConfigError, MeterError, StateError
from edge_sdk.meter.base import Meter, Reading
from edge_sdk.power import MeterFacts, PowerTrace
from edge_sdk.stats import Energy, window_energy

__all__ = ["DEFAULT_HZ", "SLOW_READ_NS", "EnergyMeter", "EnergyWindow"]

DEFAULT_HZ = 10.0
"""A sensor that averages over 0.43 s shows no more at a higher rate than 10 - 20 Hz."""

SLOW_READ_NS = 50_000_000
"""A read that takes longer disturbs the run, and its moment is not known well. It is counted."""

_MAX_HZ = 100.0
_NAN = float("nan")
_DIGITS = 6  # microwatts: what a sensor shows is coarser, and a file need not hold 17 digits
_FAILURES = 20  # reads in a row that give nothing end the sampling


class EnergyWindow:
    """A span of time whose energy is asked for.

    Attributes:
        name: the caller's.
        start_ns, end_ns: monotonic clock; `end_ns` is None while the window is open.
        inferences: set it inside the window for `per_inference_mj`.
    """

    def __init__(self, meter: EnergyMeter, name: str, start_ns: int) -> None:
        self.name, self.start_ns, self.inferences = name, start_ns, 0
        self.end_ns: int | None = None
        self._meter = meter
        self._energy: Energy | None = None
        self._problem = ""

    @property
    def energy(self) -> Energy:
        """The energy of the closed window, corrected and uncorrected, with its uncertainty.

        Raises:
            StateError: the window is still open.
            MeterError: it was too short, or the samples do not cover it.
        """
        if self.end_ns is None:
            raise StateError(f"window {self.name!r} is still open: ask after its with block")
        if self._energy is None:
            raise MeterError(f"window {self.name!r}: {self._problem}")
        return self._energy

    @property
    def per_inference_mj(self) -> float:
        """Total energy of one inference in millijoules, idle included.

        Raises:
            StateError: the window is open, or `inferences` was not set.
            MeterError: see `energy`.
        """
        if self.inferences < 1:
            raise StateError(f"window {self.name!r}: set .inferences inside the window")
        return self.energy.corrected_j * 1e3 / self.inferences

    def _close(self, end_ns: int) -> None:
        self.end_ns = end_ns
        try:
            self._energy = self._meter.energy_between(self.start_ns, end_ns)
        except MeterError as error:
            self._problem = str(error)


class EnergyMeter:
    """Samples a meter until closed. Made by `open_meter`; windows may nest and overlap.

    Attributes:
        facts: the meter, its scope and its rails.
        hz: the rate asked for.
        failed: why sampling stopped before it was closed, or "".
    """

    def __init__(
        self,
        meter: Meter,
        *,
        hz: float = DEFAULT_HZ,
        clock: Clock | None = None,
        keep_s: float | None = 3600.0,
    ) -> None:
        """Prepares sampling; `start` or a `with` block begins it.

        Arguments:
            meter: is closed together with this.
            hz: samples a second.
            clock: that of the meter too.
            keep_s: samples older than this are forgotten unless a window needs them; None keeps all.

        Raises:
            ConfigError: the rate is not within 0 - 100 Hz.
        """
        if not 0 < hz <= _MAX_HZ:
            raise ConfigError(f"hz: expected more than 0 and at most {_MAX_HZ:g} samples/s, found {hz:g}")
        self.facts: MeterFacts = meter.facts
        self.hz, self.failed = hz, ""
        self._meter, self._clock = meter, clock or MonotonicClock()
        self._keep_ns = None if keep_s is None else round(keep_s * 1e9)
        self._labels = tuple(rail.label for rail in self.facts.rails)
        self._times, self._read_ns = array("q"), array("q")
        self._watts = {label: array("d") for label in self._labels}
        self._joules = {label: array("d") for label in self._labels}
        self._counts = False
        self._open: list[EnergyWindow] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._cpu_ns = self._wall_ns = 0

    def start(self) -> EnergyMeter:
        """Begins sampling. A second call does nothing."""
        if self._stop.is_set():
            raise StateError("this meter is closed: open another")
        if self._thread is None:
            self.sample()
            self._thread = threading.Thread(target=self._run, name="edge-sdk-meter", daemon=True)
            self._thread.start()
        return self

    def sample(self) -> Reading | None:
        """Reads once, now, beside the thread's own turns; None where nothing could be read.

        A read that fails is kept as a sample without a value, so that a window knows what it lacks.
        """
        with self._lock:
            try:
                reading = self._meter.read()
            except MeterError as error:
                self._failures += 1
                if self._failures >= _FAILURES:
                    self.failed = self.failed or str(error)
                now_ns = self._clock.now_ns()
                self._keep(Reading(now_ns, now_ns, {}))  # a row without a value: time that nobody saw
                return None
            self._failures = 0
            self._keep(reading)
            return reading

    @contextmanager
    def window(self, name: str) -> Iterator[EnergyWindow]:
        """Opens a window around a `with` block; its energy can be asked for after the block."""
        self.sample()
        window = EnergyWindow(self, name, self._clock.now_ns())
        self._open.append(window)
        try:
            yield window
        finally:
            end_ns = self._clock.now_ns()
            self.sample()
            window._close(end_ns)
            self._open.remove(window)

    def energy_between(self, start_ns: int, end_ns: int) -> Energy:
        """Returns the energy of the meter's total over a span of the monotonic clock.

        Raises:
            MeterError: the span is under 2 s, is not covered by samples, or no total is known.
        """
        rails = tuple(rail for rail in self.facts.rails if rail.in_total)
        if not rails:
            raise MeterError(f"no total: {self.facts.note or 'the rails that add up are not known'}")
        return window_energy(self.trace(start_ns), rails, start_ns, end_ns, slow_ns=SLOW_READ_NS)

    def trace(self, since_ns: int = 0) -> PowerTrace:
        """Returns the samples kept so far. Copies: yes.

        Arguments:
            since_ns: leave out what is older, but for the two samples before it.
        """
        with self._lock:
            first = max(0, bisect_left(self._times, since_ns) - 2)
            joules = (
                {label: _floats(column[first:]) for label, column in self._joules.items()}
                if self._counts
                else {}
            )
            return PowerTrace(
                times_ns=np.array(self._times[first:], dtype=np.int64),
                read_ns=np.array(self._read_ns[first:], dtype=np.int64),
                watts={label: _floats(column[first:]) for label, column in self._watts.items()},
                joules=joules,
            )

    @property
    def cpu_share(self) -> float | None:
        """Processor time of the sampling thread over time that passed: its cost as a share of one core."""
        return self._cpu_ns / self._wall_ns if self._wall_ns else None

    def close(self) -> None:
        """Stops sampling and closes the meter. A second call does nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._meter.close()

    def __enter__(self) -> EnergyMeter:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._sample_until_stopped()
        except BaseException as error:
            self.failed = self.failed or f"sampling stopped by a fault of the SDK: {error!r}"
            raise

    def _sample_until_stopped(self) -> None:
        began_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        period_ns = round(1e9 / self.hz)
        due_ns = self._clock.now_ns() + period_ns
        while not self.failed:
            wait_s = (due_ns - self._clock.now_ns()) / 1e9
            if self._stop.wait(max(0.0, wait_s)):
                break
            self.sample()
            now_ns = self._clock.now_ns()
            due_ns += period_ns * max(
                1, -((due_ns - now_ns) // period_ns)
            )  # turns that passed are not made up
            self._cpu_ns = time.thread_time_ns() - cpu_ns
            self._wall_ns = time.perf_counter_ns() - began_ns

    def _keep(self, reading: Reading) -> None:
        if self._times and reading.at_ns <= self._times[-1]:
            return  # the same line of a slow source again
        self._times.append(reading.at_ns)
        self._read_ns.append(reading.read_ns)
        for label in self._labels:
            rail = reading.rails.get(label)
            self._watts[label].append(_NAN if rail is None or rail.w is None else round(rail.w, _DIGITS))
            joules = None if rail is None else rail.j
            self._counts = self._counts or joules is not None
            self._joules[label].append(_NAN if joules is None else round(joules, _DIGITS))
        if self._keep_ns is not None and len(self._times) % 1024 == 0:
            self._forget(reading.at_ns - self._keep_ns)

    def _forget(self, before_ns: int) -> None:
        needed_ns = min([before_ns, *(window.start_ns for window in self._open)])
        old = max(0, int(np.searchsorted(np.array(self._times, dtype=np.int64), needed_ns)) - 1)
        del self._times[:old]
        del self._read_ns[:old]
        for column in (*self._watts.values(), *self._joules.values()):
            del column[:old]


def _floats(column: array[float]) -> NDArray[np.float64]:
    return np.array(column, dtype=np.float64)
