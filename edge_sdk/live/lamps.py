"""SLA verdicts over the last frames of a run that goes on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices import machine_facts
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult
from edge_sdk.pipeline import Detector
from edge_sdk.report.facts import EngineFacts, ProviderFacts, RunFacts, SourceFacts
from edge_sdk.report.record import RunRecorder
from edge_sdk.report.verdict import Outcome, Verdicts, judge
from edge_sdk.sla import Sla
from edge_sdk.sources import Source
from edge_sdk.version import VERSION

__all__ = ["SlaLamps"]

_WINDOW = 3000
_EVERY_S = 2.0


class SlaLamps:
    """Judges the last 3000 pairs every two seconds, on a thread of its own: an observer.

    The first pair of a run is cold and never in the window's steady part; neither is a forced route
    (then the verdict is INVALID, as an SLA judges the router's own choice).

    Arguments:
        sla: the limits.
        detector, source: of the run.
        asked_engine, asked_device: what `load` was asked for.
        pace_hz: of the run.
        on_verdict: called with each verdict and the number of pairs it is about.
        clock: that the run is timed with.
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
        on_verdict: Callable[[Verdicts, int], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._sla, self._on_verdict = sla, on_verdict
        self._clock = clock or MonotonicClock()
        manifest, choice = detector.bundle.manifest, detector.choice
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
            "run": RunFacts(pace_hz=pace_hz, threads=choice.threads),
            "machine": machine_facts(),
            "sdk_version": VERSION,
        }
        self._lock = threading.Lock()
        self._window: deque[tuple[FrameResult | None, int, str]] = deque(maxlen=_WINDOW)
        self._start_ns = 0
        self._verdicts: Verdicts | None = None
        self._frames = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._judge_all, name="edge-sdk sla", daemon=True)
        self._thread.start()

    def arrived(self, pair: FramePair) -> None:
        """See `Observer.arrived`."""
        self._start_ns = self._clock.now_ns()

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """See `Observer.answered`."""
        bare = replace(result, signals=type(result.signals)())
        with self._lock:
            self._window.append((bare, self._start_ns, ""))

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """See `Observer.unanswered`."""
        with self._lock:
            self._window.append((None, self._clock.now_ns(), why))

    def judge_now(self) -> Verdicts | None:
        """Judges the window; None where it holds no answered pair yet."""
        with self._lock:
            window = list(self._window)
        recorder = RunRecorder()
        for result, start_ns, why in window:
            if result is not None:
                recorder.add(result, start_ns)
            else:
                recorder.drop("", why)
        if not recorder.frames:
            return None
        self._frames = recorder.frames
        self._verdicts = judge(recorder.finish(**self._facts), self._sla, window=True)
        if self._on_verdict is not None:
            self._on_verdict(self._verdicts, self._frames)
        return self._verdicts

    def as_json(self) -> dict[str, Any]:
        """Returns what the page shows: a lamp a clause, and the whole."""
        verdicts = self._verdicts
        if verdicts is None:
            return {"name": self._sla.name, "overall": Outcome.INCONCLUSIVE.value, "frames": 0, "clauses": []}
        return {
            "name": verdicts.sla,
            "overall": verdicts.overall.value,
            "frames": self._frames,
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

    def _judge_all(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self.judge_now()
