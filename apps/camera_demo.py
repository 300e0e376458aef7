"""Live demo: watch a source, see boxes, temperatures and the route of every frame, in a browser.

    python apps/camera_demo.py                                     the shipped clip, for ever
    python apps/camera_demo.py 'camera:?rgb=v4l2:///dev/video0&thermal=v4l2:///dev/video2'       two cameras
    python apps/camera_demo.py 'pairs:site?thermal=ir16'           your own frames
    python apps/camera_demo.py --serve 0.0.0.0:8080                for other machines too; prints a token
    python apps/camera_demo.py --window                            a window instead, where a display is
    python apps/camera_demo.py --out demo.avi                      a video or a folder of pictures instead

Ctrl-C or SIGTERM (in the window Esc or q) end it at any time; what was written until then stays whole.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import cv2

import edge_sdk
from edge_sdk.cli.streams import safe_streams
from edge_sdk.clock import MonotonicClock
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import EdgeSdkError
from edge_sdk.live.guard import page_token, parse_address
from edge_sdk.live.session import LiveOptions, LiveSession
from edge_sdk.recording import RecordingPlan
from edge_sdk.scheduler import Pace
from edge_sdk.sla import load_sla

TITLE = "edge-sdk (q ends)"
CLIP_HZ = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", nargs="?", default="clip:substation", help="any source URI")
    parser.add_argument("--engine", default="substation-rgbt", help="bundle name or folder")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or tensorrt")
    parser.add_argument(
        "--registration", help="how heat lies on colour: a JSON file, same-view, centred or bundle"
    )
    parser.add_argument("--serve", default="127.0.0.1:8080", help="HOST:PORT of the page")
    parser.add_argument("--token", help="what viewers must know; others on this machine see it: use a file")
    parser.add_argument("--token-file", type=Path, help="holds the token; made if missing. Or EDGE_SDK_TOKEN")
    parser.add_argument("--sla", help="an SLA file: lamps on the page")
    parser.add_argument("--recordings", type=Path, default=Path("recordings"), help="for the record button")
    parser.add_argument("--window", action="store_true", help="a window instead of the page")
    parser.add_argument("--out", help="a folder, or a .mp4 or .avi file, instead of the page")
    parser.add_argument("--frames", type=int, help="end after so many frames")
    parser.add_argument(
        "--loop", type=int, help="passes over the source, 0 for ever; default: once for --out, else for ever"
    )
    parser.add_argument(
        "--pace-hz", type=float, help="frames a second; by default the clip's, or a camera's own"
    )
    options = parser.parse_args()
    safe_streams()  # `| head` ends nothing
    ending = Ending()
    try:
        with ending.listening():
            watch(options, ending)
    except StoppedBySignal as stopped:
        return 128 + stopped.number
    except EdgeSdkError as error:
        raise SystemExit(f"error: {error}") from None
    return 0


def watch(options: argparse.Namespace, ending: Ending) -> None:
    """Shows the source until it or the viewer ends; a signal is the way to end, and no error."""
    loop = options.loop
    if loop is None:
        loop = 1 if options.out and options.frames is None else 0
    if options.window and not open_window():
        raise SystemExit(
            "error: no display here, or an OpenCV without windows; leave --window out for the page"
        )
    sla = load_sla(options.sla) if options.sla else None
    pace_hz = options.pace_hz or (sla.run.pace_hz if sla else None)
    if pace_hz is None and sla is None and options.source.startswith("clip:") and not options.out:
        pace_hz = CLIP_HZ
    live_options = LiveOptions()
    if not (options.window or options.out):
        token = page_token(options.token, options.token_file)
        live_options = LiveOptions(
            serve=parse_address(options.serve),
            token=token.value if token else None,
            token_file=options.token_file,
            sla=sla,
            record_on_demand=RecordingPlan(options.recordings, when_behind="drop"),
            registration_file=Path("registration.json"),
        )
    with (
        edge_sdk.load(options.engine, device=options.device) as detector,
        edge_sdk.open_source(
            options.source, registration=options.registration, on_bad="skip", loop=loop
        ) as source,
        LiveSession(
            detector, source, live_options,
            asked_engine=options.engine, asked_device=options.device, pace_hz=pace_hz,
        ) as live,
        Screen(options.out, options.window) as screen,
        ending.running(),
    ):  # fmt: skip
        for line in live.lines() or [f"Writing {options.out}" if options.out else "Showing a window"]:
            print(f"{line}   (Ctrl-C ends)", flush=True)
        route = None

        def follow(pair: edge_sdk.FramePair, result: edge_sdk.FrameResult) -> None:
            nonlocal route
            if result.route is not route:
                route = result.route
                print(
                    f"{pair.key}: {route.value}, because {result.reason.value}: {result.detections}",
                    flush=True,
                )
            if screen.is_on and not screen.show(pair.key, edge_sdk.annotate(pair, result)):
                live.stop()

        shown = edge_sdk.run_source(
            detector,
            live.source,
            pace=Pace(pace_hz, MonotonicClock()),
            frames=options.frames,
            on_bad="skip",
            force=live.force,
            on_result=follow,
            observers=live.observers,
            ending=ending,
        )
        print(detector.stats())
        print(f"{shown} frames shown, {source.skipped_count} bad ones skipped")
    for line in live.last_lines():
        print(line)


class Screen:
    """A window, a file, or nothing."""

    def __init__(self, out: str | None, window: bool) -> None:
        self._window = window
        self._writer = edge_sdk.FrameWriter(out) if out else None
        self.is_on = window or self._writer is not None

    def show(self, key: str, picture: Any) -> bool:
        """Shows one picture; returns False when the viewer wants to end."""
        if self._writer is not None:
            self._writer.write(key, picture)
        if not self._window:
            return True
        cv2.imshow(TITLE, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        closed = cv2.waitKey(1) & 0xFF in (27, ord("q"))
        return not closed and cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._window:
            cv2.destroyAllWindows()


def open_window() -> bool:
    """Opens the window; False without a display, or where OpenCV was built without windows."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        cv2.namedWindow(TITLE, cv2.WINDOW_NORMAL)
    except cv2.error:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
