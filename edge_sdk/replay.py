"""The same run again, from its recording: same pairs, same memory, and whether it gave the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.ending import Ending
from edge_sdk.errors import ConfigError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.pipeline import Detector, load
from edge_sdk.recording import RecordingFacts
from edge_sdk.recording.layout import RecordedPair
from edge_sdk.report.record import RunRecord
from edge_sdk.runs import RunPlan, record_run
from edge_sdk.sources import RecordedSource, open_source
from edge_sdk.sources.registration import RegistrationArgument

__all__ = ["Comparison", "RecordedPace", "Replay", "replay"]

_KEPT_DIFFERENCES = 20


@dataclass(frozen=True)
class Comparison:
    """What was the same the second time.

    Attributes:
        pairs: pairs compared, those without an answer included.
        same_routes: of those, with the same route and reason, or without an answer both times.
        same_boxes: of those, with the same boxes, scores and temperatures, bit for bit.
        differences: the first pairs that differ, in words.
        not_promised: why equal answers cannot be expected; empty where they must be equal.
    """

    pairs: int
    same_routes: int
    same_boxes: int
    differences: tuple[str, ...]
    not_promised: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether every route and every box is the same."""
        return self.pairs == self.same_routes == self.same_boxes

    def as_json(self) -> dict[str, Any]:
        """Lays the comparison out in JSON types."""
        return {
            "pairs": self.pairs,
            "same_routes": self.same_routes,
            "same_boxes": self.same_boxes,
            "same": self.same,
            "differences": list(self.differences),
            "not_promised": list(self.not_promised),
        }


@dataclass(frozen=True, eq=False)
class Replay:
    """What `replay` returns.

    Attributes:
        record: of the run made now. Its times are of this machine.
        comparison: with the answers in the recording.
        problem: what is wrong with the file, or "".
        furthest_behind_ms: at the recorded pace, how far a pair started after its time at most.
    """

    record: RunRecord
    comparison: Comparison
    problem: str
    furthest_behind_ms: float


class RecordedPace:
    """Starts pairs as far apart as they once arrived, or `speed` times as fast.

    A pair whose time has passed starts at once and counts as late; none is left out, so a machine that
    is too slow falls behind, and `furthest_behind_ns` says how far.

    Attributes:
        late_frames: pairs that started after their time because the one before was not done.
        missed_turns: always 0.
        furthest_behind_ns: the longest delay.
    """

    def __init__(self, arrival_ns: Callable[[], int], speed: float, clock: Clock) -> None:
        if not 0 < speed < float("inf"):
            raise ConfigError(f"speed: expected more than 0, found {speed}")
        self._arrival_ns, self._speed, self._clock = arrival_ns, speed, clock
        self._first: tuple[int, int] | None = None
        self.late_frames = self.missed_turns = self.furthest_behind_ns = 0

    def wait(self) -> None:
        """Returns when the pair that was read last is due."""
        now_ns, arrival_ns = self._clock.now_ns(), self._arrival_ns()
        if self._first is None or arrival_ns < self._first[1]:  # the first pair, of a pass
            self._first = now_ns, arrival_ns
            return
        due_ns = self._first[0] + round((arrival_ns - self._first[1]) / self._speed)
        if now_ns <= due_ns:
            self._clock.sleep_until_ns(due_ns)
            return
        self.late_frames += 1
        self.furthest_behind_ns = max(self.furthest_behind_ns, now_ns - due_ns)


def replay(
    path: str | Path,
    *,
    engine: str | None = None,
    device: str = "auto",
    registration: RegistrationArgument = None,
    threads: int | None = None,
    pace: str = "fast",
    speed: float = 1.0,
    loop: int = 1,
    on_result: Callable[[FramePair, FrameResult], None] | None = None,
    clock: Clock | None = None,
    ending: Ending | None = None,
) -> Replay:
    """Answers the pairs of a recording again and compares each answer with the recorded one.

    The gate's thresholds, forced routes, registrations and what the router remembered are those of the
    recording. A damaged part is passed over; the run goes on behind it with the memory recorded there.

    Arguments:
        path: the recording.
        engine: name or folder of a bundle; by default the recorded name.
        device, threads: see `load`.
        registration: instead of the recorded ones, see `open_source`; equal answers are then not promised.
        pace: "fast" for back to back, "recorded" for the arrival times of the recording.
        speed: with "recorded", so many times as fast.
        loop: number of passes, for a load test.
        on_result: called with each pair and its result, outside all timing.
        clock: that of the run; the machine's by default.
        ending: with one, a signal or an error ends the replay, with what was compared until then.

    Raises:
        ConfigError, SourceError, EngineError: the recording or the engine cannot be used.
    """
    if pace not in ("fast", "recorded"):
        raise ConfigError(f"pace: expected fast or recorded, found {pace!r}")
    if loop < 1:
        raise ConfigError(f"loop: expected 1 pass or more, found {loop}")
    clock = clock or MonotonicClock()
    with _opened(path, loop, registration) as source:
        facts = source.facts
        with _load(engine, facts, device=device, threads=threads, clock=clock) as detector:
            judge = _Judge(source, detector, registered_anew=registration is not None)
            arrivals = RecordedPace(lambda: _current(source).arrival_ns, speed, clock)
            record = record_run(
                detector,
                source,
                RunPlan(on_bad="skip", force=judge.force),
                asked_engine=engine or facts.engine,
                asked_device=device,
                clock=clock,
                on_result=on_result,
                observers=(judge,),
                pace=arrivals if pace == "recorded" else None,
                ending=ending,
            )
            if not judge.pairs:
                raise SourceError(f"{path}: no whole pair in it. {source.problem}")
            return Replay(record, judge.comparison(), source.problem, arrivals.furthest_behind_ns / 1e6)


