"""One measured run from start to end: a detector over a source, and the record of it."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices import machine_facts
from edge_sdk.ending import Ending, is_disk_full
from edge_sdk.errors import ConfigError, MeterError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.watch import RunWatch
from edge_sdk.measurements import FrameResult
from edge_sdk.meter.run_power import RunPower
from edge_sdk.pipeline import Detector
from edge_sdk.report.camera_losses import pairs_lost
from edge_sdk.report.record import (
    NO_POWER,
    ColdStart,
    EndedEarly,
    EngineFacts,
    ProviderFacts,
    RunFacts,
    RunRecord,
    RunRecorder,
    SlaFacts,
    SourceFacts,
)
from edge_sdk.runs.conditions import run_conditions
from edge_sdk.runs.loop import Force, Observer, Pacer, leaves_out_pauses, run_source
from edge_sdk.scheduler import Pace
from edge_sdk.sources import Source
from edge_sdk.stats import USUAL_WARM_UP, WarmUpBudget
from edge_sdk.version import VERSION

__all__ = ["RunPlan", "record_run"]


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
        warm_up: what the run may take to settle.
    """

    frames: int | None = None
    duration_s: float | None = None
    pace_hz: float | None = None
    on_bad: str = "raise"
    force: Force = None
    seed: int = 0
    warm_up: WarmUpBudget = USUAL_WARM_UP

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
    ending: Ending | None = None,
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
        ending: with one, a signal or an error ends the run and the record holds what was measured until
            then; `ending` says which it was, and the caller raises its error once everything is saved.
            Without one, errors are raised here and the run is lost.

    Raises:
        SourceError: a pair cannot be answered, or none was.
        MeterError: the recording of an external power meter cannot be used.
        StoppedBySignal: a signal ended the run before its first answer.
    """
    clock, watch = clock or MonotonicClock(), watch or RunWatch(MachineReader())
    recorder = RunRecorder()
    if pace is None and plan.pace_hz is not None:
        pace = Pace(plan.pace_hz, clock)
    counted = _Counted(source)
    stands_still = leaves_out_pauses(counted, pace)
    if isinstance(power, RunPower) and on_result is not None:
        on_result = _noting_pauses(power, on_result, clock)

    lost_before: Counter[str] = Counter()

    def go_through() -> None:
        if isinstance(power, RunPower):
            with nullcontext() if ending is None else ending.waiting:
                power.before()
        lost_before.update(_lost(source))
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
            ending=ending,
        )

    with watch:
        ended_early = _until_it_ends(go_through, recorder, ending)
    lost = _lost(source) - lost_before
    if isinstance(power, RunPower):
        power.after(recorder.frames, idle=ended_early is None)
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
            int8_sums=choice.int8_sums,
        ),
        source=SourceFacts(
            uri=source.uri,
            frames_expected=one_pass,
            ended_early=_source_ended(plan, source, recorder, counted.exhausted)
            or (ending is not None and isinstance(ending.error, SourceError)),
            passes=-(-counted.read // one_pass) if one_pass else 1,
            registration="; ".join(detector.registrations) or str(described.get("registration", "unknown")),
            thermal_unit=str(described.get("thermal_unit", "unknown")),
            cameras={key: described[key] for key in ("cameras", "pairing") if key in described} or None,
            pairs_lost=dict(lost),
        ),
        run=RunFacts(
            frames_asked=plan.frames,
            duration_s_asked=plan.duration_s,
            pace_hz=plan.pace_hz,
            seed=plan.seed,
            threads=choice.threads,
            late_frames=pace.late_frames if pace else 0,
            missed_turns=pace.missed_turns if pace else 0,
            pauses_left_out=stands_still,
            ended_early=ended_early,
            warm_up=plan.warm_up,
        ),
        machine=machine_facts(),
        cold_start=ColdStart(import_ms=import_ms, load_ms=detector.load_ns / 1e6),
        conditions=[
            *run_conditions(detector, str(described.get("thermal_unit", ""))),
            *described.get("conditions", ()),
            *(remark for observer in observers for remark in getattr(observer, "conditions", ())),
        ],
        sla=sla,
        sdk_version=VERSION,
        machine_state=watch.state(),
        **_power_facts(power, recorder, stands_still, ending),
    )


def _lost(source: Source) -> Counter[str]:
    """Counts what live cameras have lost until now; cameras that are files wait and lose nothing."""
    return pairs_lost(source.describe()) if getattr(source, "live", False) else Counter()


def _noting_pauses(
    power: RunPower, on_result: Callable[[FramePair, FrameResult], None], clock: Clock
) -> Callable[[FramePair, FrameResult], None]:
    """Tells the meter how long the run's clock stands still after each frame: power is drawn meanwhile."""

    def noted(pair: FramePair, result: FrameResult) -> None:
        start_ns = clock.now_ns()
        try:
            on_result(pair, result)
        finally:
            power.paused(clock.now_ns() - start_ns)

    return noted


def _power_facts(
    power: RunPower | str, recorder: RunRecorder, stands_still: bool, ending: Ending | None
) -> dict[str, Any]:
    if isinstance(power, str):
        return {"power": power}
    start_ns, end_ns = recorder.busy_ns
    try:
        part = power.part((start_ns, end_ns + (power.pauses_ns() if stands_still else 0)))
    except MeterError as error:
        if ending is None:
            raise
        ending.error = ending.error or error
        return {"power": f"the power meter gave nothing that can be used: {error}"}
    return {"power": part.facts.named, "meter": part}


def _until_it_ends(
    loop: Callable[[], None], recorder: RunRecorder, ending: Ending | None
) -> EndedEarly | None:
    """Runs the loop; returns what ended it before its time. Raises that where nothing was measured yet."""
    if ending is None:
        loop()
        return None
    try:
        with ending.running():
            loop()
    except Exception as error:
        if not recorder.frames:
            ending.saved()
            raise
        ending.error, ending.cut = error, True
        text = str(error) or type(error).__name__
        return EndedEarly("disk full" if is_disk_full(error) else "error", text)
    if not ending.cut:
        return None
    if not recorder.frames:
        ending.saved()
        ending.raise_signal()
    return EndedEarly("signal", signal.Signals(ending.signal).name)


class _Counted:
    """Passes pairs on, counts them, and remembers whether the source came to its end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pairs = iter(source)
        self.live = bool(getattr(source, "live", False))
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


def _source_ended(plan: RunPlan, source: Source, recorder: RunRecorder, exhausted: bool) -> bool:
    """Whether the source gave fewer pairs than the run asked for."""
    if not exhausted:
        return False
    if plan.frames is not None:
        return recorder.frames + recorder.dropped < plan.frames
    if plan.duration_s is not None:
        return True
    seen = recorder.frames + recorder.dropped
    return source.length is not None and seen < source.length
