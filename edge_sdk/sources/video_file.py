"""A video file through OpenCV's FFmpeg: its frames and their times, how it is turned, whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import SourceError
from edge_sdk.opencv_files import opencv_name
from edge_sdk.picture_size import check_size
from edge_sdk.sources.matroska import count_blocks, is_matroska
from edge_sdk.sources.orientation import Turn

__all__ = ["VideoFile", "video_turn"]

_COUNT_TOLERANCE = 0.02
"""An index may count a frame or two that show nothing."""

_ATOMS = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")

_END_FRAMES = 3
"""A file whose last frame ends this many frame times before its stated end is whole."""


class VideoFile:
    """Reads a video from its start.

    Arguments:
        path: the file.
        advice: what to do where OpenCV cannot open it.
        raw: hand frames out as they are stored, without conversion to 8-bit colour.

    Attributes:
        path: as given.
        fps: the mean frame rate that the file states, or None.
        count: number of frames, as its index states or as they were counted; None where nobody knows yet.
        turn: how the file says that its pictures are to be turned.
        frames_read: frames read in this pass.
        time_ns: time of the last frame, from the first one on, or None where it has none.

    Raises:
        SourceError: OpenCV cannot open it.
        FrameTooLargeError: it states larger pictures than are read.
    """

    def __init__(self, path: Path, advice: str, *, raw: bool = False) -> None:
        self.path, self._advice, self._raw = path, advice, raw
        self.raw_shape: tuple[int, ...] | None = None
        self._capture = self._open()
        fps, count = self._capture.get(cv2.CAP_PROP_FPS), self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self.fps: float | None = float(fps) if 0 < fps < 1e6 else None
        self._stated = int(count) if 0 < count < 1e15 else None
        self._counted, self._whole = _has_index(path), True
        if is_matroska(path) and (blocks := count_blocks(path)):
            stated = blocks.count if blocks.whole else max(self._stated or 0, blocks.count + 1)
            self._stated, self._counted, self._whole = stated, True, blocks.whole
        self.count = self._stated if self._counted else None
        angle = self._capture.get(cv2.CAP_PROP_ORIENTATION_META)
        self.turn = Turn(round(angle / 90) % 4)
        self.frames_read = 0
        self.time_ns: int | None = None
        self._first_ms: float | None = None
        self._last_ms = self._longest_gap_ms = 0.0

    def read(self, slot: NDArray[Any] | None = None) -> NDArray[Any] | None:
        """Returns the next frame as it is stored (colour: blue first), or None after the last one.

        Copies: into `slot` where it fits, else into a fresh array.
        """
        there, image = cast("tuple[bool, NDArray[Any]]", self._capture.read(slot))
        if not there:
            if not self._counted and self.frames_read and not self.cut_short:
                self.count = self.frames_read
            return None
        self.frames_read += 1
        self.raw_shape = image.shape if image.dtype == np.uint16 and image.ndim == 2 else None
        at_ms = self._capture.get(cv2.CAP_PROP_POS_MSEC)
        if self._first_ms is None:
            self._first_ms = at_ms
        unknown = self.frames_read > 1 and at_ms <= self._last_ms
        self.time_ns = None if unknown else round((at_ms - self._first_ms) * 1e6)
        self._longest_gap_ms = max(self._longest_gap_ms, at_ms - self._last_ms)
        self._last_ms = at_ms
        return image

    @property
    def cut_short(self) -> str:
        """After the last frame: how much less the file held than its header states; "" where it is whole."""
        read = self.frames_read
        if self._stated is None or not self.frames_read:
            return ""
        if self._counted:
            missing = self._stated - self.frames_read
            if missing <= (max(2, _COUNT_TOLERANCE * self._stated) if self._whole else 0):
                return ""
            return f"the video ends after {read} frames, its header states {self._stated}: truncated?"
        if not self.fps:
            return ""
        stated_s, reached_s = self._stated / self.fps, self._last_ms / 1000 + 1 / self.fps
        gap_s = self._longest_gap_ms / 1000
        spare_s = max(_END_FRAMES / self.fps, _COUNT_TOLERANCE * stated_s, 1.5 * gap_s)
        if reached_s + spare_s >= stated_s:
            return ""
        return (
            f"the video ends after {self.frames_read} frames at {reached_s:.2f} s, its header states "
            f"{stated_s:.2f} s: truncated?"
        )

    def rewind(self) -> None:
        """Goes back to the first frame."""
        self._capture.release()
        self._capture = self._open()
        self.frames_read, self.time_ns, self._first_ms, self._last_ms = 0, None, None, 0.0

    def close(self) -> None:
        """Closes the file. Closing twice is fine."""
        self._capture.release()

    def _open(self) -> cv2.VideoCapture:
        try:
            with opencv_name(self.path) as name:
                capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be opened: {error.strerror or error}") from None
        if not capture.isOpened():
            raise SourceError(f"{self.path}: OpenCV cannot open it as a video. {self._advice}")
        size_wh = (int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        try:
            check_size(self.path.name, size_wh, self.path)
        except SourceError:
            capture.release()
            raise
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        if self._raw:
            capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
        return capture


def video_turn(path: Path) -> Turn:
    """Returns how a video says that its pictures are to be turned; as stored where OpenCV cannot say."""
    try:
        video = VideoFile(path, "")
    except SourceError:
        return Turn()
    video.close()
    return video.turn


def _has_index(path: Path) -> bool:
    """Says whether the container lists its frames, as AVI, MP4 and QuickTime do."""
    with path.open("rb") as file:
        start = file.read(12)
    return start.startswith(b"RIFF") or start[4:8] in _ATOMS