def _opened(path: str | Path, loop: int, registration: RegistrationArgument) -> RecordedSource:
    text = str(path)
    for special in "%?&":  # the few characters that mean something in a source's URI
        text = text.replace(special, f"%{ord(special):02X}")
    source = open_source(f"mcap:{text}", registration=registration, on_bad="skip", loop=loop)
    assert isinstance(source, RecordedSource)
    return source


def _load(engine: str | None, facts: RecordingFacts, **how: Any) -> Detector:
    gate = dict(facts.gate) if facts.gate else None
    try:
        return load(engine or facts.engine, gate=gate, **how)
    except ConfigError as error:
        if engine is not None:
            raise
        raise ConfigError(f"the engine of the recording: {error} Name its folder: --engine FOLDER") from None


def _current(source: RecordedSource) -> RecordedPair:
    assert source.current is not None
    return source.current


class _Judge:
    """Gives the detector the recorded memory where the sequence begins or has a gap, and compares."""

    def __init__(self, source: RecordedSource, detector: Detector, registered_anew: bool) -> None:
        self._source, self._detector, self._registered_anew = source, detector, registered_anew
        self._last = -1
        self.pairs = self._routes = self._boxes = 0
        self._differences: list[str] = []
        self._unseen = 0

    def force(self, pair: FramePair) -> Route | None:
        return _current(self._source).forced

    def arrived(self, pair: FramePair) -> None:
        entry = _current(self._source)
        if entry.sequence != self._last + 1:
            self._detector.resume(entry.memory)
        self._last = entry.sequence

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        entry = _current(self._source)
        then = entry.result
        self.pairs += 1
        self._unseen += not entry.seen
        if then is None:
            self._differ(pair.key, f"was not answered ({entry.unanswered}), now {_words(result)}")
            return
        if (then.route, then.reason) == (result.route, result.reason):
            self._routes += 1
        if _same_boxes(then, result):
            self._boxes += 1
            if (then.route, then.reason) != (result.route, result.reason):
                self._differ(pair.key, f"was {_words(then)}, now {_words(result)}")
        else:
            self._differ(
                pair.key, f"was {_words(then)}: {then.detections}; now {_words(result)}: {result.detections}"
            )

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        if pair is None:
            return  # a damaged part of the file
        self.pairs += 1
        if _current(self._source).result is None:
            self._routes += 1
            self._boxes += 1
        else:
            self._differ(key, f"was answered, now not: {why}")

    def comparison(self) -> Comparison:
        return Comparison(
            self.pairs, self._routes, self._boxes, tuple(self._differences), tuple(self._not_promised())
        )

    def _not_promised(self) -> Iterator[str]:
        facts, detector = self._source.facts, self._detector
        bundle = detector.bundle
        if facts.bundle_sha256 != bundle.sha256:
            yield (
                f"another engine: recorded with {facts.engine} {facts.engine_version} "
                f"({facts.bundle_sha256[:12]}), replayed with {bundle.manifest.name} "
                f"{bundle.manifest.version} ({bundle.sha256[:12]})"
            )
        for name, then, now in (
            ("provider", facts.provider, detector.choice.provider),
            ("precision", facts.precision, detector.choice.precision),
        ):
            if then != now:
                yield f"another {name}: recorded with {then}, replayed with {now}"
        if self._registered_anew:
            yield "another registration: the one given, not the recorded ones"
        if self._unseen:
            yield (
                f"RGB is lossy: {self._unseen} of {self.pairs} pairs hold a JPEG of what the detector saw, "
                "not what it saw"
            )
        import cv2

        if facts.rgb == "jpeg" and facts.opencv != cv2.__version__:
            yield f"another JPEG decoder: recorded with OpenCV {facts.opencv}, now {cv2.__version__}"

    def _differ(self, key: str, how: str) -> None:
        if len(self._differences) < _KEPT_DIFFERENCES:
            self._differences.append(f"{key}: {how}")


def _words(result: FrameResult) -> str:
    return f"{result.route.value} ({result.reason.value})"


def _same_boxes(then: FrameResult, now: FrameResult) -> bool:
    return (
        all(
            np.array_equal(getattr(then.detections, name), getattr(now.detections, name))
            for name in ("xyxy", "scores", "class_ids")
        )
        and then.detections.temperatures == now.detections.temperatures
    )
