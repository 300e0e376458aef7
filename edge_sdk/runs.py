"""One measured run from start to end: a detector over a source, and the record of it.

The command line, the SLA check and the apps all make their runs here, so that a record always
means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices import machine_facts
from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.frames import FramePair, RgbFrame
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.watch import RunWatch
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.meter.run_power import RunPower
from edge_sdk.pipeline import Detector
from edge_sdk.recording import RecordingFacts, RecordingPlan, RunRecording
from edge_sdk.report.record import (
    NO_POWER,
    ColdStart,
    EngineFacts,
    ProviderFacts,
    RunFacts,
    RunRecord,
    RunRecorder,
    SlaFacts,
    SourceFacts,
)
from edge_sdk.scheduler import Pace
from edge_sdk.sources import Source
from edge_sdk.sources.base import ReadsInto
from edge_sdk.version import VERSION

__all__ = [
    "Force",
    "Observer",
    "RunPlan",
    "live_conditions",
    "open_recording",
    "record_run",
    "recording_facts",
    "run_source",
]

NOT_ON_JETSON = "Not measured on Jetson: these times hold for the machine named here alone."
NULL_ENGINE = "The null engine ran: nothing was inferred; times are those of the harness alone."
EMULATED_DRIVER = "The CUDA driver is emulated: no time here is that of a GPU."
NO_THERMAL_DEGREES = "Thermal frames are in counts of unknown unit: no degree is claimed."


_FRUITLESS_PAIRS = 1000
"""Pairs in a row without an answer that end a run: an endless source of bad pairs must not hang it."""


class Recorder(Protocol):
    """Takes what a run yields."""

    def add(self, result: FrameResult, start_ns: int) -> None:
        """Keeps one answer and when its processing began."""
        ...

    def drop(self, key: str, why: str) -> None:
        """Keeps that a pair got no answer."""
        ...


class Pacer(Protocol):
    """Says when the next pair may start.

    Attributes:
        late_frames, missed_turns: see `Pace`.
    """

    late_frames: int
    missed_turns: int

    def wait(self) -> None:
        """Returns when the next pair is due."""
        ...


class Observer(Protocol):
    """Sees every pair of a run, answered or not, on the run's own thread and in its own time: be quick."""

    def arrived(self, pair: FramePair) -> None:
        """A pair came out of the source and is about to be answered."""
        ...

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """A pair has its answer."""
        ...

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """A pair got no answer; `pair` is None where it could not even be read."""
        ...


Force = Route | str | Callable[[FramePair], Route | None] | None
"""A route for every pair, a function that names one for each pair or leaves it to the gate, or None."""


