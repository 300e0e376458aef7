"""SLA verdicts over the last frames of a run that goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices import machine_facts
from edge_sdk.frames import FramePair
from edge_sdk.live.machine_window import MachineWindow
from edge_sdk.live.run_window import CameraLosses, RunWindow, Seen
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.measurements import FrameResult
from edge_sdk.meter.run_power import RunPower
from edge_sdk.pipeline import Detector
from edge_sdk.power import PowerPart
from edge_sdk.report.facts import EngineFacts, ProviderFacts, RunFacts, SourceFacts
from edge_sdk.report.record import NO_POWER, RunRecorder
from edge_sdk.report.verdict import Outcome, Verdicts, judge
from edge_sdk.sla import Sla
from edge_sdk.sources import Source
from edge_sdk.sources.cameras import CameraSource
from edge_sdk.version import VERSION

__all__ = ["SlaLamps"]

_WINDOW = 3000
_EVERY_S = 2.0
_LATE_PERIODS = 3
"""Samples of a meter may be so many periods behind; one that is further behind has failed."""


class SlaLamps:
    """Judges the last 3000 pairs every two seconds, on a thread of its own: an observer.

    The first pair of a run is cold and never in the window's steady part. Pairs whose route was forced are
    left out and the window begins anew after them, as an SLA judges the router's own choice.

    Arguments:
        sla: the limits.
        detector, source: of the run.
        asked_engine, asked_device: what `load` was asked for.
        pace_hz: of the run.
        power: what follows the run with a power meter, or the text that says why nothing does.
        on_verdict: called with each verdict and the number of pairs it is about.
        machine: reads the machine's state; this machine's by default.
        clock: that the run is timed with.
        unix_s: gives the time of day.
    """

    def __init__(
        self,
        sla: Sla,
        detector: Detector,
        source: Source,
        *,
        asked_engine: str,
        asked_device: str = "auto",
        pace_hz: float | None = None,
        power: RunPower | str = NO_POWER,
        on_verdict: Callable[[Verdicts, int], None] | None = None,
        machine: MachineReader | None = None,
        clock: Clock | None = None,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._sla, self._on_verdict, self._power = sla, on_verdict, power
        self._clock, self._unix_s = clock or MonotonicClock(), unix_s
        manifest, choice = detector.bundle.manifest, detector.choice
        self._run = RunFacts(pace_hz=pace_hz, threads=choice.threads, pauses_left_out=False)
        self._facts: dict[str, Any] = {
            "engine": EngineFacts(
                asked_engine, manifest.name, manifest.version, detector.bundle.sha256, choice.precision
            ),
            "provider": ProviderFacts(
                asked_device,
                choice.provider,
                choice.tried,
                asked_device not in ("auto", choice.device),
                choice.int8_sums,
            ),
            "source": SourceFacts(source.uri),
            "machine": machine_facts(),
            "sdk_version": VERSION,
        }
        self._lock = threading.Lock()
        self._window = RunWindow(_WINDOW, pace_hz)
        self._losses = (
            CameraLosses(source.status) if isinstance(source, CameraSource) and source.live else None
        )
        self._machine = MachineWindow(machine or MachineReader(), self._clock)
        self._verdicts: Verdicts | None = None
        self._frames = 0
        self._lost: dict[str, int] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._judge_all, name="edge-sdk sla", daemon=True)
        self._thread.start()

    def arrived(self, pair: FramePair) -> None:
        """See `Observer.arrived`."""
        with self._lock:
            self._window.arrived(self._clock.now_ns())

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """See `Observer.answered`."""
        bare = replace(result, signals=type(result.signals)())
        with self._lock:
            self._window.answered(bare, self._unix_s())

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """See `Observer.unanswered`."""
        with self._lock:
            self._window.unanswered(self._clock.now_ns(), why)

    def judge_now(self) -> Verdicts:
        """Judges the window; what it does not hold yet is INCONCLUSIVE."""
        with self._lock:
            pairs = self._window.pairs
        now_ns = self._clock.now_ns()
        self._machine.take()
        start_ns = pairs[0].start_ns if pairs else now_ns
        if self._losses is not None:
            self._losses.take(now_ns, start_ns)
        part = None if isinstance(self._power, str) else self._power.part_so_far(start_ns)
        if part is not None and not isinstance(self._power, str):
            pairs = _measured(pairs, part)
            numbers = [seen.number for seen in pairs if seen.result is not None]
            part = replace(part, pause_ns=self._power.pauses_of(numbers))
        recorder, missed = RunRecorder(), 0
        for seen in pairs:
            missed += seen.missed_turns
            if seen.result is not None:
                recorder.add(seen.result, seen.start_ns)
            else:
                recorder.drop("", seen.why)
        lost = self._losses.lost() if self._losses is not None and pairs else {}
        for cause, count in lost.items():
            for _ in range(count):
                recorder.drop("", f"the cameras lost it: {cause}")
        record = recorder.finish(
            **self._facts,
            run=replace(self._run, missed_turns=missed),
            machine_state=self._machine.state(start_ns),
            power=self._power if isinstance(self._power, str) else NO_POWER,
            meter=part,
        )
        verdicts = self._waiting_for_the_end(judge(record, self._sla, window=True), bool(pairs))
        with self._lock:
            self._verdicts, self._frames, self._lost = verdicts, recorder.frames, lost
        if self._on_verdict is not None and recorder.frames:
            self._on_verdict(verdicts, recorder.frames)
        return verdicts

    def as_json(self) -> dict[str, Any]:
        """Returns what the page shows: a lamp a clause, and the whole."""
        with self._lock:
            verdicts, frames, lost, forcing = self._verdicts, self._frames, self._lost, self._window.forcing
        found: dict[str, Any] = {
            "name": self._sla.name,
            "overall": Outcome.INCONCLUSIVE.value,
            "frames": frames,
            "unsound": [],
            "clauses": [],
            "lost": lost,
            "forced": forcing.route.value if forcing and forcing.route else None,
            "forced_since": forcing.since if forcing and forcing.route else None,
            "anew_since": forcing.since if forcing and not forcing.route else None,
        }
        if verdicts is None or found["forced"]:
            return found
        return found | {
            "overall": verdicts.overall.value,
            "unsound": list(verdicts.unsound),
            "clauses": [
                {
                    "clause": clause.clause,
                    "verdict": clause.verdict.value,
                    "limit": clause.limit,
                    "estimate": clause.estimate,
                    "unit": clause.unit,
                    "reason": clause.reason,
                }
                for clause in verdicts.clauses
            ],
        }

    def close(self) -> None:
        """Ends the thread. A second call does nothing."""
        self._ending.set()
        self._thread.join()

    def _waiting_for_the_end(self, verdicts: Verdicts, has_pairs: bool) -> Verdicts:
        """Tells what only the end of the run can show from what is unsound."""
        later = self._later() if has_pairs else {}
        clauses = tuple(
            replace(clause, verdict=Outcome.INCONCLUSIVE, reason=later[clause.clause])
            if clause.verdict is Outcome.INVALID and clause.clause in later and not verdicts.unsound
            else clause
            for clause in verdicts.clauses
        )
        overall = max((clause.verdict for clause in clauses), key=tuple(Outcome).index)
        return replace(verdicts, clauses=clauses, overall=overall)

    def _later(self) -> dict[str, str]:
        if isinstance(self._power, str):
            return {}
        if self._power.meter is None:
            why = "the external meter is read when the run is over."
            return {limit.clause: why for limit in self._sla.power}
        if not self._power.measures_idle:
            return {}
        why = "idle after the run is measured when it is over: marginal energy is judged then."
        return {limit.clause: why for limit in self._sla.power if limit.kind == "marginal"}

    def _judge_all(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self.judge_now()


def _measured(pairs: list[Seen], part: PowerPart) -> list[Seen]:
    """Leaves out the newest pairs, of which the meter has no sample yet; an old trace leaves all in."""
    if not len(part.trace):
        return pairs
    until_ns = int(part.trace.times_ns[-1])
    first_out = len(pairs)
    most_ns = round(_LATE_PERIODS * 1e9 / part.hz)
    newest_ns = pairs[-1].start_ns if pairs else 0
    while first_out and pairs[first_out - 1].start_ns > max(
        until_ns - _latency_ns(pairs[first_out - 1]), newest_ns - most_ns
    ):
        first_out -= 1
    return pairs[:first_out]


def _latency_ns(seen: Seen) -> int:
    return seen.result.latency_ns if seen.result is not None else 0
