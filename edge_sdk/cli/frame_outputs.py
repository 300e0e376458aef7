"""What `edge-sdk run` writes frame by frame: JSON lines, pictures and videos, each ending on its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from edge_sdk.cli.outputs import Results
from edge_sdk.cli.reports import is_html
from edge_sdk.cli.streams import STDOUT
from edge_sdk.errors import DeviceError
from edge_sdk.saving import LineFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edge_sdk.frames import FramePair
    from edge_sdk.measurements import FrameResult
    from edge_sdk.report.frame_writer import FrameWriter
    from edge_sdk.sources import Source

__all__ = ["FrameOutputs", "frame_line", "video_rate"]


def frame_line(result: FrameResult) -> dict[str, Any]:
    """Makes the JSON line of one frame: times in milliseconds, boxes in RGB pixels, kelvin to a hundredth."""
    return {
        "key": result.key,
        "route": result.route.value,
        "reason": result.reason.value,
        "thermal_consulted": result.thermal_consulted,
        "detections": [
            {
                "class": found.class_name,
                "score": round(found.score, 4),
                "box_xyxy": [round(edge, 2) for edge in found.box_xyxy],
                "temperatures": None if found.temperatures is None else _rounded(vars(found.temperatures), 2),
            }
            for found in result.detections
        ],
        "signals": _rounded(result.signals.as_json(), 4),
        "stage_ms": _rounded(result.stage_ms, 4),
        "graph_ms": {graph: round(elapsed / 1e6, 4) for graph, elapsed in result.engine_ns.items()},
        "gpu_ms": {graph: _rounded(times, 4) for graph, times in result.gpu_ms.items()},
        "engine_ms": round(result.engine_ms, 4),
        "notes": list(result.notes),
    }


def video_rate(source: Source, pace_hz: float | None) -> float | None:
    """Returns the frame rate that a video of this run is to have; None for that of the frames' own times.

    The source's own rate comes first: a clip of 30 Hz is played at 30 Hz, however fast it was worked through.
    """
    fps = source.describe().get("fps")
    if isinstance(fps, (int, float)) and fps > 0:
        return float(fps)
    return None if getattr(source, "live", False) else pace_hz


class FrameOutputs:
    """Writes every frame to what was asked for; an output that fails ends, is named, and stops no other.

    Arguments:
        results: told what ended.
        frames_json: a file of JSON lines, or standard output.
        out, video: a folder or a video each.
        report: the report that shows the first picture of each reason: beside it, or within it for HTML.
        fps: of videos; None for that of the frames' times.
    """

    def __init__(
        self,
        results: Results,
        *,
        frames_json: Path | None,
        out: Path | None,
        video: Path | None,
        report: Path | None,
        fps: float | None,
    ) -> None:
        self._results = results
        self._lines = None if frames_json in (None, STDOUT) else LineFile(frames_json)
        self._to_stdout = frames_json == STDOUT
        self._writers: list[FrameWriter] = []
        self._highlights: FrameWriter | None = None
        self._first: dict[str, tuple[str, Path]] = {}
        self._scratch: TemporaryDirectory[str] | None = None
        wanted = [place for place in (out, video) if place is not None]
        if wanted or report is not None:
            from edge_sdk.report.draw import annotate
            from edge_sdk.report.frame_writer import FrameWriter

            self._annotate = annotate
            self._writers = [FrameWriter(place, fps=fps) for place in wanted]
            if report is not None:
                self._highlights = FrameWriter(self._picture_folder(report))

    def add(self, pair: FramePair, result: FrameResult) -> None:
        """Writes one frame."""
        if self._to_stdout:
            sys.stdout.write(json.dumps(frame_line(result)) + "\n")
            sys.stdout.flush()
        if self._lines is not None and not self._guarded(self._write_line, result):
            self._lines = None
        new = self._highlights is not None and result.reason.value not in self._first
        if not self._writers and not new:
            return
        picture = self._annotate(pair, result)
        at_ns = _taken_ns(pair)
        for writer in list(self._writers):
            if not self._guarded(writer.write, result.key, picture, at_ns):
                self._writers.remove(writer)
                self._guarded(writer.close)
        if new and not self._guarded(self._keep_first, result, picture):
            self._highlights = None

    def close(self) -> None:
        """Finishes every output."""
        if self._lines is not None:
            self._lines.close()
        for writer in self._writers:
            self._guarded(writer.close)
        self._writers = []

    def discard(self) -> None:
        """Removes pictures that nobody needs any more, as the report holds them."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def highlights(self) -> list[tuple[str, Path]]:
        """Returns the title and the file of the first frame of each reason."""
        return list(self._first.values())

    def _picture_folder(self, report: Path) -> Path:
        if is_html(report):
            self._scratch = TemporaryDirectory(prefix="edge-sdk-pictures-")
            return Path(self._scratch.name)
        return report.with_name(f"{report.stem}-pictures")

    def _write_line(self, result: FrameResult) -> None:
        assert self._lines is not None
        self._lines.write(json.dumps(frame_line(result)))

    def _keep_first(self, result: FrameResult, picture: NDArray[np.uint8]) -> None:
        assert self._highlights is not None
        path = self._highlights.write(f"{result.route.value}-{result.reason.value}", picture)
        title = f"{result.route.value}, because {result.reason.value}: frame {result.key}"
        self._first[result.reason.value] = (title, path)

    def _guarded(self, write: Callable[..., object], *arguments: object) -> bool:
        try:
            write(*arguments)
        except DeviceError as error:
            self._results.ended(f"this output ended, the run went on: {error}")
            return False
        return True


def _taken_ns(pair: FramePair) -> int | None:
    for frame in (pair.rgb, pair.thermal):
        if frame is not None and frame.timestamp_ns is not None:
            return frame.timestamp_ns
    return None


def _rounded(values: Any, digits: int) -> dict[str, Any]:
    return {
        name: round(value, digits) if isinstance(value, float) else value for name, value in values.items()
    }