def run_source(
    detector: Detector,
    source: Iterable[FramePair],
    *,
    recorder: Recorder | None = None,
    clock: Clock | None = None,
    pace: Pacer | None = None,
    frames: int | None = None,
    duration_ns: int | None = None,
    on_bad: str = "raise",
    force: Force = None,
    on_result: Callable[[FramePair, FrameResult], None] | None = None,
    observers: Sequence[Observer] = (),
) -> int:
    """Answers pair after pair until the source, the frame count or the time is at its end.

    Arguments:
        detector, source: what answers, and where pairs come from.
        recorder: takes each result and each dropped pair.
        clock: that of the run; the machine's by default.
        pace: waits until the next pair is due; without one pairs follow back to back.
        frames: at most so many answered pairs.
        duration_ns: no pair starts later than this after the first.
        on_bad: "raise", or "skip" to record a pair that cannot be read or answered and go on.
        force: take this route for every pair, or the one that a function names for each.
        on_result: called with each pair and its result; the run's clock stands still meanwhile.
        observers: told of every pair; what they take counts as the run's own time.

    Returns: the number of pairs answered.

    Raises:
        SourceError: a pair cannot be read or answered and `on_bad` is "raise".
        ConfigError: `on_bad` is neither.
    """
    if on_bad not in ("raise", "skip"):
        raise ConfigError(f"on_bad: expected 'raise' or 'skip', found {on_bad!r}")
    clock = clock or MonotonicClock()
    answered = fruitless = paused_ns = 0
    first_ns: int | None = None
    read = _reader(detector, source, keeps_pairs=on_result is not None or bool(observers))
    while frames is None or answered < frames:
        running_ns = 0 if first_ns is None else clock.now_ns() - paused_ns - first_ns
        if duration_ns is not None and first_ns is not None and running_ns >= duration_ns:
            break
        if fruitless >= _FRUITLESS_PAIRS:
            raise SourceError(f"{fruitless} pairs in a row gave no answer; the run was ended")
        try:
            pair = read()
        except FrameError as error:
            if on_bad == "raise":
                raise
            if recorder is not None:
                recorder.drop(error.key, str(error))
            for observer in observers:
                observer.unanswered(None, error.key, str(error))
            fruitless += 1
            continue
        if pair is None:
            break
        if pace is not None:
            pace.wait()
        for observer in observers:
            observer.arrived(pair)
        start_ns = clock.now_ns() - paused_ns
        first_ns = start_ns if first_ns is None else first_ns
        if duration_ns is not None and start_ns - first_ns >= duration_ns > 0:
            break
        try:
            result = detector(pair, force=force(pair) if callable(force) else force)
        except SourceError as error:
            for observer in observers:
                observer.unanswered(pair, pair.key, str(error))
            if on_bad == "raise":
                raise
            if recorder is not None:
                recorder.drop(pair.key, str(error))
            fruitless += 1
            continue
        answered, fruitless = answered + 1, 0
        if recorder is not None:
            recorder.add(result, start_ns)
        for observer in observers:
            observer.answered(pair, result)
        if on_result is not None:
            before_ns = clock.now_ns()
            on_result(pair, result)
            paused_ns += clock.now_ns() - before_ns
    return answered


@dataclass(frozen=True)
class RunPlan:
    """How long a run is and how its frames come.

    Attributes:
        frames: answered pairs to end after, or None.
        duration_s: seconds after which no pair starts, or None. With neither, the source's end is the end.
        pace_hz: pairs started a second, or None for back to back.
        on_bad: "raise" or "skip", for pairs that cannot be answered.
        force: a route for every pair, a function that names one for each, or None.
        seed: written into the record; nothing in a run is drawn at random.
    """

    frames: int | None = None
    duration_s: float | None = None
    pace_hz: float | None = None
    on_bad: str = "raise"
    force: Force = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.frames is not None and self.frames < 1:
            raise ConfigError(f"frames: expected 1 or more, found {self.frames}")
        if self.duration_s is not None and not 0 < self.duration_s < float("inf"):
            raise ConfigError(f"duration_s: expected more than 0 seconds, found {self.duration_s}")


