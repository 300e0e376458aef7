"""The loop over a source: pair after pair, until its end or until something else ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Protocol

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.pipeline import Detector
from edge_sdk.sources.base import ReadsInto

__all__ = ["Force", "Observer", "Pacer", "Recorder", "leaves_out_pauses", "run_source"]

_Context = AbstractContextManager[None]

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
    """Sees every pair of a run, answered or not, on the run's own thread and in its own time: be quick.

    Where it has `conditions`, sentences that a reader of the run's record must know, they go there.
    """

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
    ending: Ending | None = None,
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
        on_result: called with each pair and its result. The run's clock stands still meanwhile, but not where
            pairs come at a pace (`pace`, a live camera): that has the same clock as the run.
        observers: told of every pair; what they take counts as the run's own time.
        ending: ends the run on a signal, with what was answered until then; `ending.cut` says that it did.

    Returns: the number of pairs answered.

    Raises:
        SourceError: a pair cannot be read or answered and `on_bad` is "raise".
        ConfigError: `on_bad` is neither.
    """
    if on_bad not in ("raise", "skip"):
        raise ConfigError(f"on_bad: expected 'raise' or 'skip', found {on_bad!r}")
    clock = clock or MonotonicClock()
    waiting: _Context = nullcontext() if ending is None else ending.waiting
    answers = _Answers(
        detector,
        clock,
        recorder=recorder,
        skips=on_bad == "skip",
        force=force,
        on_result=on_result,
        observers=observers,
        stands_still=leaves_out_pauses(source, pace),
        working=nullcontext() if ending is None else ending.working,
    )
    first_ns: int | None = None
    read = _reader(detector, source, keeps_pairs=on_result is not None or bool(observers))
    try:
        while frames is None or answers.count < frames:
            running_ns = 0 if first_ns is None else answers.now_ns() - first_ns
            if duration_ns is not None and first_ns is not None and running_ns >= duration_ns:
                break
            answers.refuse_fruitless()
            try:
                with waiting:
                    pair = read()
            except FrameError as error:
                answers.miss(None, error)
                continue
            if pair is None:
                break
            if pace is not None:
                with waiting:
                    pace.wait()
            for observer in observers:
                observer.arrived(pair)
            start_ns = answers.now_ns()
            first_ns = start_ns if first_ns is None else first_ns
            if duration_ns is not None and start_ns - first_ns >= duration_ns > 0:
                break
            answers.take(pair, start_ns)
    except StoppedBySignal:
        if ending is None:
            raise
        ending.cut = True
    return answers.count


class _Answers:
    """Answers one pair after the other, and tells whoever is to know."""

    def __init__(
        self,
        detector: Detector,
        clock: Clock,
        *,
        recorder: Recorder | None,
        skips: bool,
        force: Force,
        on_result: Callable[[FramePair, FrameResult], None] | None,
        observers: Sequence[Observer],
        stands_still: bool,
        working: _Context,
    ) -> None:
        self._detector, self._clock, self._recorder, self._skips = detector, clock, recorder, skips
        self._force, self._on_result, self._observers = force, on_result, observers
        self._stands_still, self._working = stands_still, working
        self._fruitless = self._paused_ns = 0
        self.count = 0

    def now_ns(self) -> int:
        """The run's clock, which may stand still in `on_result`."""
        return self._clock.now_ns() - self._paused_ns

    def take(self, pair: FramePair, start_ns: int) -> None:
        """Answers a pair, or counts it as lost."""
        force = self._force
        try:
            with self._working:
                result = self._detector(pair, force=force(pair) if callable(force) else force)
        except SourceError as error:
            self.miss(pair, error)
            return
        self.count, self._fruitless = self.count + 1, 0
        if self._recorder is not None:
            self._recorder.add(result, start_ns)
        for observer in self._observers:
            observer.answered(pair, result)
        if self._on_result is None:
            return
        before_ns = self._clock.now_ns()
        with self._working:
            self._on_result(pair, result)
        self._paused_ns += self._clock.now_ns() - before_ns if self._stands_still else 0

    def miss(self, pair: FramePair | None, error: SourceError) -> None:
        """Counts a pair that could not be read (then there is none) or answered, or raises its error."""
        key = pair.key if pair is not None else error.key if isinstance(error, FrameError) else ""
        if pair is None and not self._skips:
            raise error
        for observer in self._observers:
            observer.unanswered(pair, key, str(error))
        if not self._skips:
            raise error
        if self._recorder is not None:
            self._recorder.drop(key, str(error))
        self._fruitless += 1

    def refuse_fruitless(self) -> None:
        """Ends a run of an endless source that gives nothing."""
        if self._fruitless >= _FRUITLESS_PAIRS:
            raise SourceError(f"{self._fruitless} pairs in a row gave no answer; the run was ended")


def leaves_out_pauses(source: Iterable[FramePair], pace: Pacer | None) -> bool:
    """Whether the run's clock may stand still in `on_result`: not where something else keeps time."""
    return pace is None and not getattr(source, "live", False)


def _reader(
    detector: Detector, source: Iterable[FramePair], keeps_pairs: bool
) -> Callable[[], FramePair | None]:
    """Reads straight into the engine's input where a source can, and nobody keeps a pair beyond its turn."""
    if isinstance(source, ReadsInto) and not keeps_pairs:
        iter(source)  # raises where the source is closed
        return partial(detector.read_from, source)
    return partial(next, iter(source), None)
