"""Writes annotated frames to a folder or a video, and notices when the disk did not take them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, DeviceError, SaveError, ShapeError, StateError
from edge_sdk.opencv_files import opencv_name, opencv_target, plain_name
from edge_sdk.saving import save_bytes

__all__ = ["FrameWriter"]

_CODECS = {".mp4": "mp4v", ".avi": "MJPG"}
_JPEG_QUALITY = 90
_UNKNOWN_FPS = 10.0
_LEAST_FPS, _MOST_FPS = 0.1, 240.0
_FRAMES_TO_TELL = 30
"""So many pictures wait in memory until their times tell the rate of a video."""

_NAME_BYTES = 200
"""Of a picture's name: file systems take 255 bytes, with number, suffix and `.part`."""


class FrameWriter(ClosedByWith):
    """Writes pictures to a folder (a JPEG each) or to a video, by what the path looks like.

    A folder's files appear whole or not at all. A video has the name `PATH.part` + suffix until
    `close`, which reads it once and moves it to its place only if every frame is in it.

    Arguments:
        path: a folder, made if it is not there; or a file that ends in .mp4 or .avi, replaced.
        fps: frame rate of a video, in frames a second; None for that of the times given with the pictures
            (the median of the first 30), or 10 where none are given.

    Attributes:
        path: as given.
        count: pictures written so far.

    Raises:
        ConfigError: another suffix, a frame rate that is not positive, a file where a folder should be.
        DeviceError: the folder cannot be made or written to.
    """

    def __init__(self, path: str | os.PathLike[str], *, fps: float | None = 10.0) -> None:
        self.path = Path(path)
        self.count = 0
        suffix = self.path.suffix.lower()
        self._is_video = suffix in _CODECS and not self.path.is_dir()
        if not self._is_video and suffix and not self.path.is_dir():
            known = ", ".join(_CODECS)
            raise ConfigError(f"{self.path}: expected a folder or a video file ({known}), found {suffix!r}")
        if fps is not None and not 0 < fps < float("inf"):
            raise ConfigError(f"fps: expected frames a second above 0, found {fps!r}")
        self._fps = fps
        self._held: list[NDArray[np.uint8]] = []
        self._times_ns: list[int] = []
        self._video: cv2.VideoWriter | None = None
        self._size_wh: tuple[int, int] | None = None
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._closed = False
        folder = self.path.parent if self._is_video else self.path
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"{folder}: a file stands where a folder is needed") from None
        except OSError as error:
            raise DeviceError(f"{folder}: cannot be made: {error.strerror}") from None
        if not os.access(folder, os.W_OK):
            raise DeviceError(f"{folder}: no permission to write there")

    @property
    def fps(self) -> float | None:
        """Frame rate of the video, None while it is not known yet."""
        return self._fps

    def write(self, key: str, picture: NDArray[np.uint8], at_ns: int | None = None) -> Path:
        """Writes one picture.

        Arguments:
            key: names the file in a folder; repeated keys are numbered. A video ignores it.
            picture: uint8 [height, width, 3], red first. In a video, one of another size than the
                first is fitted into that size, with bars.
            at_ns: when it was taken, in nanoseconds on any clock; a video without a rate needs it.

        Returns: the file.

        Raises:
            ShapeError: another dtype or shape.
            DeviceError: the disk is full or the file cannot be written.
            StateError: the writer is closed.
        """
        if self._closed:
            raise StateError(f"the writer of {self.path} is closed")
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            found = f"{picture.dtype} {list(picture.shape)}"
            raise ShapeError("picture", "uint8 [height, width, 3]", found)
        bgr = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), np.uint8)
        path = self._write_video(bgr, at_ns) if self._is_video else self._write_file(key, bgr)
        self.count += 1
        return path

    def close(self) -> None:
        """Finishes a video and moves it to its place. Closing twice is fine.

        Raises:
            DeviceError: frames are missing from the video, most likely because the disk is full.
        """
        if self._closed:
            return
        self._closed = True
        self._release_held()
        if self._video is None:
            return
        self._video.release()
        if not self.count:
            self._part.unlink(missing_ok=True)
            return
        found = _frames_in(self._part)
        if found < self.count:
            raise DeviceError(
                f"{self._part}: {found} of {self.count} frames can be read back. Is the disk full? "
                "What there is stays in that file."
            )
        self._part.replace(self.path)

    @property
    def _part(self) -> Path:
        """Beside the video, under a name that OpenCV can write whatever the video is called."""
        name = f"{self.path.stem}.part{self.path.suffix}"
        if not plain_name(self.path):
            name = f"video-{os.getpid()}-{id(self):x}.part{self.path.suffix}"
        return self.path.with_name(name)

    def _write_file(self, key: str, bgr: NDArray[np.uint8]) -> Path:
        path = self.path / f"{self._name(key)}.jpg"
        _, encoded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
        try:
            save_bytes(path, encoded.tobytes(), sync=False)
        except SaveError as error:
            raise DeviceError(
                f"{path}: cannot be written after {self.count} pictures: {error.problem}"
            ) from error
        return path

    def _write_video(self, bgr: NDArray[np.uint8], at_ns: int | None) -> Path:
        """Holds the first pictures back until their times say the frame rate."""
        if self._fps is not None:
            return self._write_frame(bgr)
        self._held.append(bgr)
        if at_ns is not None:
            self._times_ns.append(at_ns)
        if len(self._held) >= _FRAMES_TO_TELL or at_ns is None:
            self._release_held()
        return self.path

    def _release_held(self) -> None:
        self._fps = self._fps or _rate_of(self._times_ns)
        held, self._held = self._held, []
        for bgr in held:
            self._write_frame(bgr)

    def _write_frame(self, bgr: NDArray[np.uint8]) -> Path:
        if self._video is None:
            self._size_wh = bgr.shape[1] // 2 * 2, bgr.shape[0] // 2 * 2
            codec = _CODECS[self.path.suffix.lower()]
            fourcc = cv2.VideoWriter.fourcc(*codec)
            assert self._fps is not None
            try:
                with opencv_target(self._part) as target:
                    self._video = cv2.VideoWriter(target, fourcc, self._fps, self._size_wh)
            except OSError as error:
                raise DeviceError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        if not self._video.isOpened():
            raise DeviceError(
                f"{self._part}: OpenCV {cv2.__version__} could not start a video ({self.path.suffix}). "
                "Check that the folder can be written to, or write to a folder of pictures instead"
            )
        assert self._size_wh is not None
        self._video.write(_fitted(bgr, self._size_wh))
        return self.path

    def _name(self, key: str) -> str:
        """A name that no picture of this writer has yet: `IMG-2` may be a key, and the second `IMG` too."""
        name = re.sub(r"[^\w.\-+ ]", "_", key)
        name = name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore").strip(". ") or "frame"
        number = self._numbers.get(name, 0) + 1
        numbered = name if number == 1 else f"{name}-{number}"
        while numbered in self._names:
            number += 1
            numbered = f"{name}-{number}"
        self._numbers[name] = number
        self._names.add(numbered)
        return numbered