def record_run(
    detector: Detector,
    source: Source,
    plan: RunPlan,
    *,
    asked_engine: str,
    asked_device: str = "auto",
    import_ms: float | None = None,
    sla: SlaFacts | None = None,
    clock: Clock | None = None,
    on_result: Callable[[FramePair, FrameResult], None] | None = None,
    watch: RunWatch | None = None,
    power: RunPower | str = NO_POWER,
    observers: Sequence[Observer] = (),
    pace: Pacer | None = None,
) -> RunRecord:
    """Runs a detector over a source and records every frame.

    Arguments:
        detector, source: both open; the caller closes them.
        plan: how long, and at what pace.
        asked_engine, asked_device: what the caller asked `load` for.
        import_ms: time the import of the SDK took, where the caller measured it.
        sla: the SLA this run is made for.
        clock: that of the run; the machine's by default.
        on_result: called with each pair and its result, outside all timing.
        watch: reads the machine before, during and after the run; this machine's by default.
        power: follows the run with a power meter on the same clock, or the text that says why none does.
        observers: told of every pair, see `Observer`.
        pace: instead of the plan's even one.

    Raises:
        SourceError: a pair cannot be answered, or none was.
        MeterError: the recording of an external power meter cannot be used.
    """
    clock, watch = clock or MonotonicClock(), watch or RunWatch(MachineReader())
    recorder = RunRecorder()
    pace = pace or Pace(plan.pace_hz, clock)
    counted = _Counted(source)
    if isinstance(power, RunPower):
        if on_result is not None:
            on_result = _noting_pauses(power, on_result, clock)
        power.before()
    with watch:
        run_source(
            detector,
            counted,
            recorder=recorder,
            clock=clock,
            pace=pace,
            frames=plan.frames,
            duration_ns=None if plan.duration_s is None else round(plan.duration_s * 1e9),
            on_bad=plan.on_bad,
            force=plan.force,
            on_result=on_result,
            observers=observers,
        )
    if isinstance(power, RunPower):
        power.after()
    for skipped in source.skipped:
        recorder.drop(skipped.key, skipped.why)
    for _ in range(source.skipped_count - len(source.skipped)):
        recorder.drop("", "more bad frames than the source remembers one by one")
    described = source.describe()
    loop = int(described.get("loop", 1)) or None
    one_pass = source.length // loop if source.length is not None and loop else None
    choice = detector.choice
    return recorder.finish(
        engine=EngineFacts(
            asked=asked_engine,
            name=detector.bundle.manifest.name,
            version=detector.bundle.manifest.version,
            bundle_sha256=detector.bundle.sha256,
            precision=choice.precision,
        ),
        provider=ProviderFacts(
            asked=asked_device,
            loaded=choice.provider,
            tried=choice.tried,
            fallback=asked_device not in ("auto", choice.device),
        ),
        source=SourceFacts(
            uri=source.uri,
            frames_expected=one_pass,
            ended_early=_ended_early(plan, source, recorder, counted.exhausted),
            passes=-(-counted.read // one_pass) if one_pass else 1,
            registration="; ".join(detector.registrations) or str(described.get("registration", "unknown")),
            thermal_unit=str(described.get("thermal_unit", "unknown")),
            cameras={key: described[key] for key in ("cameras", "pairing") if key in described} or None,
        ),
        run=RunFacts(
            frames_asked=plan.frames,
            duration_s_asked=plan.duration_s,
            pace_hz=plan.pace_hz,
            seed=plan.seed,
            threads=choice.threads,
            late_frames=pace.late_frames,
            missed_turns=pace.missed_turns,
        ),
        machine=machine_facts(),
        cold_start=ColdStart(import_ms=import_ms, load_ms=detector.load_ns / 1e6),
        conditions=_conditions(detector, str(described.get("thermal_unit", ""))),
        sla=sla,
        sdk_version=VERSION,
        machine_state=watch.state(),
        **_power_facts(power, recorder),
    )


def _noting_pauses(
    power: RunPower, on_result: Callable[[FramePair, FrameResult], None], clock: Clock
) -> Callable[[FramePair, FrameResult], None]:
    """Tells the meter how long the run's clock stands still after each frame: power is drawn meanwhile."""

    def noted(pair: FramePair, result: FrameResult) -> None:
        start_ns = clock.now_ns()
        on_result(pair, result)
        power.paused(clock.now_ns() - start_ns)

    return noted


def _power_facts(power: RunPower | str, recorder: RunRecorder) -> dict[str, Any]:
    if isinstance(power, str):
        return {"power": power}
    start_ns, end_ns = recorder.busy_ns
    part = power.part((start_ns, end_ns + power.pauses_ns()))
    return {"power": part.facts.named, "meter": part}


def _reader(
    detector: Detector, source: Iterable[FramePair], keeps_pairs: bool
) -> Callable[[], FramePair | None]:
    """Reads straight into the engine's input where a source can, and nobody keeps a pair beyond its turn."""
    if isinstance(source, ReadsInto) and not keeps_pairs:
        iter(source)  # raises where the source is closed
        return partial(detector.read_from, source)
    return partial(next, iter(source), None)


def recording_facts(detector: Detector, source: Source, asked_device: str = "auto") -> RecordingFacts:
    """Makes what a recording of this run must say of it, so that it can be replayed.

    Arguments:
        detector, source: of the run; both open.
        asked_device: what the caller asked `load` for.
    """
    described = source.describe()
    manifest = detector.bundle.manifest
    return RecordingFacts(
        engine=manifest.name,
        engine_version=manifest.version,
        bundle_sha256=detector.bundle.sha256,
        precision=str(detector.choice.precision),
        provider=detector.choice.provider,
        device=asked_device,
        gate={item.name: getattr(detector.gate, item.name) for item in fields(detector.gate)},
        source=source.uri,
        thermal_unit=str(described.get("thermal_unit") or "unknown"),
        registration=str(described.get("registration") or "unknown"),
        sdk_version=VERSION,
    )


def open_recording(
    detector: Detector,
    source: Source,
    plan: RecordingPlan,
    *,
    asked_device: str = "auto",
    jpeg_of: Callable[[RgbFrame], bytes | None] | None = None,
    clock: Clock | None = None,
) -> RunRecording:
    """Begins to record a run: give what it returns to the run as an observer, and close it afterwards.

    Arguments:
        detector, source: of the run; both open.
        plan: where to and how much.
        asked_device: what the caller asked `load` for.
        jpeg_of: see `RunRecording`; needed for `rgb="jpeg"`, from the `SeenThroughJpeg` around the source.
        clock: that arrival times are read from.

    Raises:
        ConfigError, DeviceError: the file exists or cannot be made.
    """
    facts = recording_facts(detector, source, asked_device).as_json()
    return RunRecording(plan, facts, lambda: detector.memory, jpeg_of=jpeg_of, clock=clock)


class _Counted:
    """Passes pairs on, counts them, and remembers whether the source came to its end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pairs = iter(source)
        self.read = 0
        self.exhausted = False

    def __iter__(self) -> Iterator[FramePair]:
        return self

    def __next__(self) -> FramePair:
        try:
            pair = next(self._pairs)
        except StopIteration:
            self.exhausted = True
            raise
        self.read += 1
        return pair

    def read_into(self, rgb: NDArray[np.uint8] | None = None) -> FramePair | None:
        pair = self._source.read_into(rgb=rgb)
        self.exhausted |= pair is None
        self.read += pair is not None
        return pair


def _ended_early(plan: RunPlan, source: Source, recorder: RunRecorder, exhausted: bool) -> bool:
    """Whether the source gave fewer pairs than the run asked for."""
    if not exhausted:
        return False
    if plan.frames is not None:
        return recorder.frames + recorder.dropped < plan.frames
    if plan.duration_s is not None:
        return True
    seen = recorder.frames + recorder.dropped
    return source.length is not None and seen < source.length


def live_conditions(detector: Detector) -> list[str]:
    """Returns what a viewer must know before trusting live figures."""
    return _conditions(detector, "")


def _conditions(detector: Detector, thermal_unit: str) -> list[str]:
    conditions = []
    if "jetson" not in str(machine_facts().get("board", "")).lower():
        conditions.append(NOT_ON_JETSON)
    if detector.choice.device == "null":
        conditions.append(NULL_ENGINE)
    if "(emulated)" in detector.provider:
        conditions.append(EMULATED_DRIVER)
    if thermal_unit == "counts":
        conditions.append(NO_THERMAL_DEGREES)
    shipped = detector.bundle.manifest.gate
    changed = [
        f"{item.name}={getattr(detector.gate, item.name)}"
        for item in fields(shipped)
        if getattr(detector.gate, item.name) != getattr(shipped, item.name)
    ]
    if changed:
        conditions.append(f"Thresholds of the gate were overridden: {', '.join(changed)}.")
    return conditions
