"""Live demo: watch a source, see boxes, temperatures and the route of every frame.

    python apps/camera_demo.py                                     the shipped clip, for ever
    python apps/camera_demo.py 'pairs:site?thermal=ir16' --out demo.avi

Shows a window where there is a display (Esc or q ends it); elsewhere, or with --out, it writes a video
or a folder of pictures. Ctrl-C ends it at any time; what was written until then stays whole.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import cv2

import edge_sdk
from edge_sdk.errors import EdgeSdkError, SourceError

TITLE = "edge-sdk (q ends)"
UNSEEN_FRAMES = 100  # without a display a demo ends by itself


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", nargs="?", default="clip:substation", help="any source URI")
    parser.add_argument("--engine", default="substation-rgbt", help="bundle name or folder")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or tensorrt")
    parser.add_argument("--out", help="a folder, or a .mp4 or .avi file, instead of a window")
    parser.add_argument("--frames", type=int, help="end after so many frames")
    parser.add_argument("--loop", type=int, default=0, help="passes over the source; 0: for ever")
    options = parser.parse_args()
    try:
        watch(options)
    except EdgeSdkError as error:
        raise SystemExit(f"error: {error}") from None


def watch(options: argparse.Namespace) -> None:
    with (
        edge_sdk.load(options.engine, device=options.device) as detector,
        edge_sdk.open_source(options.source, on_bad="skip", loop=options.loop) as source,
        Screen(options.out) as screen,
    ):
        print(f"{options.source} -> {screen.where}. Ctrl-C ends.")
        frames = options.frames or (None if screen.is_window else UNSEEN_FRAMES)
        route, shown = None, 0
        try:
            for pair in source:
                try:
                    result = detector(pair)
                except SourceError as error:  # neither camera usable: say so, wait for the next pair
                    print(f"{pair.key}: {error}")
                    continue
                if result.route is not route:
                    route = result.route
                    print(f"{pair.key}: {route.value}, because {result.reason.value}: {result.detections}")
                picture = edge_sdk.annotate(pair, result, detector.bundle.manifest.registration)
                shown += 1
                if not screen.show(pair.key, picture) or shown == frames:
                    break
        except KeyboardInterrupt:
            pass
        print(detector.stats())
        print(f"{shown} frames shown, {source.skipped_count} bad ones skipped")


class Screen:
    """A window where there is a display, else a file."""

    def __init__(self, out: str | None) -> None:
        self.is_window = out is None and open_window()
        self._writer = None if self.is_window else edge_sdk.FrameWriter(out or "camera-demo.avi")
        self.where = "a window" if self._writer is None else str(self._writer.path)

    def show(self, key: str, picture: Any) -> bool:
        """Shows one picture; returns False when the viewer wants to end."""
        if self._writer is not None:
            self._writer.write(key, picture)
            return True
        cv2.imshow(TITLE, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        closed = cv2.waitKey(1) & 0xFF in (27, ord("q"))
        return not closed and cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        end: Callable[[], None] = self._writer.close if self._writer else cv2.destroyAllWindows
        end()


def open_window() -> bool:
    """Opens the window; False without a display, or where OpenCV was built without windows."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        cv2.namedWindow(TITLE, cv2.WINDOW_NORMAL)
    except cv2.error:
        return False
    return True


if __name__ == "__main__":
    main()
