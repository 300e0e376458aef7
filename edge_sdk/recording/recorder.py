"""Records a run while it goes on, on a thread of its own."""

from __future__ import annotations

import json
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import cv2

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, DeviceError
from edge_sdk.frames import FramePair, RgbFrame
from edge_sdk.measurements import FrameResult
from edge_sdk.recording.layout import VERSION, pair_to_json
from edge_sdk.recording.writer import RecordingPlan, SegmentedFile, Wrote, facts_text, limit_bytes
from edge_sdk.routing import RouterMemory

__all__ = ["RecordingState", "RunRecording"]

_QUEUED_PAIRS = 8
_PATIENCE_S = 0.5
_SYNC_NS = 1_000_000_000
"""A power cut costs at most about this long of a recording; a full disk is tried again as often."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordingState:
    """How a recording stands.

    Attributes:
        paths: its files, oldest first; those that a ring removed are not among them.
        pairs: pairs in these files.
        nbytes: size of the files.
        left_out: pairs left out because the disk was behind (`when_behind="drop"`) or full, or too small.
        ended: why no more is written: "" while it goes on, else "closed", "full: ..." or an error's text.
        removed: pairs that a ring removed with its oldest files.
        held: why nothing is written at present: the disk is full; "" where all is well. It is tried again.
    """

    paths: tuple[Path, ...]
    pairs: int
    nbytes: int
    left_out: int
    ended: str
    removed: int = 0
    held: str = ""

    @property
    def problem(self) -> str:
        """What a reader of the recording must know, in words; "" where it holds all that it should."""
        left_out = f"{self.left_out} pairs left out" if self.left_out else ""
        held = f"nothing is written now: {self.held}" if self.held else ""
        ended = "" if self.ended in ("", "closed") else f"ended early, {self.ended}"
        return "; ".join(filter(None, (left_out, held, ended)))

    def __str__(self) -> str:
        names = ", ".join(str(path) for path in self.paths) or "no file"
        removed = f" ({self.removed} older ones made room)" if self.removed else ""
        problem = f"; {self.problem}" if self.problem else ""
        return f"{names}: {self.pairs} pairs{removed}, {self.nbytes / 1e6:.1f} MB{problem}"


@dataclass(frozen=True, eq=False)
class _Entry:
    sequence: int
    arrival_ns: int
    pair: FramePair
    memory: RouterMemory
    result: FrameResult | None
    why: str
    jpeg: bytes | None


class RunRecording(ClosedByWith):
    """Records each pair of a run: an observer for `run_source` and `record_run`.

    The run's thread hands a pair over; another thread writes it. A disk that fails ends the recording,
    never the run: `state.ended` says so. On a full one pairs are left out and counted until there is room
    again; the log and `state.held` say so.

    Arguments:
        plan: where to and how much.
        facts: of engine, gate and source, for the reader; see `Recording.facts`.
        memory: gives what the router remembers (`lambda: detector.memory`).
        jpeg_of: gives the JPEG that a frame was decoded from (`SeenThroughJpeg.jpeg_of`); without one
            a JPEG recording holds other pixels than the detector saw, and says so.
        clock: that arrival times are read from.
        begins_run: a limit that the first pair shows to be too small is an error then; in the middle of a
            run it ends the recording.

    Raises:
        ConfigError, DeviceError: the file exists, or cannot be made. `arrived` raises `ConfigError`, too,
            for the first pair of a run; see `begins_run`.
    """

    def __init__(
        self,
        plan: RecordingPlan,
        facts: Mapping[str, Any],
        memory: Callable[[], RouterMemory],
        *,
        jpeg_of: Callable[[RgbFrame], bytes | None] | None = None,
        clock: Clock | None = None,
        begins_run: bool = True,
    ) -> None:
        self._begins_run = begins_run
        self._plan, self._memory, self._jpeg_of = plan, memory, jpeg_of or (lambda frame: None)
        self._clock = clock or MonotonicClock()
        self._start_ns, self._start_unix_ns = self._clock.now_ns(), time.time_ns()
        self._file = SegmentedFile(
            _file_path(plan.path),
            facts_text(
                {
                    "version": VERSION,
                    "rgb": plan.rgb,
                    "opencv": cv2.__version__,
                    "started_unix_ns": self._start_unix_ns,
                    **facts,
                }
            ),
            limit_bytes=limit_bytes(plan),
            ring=plan.when_full == "ring",
            max_age_s=plan.max_age_s,
            patient=plan.when_behind == "drop",
        )
        self._sequence = self._left_out = self._not_taken = 0
        self._sized = self._told_size = False
        self._told = ""
        self._ended = ""
        self._nbytes = self._file.nbytes
        self._now: tuple[int, RouterMemory] | None = None
        self._queue: queue.Queue[_Entry | None] = queue.Queue(_QUEUED_PAIRS)
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._write_all, name="edge-sdk recording", daemon=True)
        self._thread.start()

    @property
    def state(self) -> RecordingState:
        """How the recording stands now."""
        file = self._file
        left_out = self._left_out + self._not_taken + file.lost
        held = "" if self._ended else file.held
        return RecordingState(file.paths, file.pairs, self._nbytes, left_out, self._ended, file.removed, held)

    @property
    def conditions(self) -> list[str]:
        """What the record of the run must say of its recording."""
        state = self.state
        name = state.paths[-1] if state.paths else self._plan.path
        return (
            [f"The recording {name} does not hold the whole run: {state.problem}."] if state.problem else []
        )

    def arrived(self, pair: FramePair) -> None:
        """See `Observer.arrived`.

        Raises:
            ConfigError: the limit is too small for pairs of this size.
        """
        if not self._sized:
            self._sized = True
            self._refuse_too_small(pair)
        self._now = self._clock.now_ns(), self._memory()

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """See `Observer.answered`."""
        self._take(pair, result, "")

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """See `Observer.unanswered`. A pair that could not be read leaves a gap in the sequence."""
        if pair is None:
            self._sequence += 1
        else:
            self._take(pair, None, why)

    def close(self) -> None:
        """Writes what is waiting and finishes the file. A second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _refuse_too_small(self, pair: FramePair) -> None:
        rgb = pair.rgb
        jpeg = self._jpeg_of(rgb) if rgb is not None and self._plan.rgb == "jpeg" else None
        nbytes = len(jpeg) if jpeg is not None else 0 if rgb is None else rgb.image.nbytes
        nbytes += 0 if pair.thermal is None else pair.thermal.image.nbytes
        least_mib = math.ceil(self._file.least_bytes(nbytes) / (1 << 20))
        if least_mib <= self._plan.limit_mib:
            return
        files = "two files of one pair each" if self._plan.when_full == "ring" else "one pair"
        text = (
            f"recording limit: {self._plan.limit_mib} MiB hold not even {files}, a pair being "
            f"{nbytes / (1 << 20):.1f} MiB; expected {least_mib} MiB or more"
        )
        if self._begins_run:
            raise ConfigError(text)
        self._ended = text

    def _take(self, pair: FramePair, result: FrameResult | None, why: str) -> None:
        self._sequence += 1
        now, self._now = self._now, None
        if now is None or self._ended or self._closed:
            return  # begun in the middle of this pair, or over
        jpeg = self._jpeg_of(pair.rgb) if pair.rgb is not None and self._plan.rgb == "jpeg" else None
        entry = _Entry(self._sequence, now[0] - self._start_ns, pair, now[1], result, why, jpeg)
        while self._plan.when_behind == "wait" and self._thread.is_alive():
            try:
                self._queue.put(entry, timeout=_PATIENCE_S)
            except queue.Full:
                continue
            return
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            self._left_out += 1

    def _write_all(self) -> None:
        synced_ns = self._clock.now_ns()
        while True:
            try:
                entry = self._queue.get(timeout=_SYNC_NS / 1e9)
            except queue.Empty:
                entry = None
                if not self._closed:
                    self._try(self._file.sync)
                    self._tell()
                    continue
            if entry is None:
                break
            if not self._ended:
                self._try(lambda entry=entry: self._write(entry))  # type: ignore[misc]
                self._tell()
            self._queue.task_done()
            now_ns = self._clock.now_ns()
            if now_ns - synced_ns >= _SYNC_NS and not self._ended:
                self._try(self._file.sync)
                synced_ns = now_ns
        try:
            self._file.close()
        except DeviceError as error:
            self._ended = self._ended or str(error)
        held = f"the disk is full ({self._file.held}), so the file lacks its end" if self._file.held else ""
        self._ended = self._ended or held or "closed"
        self._nbytes = sum(path.stat().st_size for path in self._file.paths if path.exists())

    def _tell(self) -> None:
        """Says in the log that the disk is full, and that it is not any more."""
        held = self._file.held
        if held and not self._told:
            _log.warning("recording %s: %s; pairs are left out until there is room", self._plan.path, held)
        elif self._told and not held:
            _log.warning("recording %s: goes on, %d pairs were left out", self._plan.path, self._not_taken)
        self._told = held

    def _try(self, act: Callable[[], None]) -> None:
        if self._ended:
            return
        try:
            act()
            self._nbytes = self._file.nbytes
        except DeviceError as error:
            self._ended = str(error)

    def _write(self, entry: _Entry) -> None:
        rgb, thermal = entry.pair.rgb, entry.pair.thermal
        as_jpeg = self._plan.rgb == "jpeg"
        rgb_bytes = None if rgb is None else entry.jpeg or self._encode(rgb)
        described = pair_to_json(
            entry.pair,
            entry.arrival_ns,
            entry.memory,
            entry.result,
            entry.why,
            jpeg=as_jpeg,
            seen=not as_jpeg or entry.jpeg is not None,
        )
        wrote = self._file.write(
            entry.sequence,
            self._start_unix_ns + entry.arrival_ns,
            rgb_bytes,
            None if thermal is None else thermal.image.astype("<u2", copy=False).tobytes(),
            json.dumps(described, allow_nan=False).encode(),
        )
        if wrote is Wrote.LIMIT:
            self._ended = f"full: the limit of {self._plan.limit_mib} MiB is reached"
        elif wrote is not Wrote.TAKEN:
            self._not_taken += 1
        if wrote is Wrote.TOO_LARGE and not self._told_size:
            self._told_size = True
            _log.warning("recording %s: pair %s left out: %s", self._plan.path, entry.pair.key, wrote.value)

    def _encode(self, rgb: RgbFrame) -> bytes:
        if self._plan.rgb == "lossless":
            return rgb.image.tobytes()
        bgr = cv2.cvtColor(rgb.image, cv2.COLOR_RGB2BGR)
        return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, self._plan.jpeg_quality])[1].tobytes()


def _file_path(path: Path) -> Path:
    if path.is_dir() or not path.suffix:
        return path / f"run-{datetime.now():%Y%m%d-%H%M%S-%f}.mcap"
    return path
