"""A headless service: watches a source for ever, records it, logs findings, tells systemd it is alive.

    python apps/service/edge_service.py --state /var/lib/edge-sdk      what edge-sdk.service runs

Everything it writes lies under --state: `recordings/` (rings of MCAP files of bounded size, each start its
own, the oldest start removed when there are more than --keep) and `findings.jsonl` (a line a finding, on
disk before the next pair is answered). Both stay readable through kill -9 and a power cut: a recording
loses its last second at most, the log its last line. When a camera hangs, the watchdog's sign of life stops
and systemd starts the service anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import IO

import edge_sdk
from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import EdgeSdkError
from edge_sdk.publish.systemd import ServiceNotifier
from edge_sdk.recording import RecordingPlan, RunRecording
from edge_sdk.runs import open_recording
from edge_sdk.scheduler import Pace

LOG_LIMIT_BYTES = 64 * 1024 * 1024
STATUS_EVERY_NS = 10_000_000_000


class Findings:
    """A log of findings that survives kill -9: whole lines, on disk at once, of bounded size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._open()

    def arrived(self, pair: edge_sdk.FramePair) -> None:
        """Nothing is found yet."""

    def answered(self, pair: edge_sdk.FramePair, result: edge_sdk.FrameResult) -> None:
        """Writes a line a finding."""
        if not len(result.detections):
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
            self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._file.tell() > LOG_LIMIT_BYTES:
            self._file.close()
            self._path.replace(self._path.with_suffix(".old.jsonl"))
            self._file = self._open()

    def unanswered(self, pair: edge_sdk.FramePair | None, key: str, why: str) -> None:
        """Says so where the service's log goes."""
        print(f"{key}: no answer: {why}", flush=True)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _open(self) -> IO[bytes]:
        if self._path.exists():
            cut_broken_line(self._path)
        return self._path.open("ab")


class SignOfLife:
    """Tells systemd that pairs still come, and what was answered last."""

    def __init__(self, notify: ServiceNotifier, clock: Clock, recording: RunRecording) -> None:
        self._notify, self._clock, self._recording = notify, clock, recording
        self._told_ns = 0

    def arrived(self, pair: edge_sdk.FramePair) -> None:
        """Gives a sign where one is due."""
        self._notify.alive(self._clock.now_ns())

    def answered(self, pair: edge_sdk.FramePair, result: edge_sdk.FrameResult) -> None:
        """Sets the status line now and then."""
        if self._clock.now_ns() - self._told_ns > STATUS_EVERY_NS:
            self._told_ns = self._clock.now_ns()
            self._notify.status(f"{result.route.value}, {result.reason.value}; {self._recording.state}")

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", default="clip:substation", help="any source URI")
    parser.add_argument("--engine", default="substation-rgbt", help="bundle name or folder")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or tensorrt")
    parser.add_argument("--state", type=Path, required=True, help="folder for everything that is written")
    parser.add_argument("--pace-hz", type=float, default=10.0, help="frames started a second")
    parser.add_argument("--frames", type=int, help="end after so many frames; by default never")
    parser.add_argument("--limit-mib", type=int, default=1024, help="size of one start's recordings")
    parser.add_argument("--keep", type=int, default=3, help="starts whose recordings are kept")
    options = parser.parse_args()
    try:
        serve(options)
    except EdgeSdkError as error:
        raise SystemExit(f"error: {error}") from None


def serve(options: argparse.Namespace) -> None:
    notify, clock = ServiceNotifier(), MonotonicClock()
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        ending = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    folder = options.state / "recordings"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(path for path in folder.iterdir() if path.is_dir())[: -options.keep + 1 or None]:
        shutil.rmtree(old)
    plan = RecordingPlan(
        folder / f"{datetime.now():%Y%m%d-%H%M%S-%f}" / "run.mcap",
        limit_mib=options.limit_mib,
        when_full="ring",
        when_behind="drop",
    )
    findings = Findings(options.state / "findings.jsonl")
    with (
        edge_sdk.load(options.engine, device=options.device) as detector,
        edge_sdk.open_source(options.source, on_bad="skip", loop=0) as source,
        open_recording(detector, source, plan, asked_device=options.device) as recording,
    ):
        notify.ready(f"watching {source.uri}")
        answered = edge_sdk.run_source(
            detector,
            takewhile(lambda pair: not ending, source),
            pace=Pace(options.pace_hz, clock),
            frames=options.frames,
            on_bad="skip",
            observers=[recording, findings, SignOfLife(notify, clock, recording)],
        )
        notify.stopping()
    findings.close()
    print(f"{answered} pairs answered. Recording: {recording.state}")


if __name__ == "__main__":
    main()
