"""A headless service: watches a source for ever, records it, logs findings, tells systemd it is alive.

    python apps/service/edge_service.py --state /var/lib/edge-sdk      what edge-sdk.service runs

Everything it writes lies under --state: `recordings/run-NNN.mcap`, one ring over all starts, of at most
--limit-mib and, with --keep-days, of that age (starts that failed make room first, and no start removes
anything before it has recorded pairs itself), and `findings.jsonl` (a line a finding, on disk before the next
pair is answered). Both stay readable through kill -9 and a power cut: a recording loses its last second at
most, the log its last line. On a full disk the service goes on, counts what it cannot write, says so and
tries again. When a camera hangs, the watchdog's sign of life stops and systemd starts the service anew.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections import deque
from datetime import datetime, timezone
from pathlib import Path

import edge_sdk
from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import EdgeSdkError
from edge_sdk.publish.systemd import ServiceNotifier
from edge_sdk.recording import RecordingPlan, RunRecording
from edge_sdk.runs import open_recording
from edge_sdk.scheduler import Pace

LOG_LIMIT_BYTES = 64 * 1024 * 1024
MOST_WAITING = 10_000
STATUS_EVERY_NS = 10_000_000_000
FILES_PACE_HZ = 10.0
DAY_S = 86_400.0


class Findings:
    """A log of findings that survives kill -9: whole lines, on disk at once, of bounded size.

    On a full disk lines wait in memory, the oldest of more than `MOST_WAITING` are lost and counted.
    """

    def __init__(self, path: Path, limit_nbytes: int = LOG_LIMIT_BYTES) -> None:
        self._path, self._limit_nbytes = path, limit_nbytes
        self._waiting: deque[bytes] = deque()
        self.lost = 0
        self.problem = ""
        self._descriptor = self._open()

    def arrived(self, pair: edge_sdk.FramePair) -> None:
        """Nothing is found yet."""

    def answered(self, pair: edge_sdk.FramePair, result: edge_sdk.FrameResult) -> None:
        """Writes a line a finding, and what waits of earlier ones."""
        if not (len(result.detections) or self._waiting):
            return
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        for found in result.detections:
            heat = found.temperatures
            line = {
                "time": now,
                "key": pair.key,
                "route": result.route.value,
                "reason": result.reason.value,
                "class": found.class_name,
                "score": round(found.score, 4),
                "box_xyxy": [round(edge, 1) for edge in found.box_xyxy],
                "heat": None if heat is None else vars(heat),
            }
            self._waiting.append(json.dumps(line).encode() + b"\n")
        self._write()

    def unanswered(self, pair: edge_sdk.FramePair | None, key: str, why: str) -> None:
        """Says so where the service's log goes."""
        print(f"{key}: no answer: {why}", flush=True)

    def close(self) -> None:
        """Closes the file."""
        self._write()
        self.lost += len(self._waiting)
        os.close(self._descriptor)

    def __str__(self) -> str:
        lost = f"{self.lost} findings lost" if self.lost else ""
        waiting = f"{len(self._waiting)} findings wait" if self._waiting else ""
        return "; ".join(filter(None, (lost, waiting, self.problem)))

    def _write(self) -> None:
        """Writes what waits, line by line; a line that the disk took in part is taken back."""
        try:
            while self._waiting:
                whole = os.fstat(self._descriptor).st_size
                if os.write(self._descriptor, self._waiting[0]) < len(self._waiting[0]):
                    os.ftruncate(self._descriptor, whole)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._waiting.popleft()
            os.fsync(self._descriptor)
            if os.fstat(self._descriptor).st_size > self._limit_nbytes:
                self._path.replace(self._path.with_suffix(".old.jsonl"))
                os.close(self._descriptor)
                self._descriptor = self._open()
        except OSError as error:
            self._say(error.strerror or str(error))
        else:
            self._say("")
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.lost += 1

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            print(f"{self._path}: {problem or 'takes findings again'}", file=sys.stderr, flush=True)
        self.problem = problem

    def _open(self) -> int:
        if self._path.exists():
            cut_broken_line(self._path)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