def _rate_of(times_ns: list[int]) -> float:
    """The rate that times show, in frames a second; `_UNKNOWN_FPS` where they show none."""
    steps_ns = np.diff(np.array(times_ns, np.int64))
    steps_ns = steps_ns[steps_ns > 0]
    if not len(steps_ns):
        return _UNKNOWN_FPS
    return float(np.clip(1e9 / float(np.median(steps_ns)), _LEAST_FPS, _MOST_FPS))


def _fitted(bgr: NDArray[np.uint8], size_wh: tuple[int, int]) -> NDArray[np.uint8]:
    height, width = bgr.shape[:2]
    if (width, height) == size_wh:
        return bgr
    if (width // 2 * 2, height // 2 * 2) == size_wh:
        return np.ascontiguousarray(bgr[: size_wh[1], : size_wh[0]])
    scale = min(size_wh[0] / width, size_wh[1] / height)
    inner_wh = max(1, round(width * scale)), max(1, round(height * scale))
    canvas = np.zeros((size_wh[1], size_wh[0], 3), np.uint8)
    x, y = (size_wh[0] - inner_wh[0]) // 2, (size_wh[1] - inner_wh[1]) // 2
    canvas[y : y + inner_wh[1], x : x + inner_wh[0]] = cv2.resize(bgr, inner_wh, interpolation=cv2.INTER_AREA)
    return canvas


def _frames_in(path: Path) -> int:
    with opencv_name(path) as name:
        capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG)
    try:
        return max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT))) if capture.isOpened() else 0
    finally:
        capture.release()