class SignOfLife:
    """Tells systemd that pairs still come, and what was answered last."""

    def __init__(
        self, notify: ServiceNotifier, clock: Clock, recording: RunRecording, findings: Findings
    ) -> None:
        self._notify, self._clock, self._recording, self._findings = notify, clock, recording, findings
        self._told_ns = 0

    def arrived(self, pair: edge_sdk.FramePair) -> None:
        """Gives a sign where one is due."""
        self._notify.alive(self._clock.now_ns())

    def answered(self, pair: edge_sdk.FramePair, result: edge_sdk.FrameResult) -> None:
        """Sets the status line now and then."""
        if self._clock.now_ns() - self._told_ns > STATUS_EVERY_NS:
            self._told_ns = self._clock.now_ns()
            parts = (f"{result.route.value}, {result.reason.value}", self._recording.state, self._findings)
            self._notify.status("; ".join(filter(None, map(str, parts))))

    def unanswered(self, pair: edge_sdk.FramePair | None, key: str, why: str) -> None:
        """The log has it."""


def cut_broken_line(path: Path) -> None:
    """Removes the half line that a kill may have left at the end."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        tail = min(size, 1 << 16)
        file.seek(size - tail)
        whole = file.read(tail).rfind(b"\n") + 1
        file.truncate(size - tail + whole)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", default="clip:substation", help="any source URI, live cameras too")
    parser.add_argument("--engine", default="substation-rgbt", help="bundle name or folder")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or tensorrt")
    parser.add_argument("--state", type=Path, required=True, help="folder for everything that is written")
    parser.add_argument(
        "--pace-hz", type=float, help="frames started a second; default: a camera's own rate, 10 for files"
    )
    parser.add_argument("--frames", type=int, help="end after so many frames; by default never")
    parser.add_argument("--limit-mib", type=int, default=1024, help="size of all recordings together")
    parser.add_argument("--keep-days", type=float, help="age of the oldest recording; by default any")
    options = parser.parse_args()
    ending = Ending()
    try:
        with ending.listening():
            serve(options, ending)
    except StoppedBySignal as stopped:
        return 128 + stopped.number
    except EdgeSdkError as error:
        raise SystemExit(f"error: {error}") from None
    return 0


def serve(options: argparse.Namespace, ending: Ending) -> None:
    """Runs until a signal comes, which is how a service ends."""
    notify, clock = ServiceNotifier(), MonotonicClock()
    folder = options.state / "recordings"
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in sorted(path for path in folder.iterdir() if path.is_dir()):
        print(f"{earlier}: of an earlier version, kept and not counted; remove it by hand", flush=True)
    plan = RecordingPlan(
        folder / "run.mcap",
        limit_mib=options.limit_mib,
        when_full="ring",
        when_behind="drop",
        max_age_s=None if options.keep_days is None else options.keep_days * DAY_S,
    )
    findings = Findings(options.state / "findings.jsonl")
    with (
        edge_sdk.load(options.engine, device=options.device) as detector,
        edge_sdk.open_source(options.source, on_bad="skip", loop=0) as source,
        open_recording(detector, source, plan, asked_device=options.device) as recording,
    ):
        notify.ready(f"watching {source.uri}")
        pace_hz = options.pace_hz or (None if getattr(source, "live", False) else FILES_PACE_HZ)
        with ending.running():
            answered = edge_sdk.run_source(
                detector,
                source,
                pace=Pace(pace_hz, clock),
                frames=options.frames,
                on_bad="skip",
                observers=[recording, findings, SignOfLife(notify, clock, recording, findings)],
                ending=ending,
            )
        notify.stopping()
    findings.close()
    print(f"{answered} pairs answered. Recording: {recording.state}")
    if str(findings):
        print(f"Findings: {findings}")


if __name__ == "__main__":
    sys.exit(main())
