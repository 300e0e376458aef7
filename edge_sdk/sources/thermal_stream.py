"""Files that hold many raw thermal frames: lossless video, TIFF of one page or many, NumPy stacks."""

from __future__ import annotations

import mmap
import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError, SourceError
from edge_sdk.sources.decode import decode_page, kind_of
from edge_sdk.sources.numpy_file import NumpyFile
from edge_sdk.sources.orientation import AS_TAGGED, UPRIGHT, Orientation, Turn, turn_of_exif
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.targets import NO_TARGETS, FrameTargets
from edge_sdk.sources.tiff import is_tiff, tiff_pages
from edge_sdk.sources.video_file import VideoFile

__all__ = ["CONVERT", "ThermalStream", "open_thermal_stream"]

CONVERT = (
    "OpenCV keeps 16 bits for FFV1 with pixel format gray16le. "
    "Convert with: ffmpeg -i IN -pix_fmt gray16le -c:v ffv1 OUT.mkv (the input must itself hold 16 bits), "
    "or give a multi-page 16-bit TIFF or a .npy stack"
)


class ThermalStream(ABC):
    """Raw thermal frames in order.

    Arguments:
        path: the file.
        orientation: how its frames are turned; as the file says by default.

    Attributes:
        path: the file.
        fps: its frame rate, or None where the file has none.
        count: its number of frames, or None where nobody can know.
        dtype: what the numbers of its first frame are, where the file states it.
        turn: how the last frame was turned.
        time_ns: when the last frame was taken, from the first one on, or None where the file has no times.
    """

    def __init__(self, path: Path, orientation: Orientation | None = None) -> None:
        self.path = path
        self.fps: float | None = None
        self.count: int | None = None
        self.dtype: np.dtype[Any] | None = None
        self.turn = UPRIGHT
        self.time_ns: int | None = None
        self._orientation = orientation or AS_TAGGED
        self._ring = FrameRing()

    @abstractmethod
    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[Any] | None:
        """Returns frame `index` (asked for in order), or None after the last one.

        It is [height, width] of 16 bits or more: raw counts, or temperatures in floating point.

        Copies: into the target of its size, else into a buffer that is written again once nobody holds it.

        Raises:
            FrameError: the frame is something else, or cannot be read.
            FrameTooLargeError: its header states more pixels than are read.
        """

    def _slot(self, shape: tuple[int, ...], dtype: np.dtype[Any], targets: FrameTargets) -> NDArray[Any]:
        target = targets.take(shape, np.uint16) if dtype == np.uint16 else None
        return self._ring.take(shape, dtype.type) if target is None else target

    def _turned(self, image: NDArray[Any], turn: Turn, targets: FrameTargets) -> NDArray[Any]:
        self.turn = turn
        if turn == UPRIGHT:
            return image
        shape = image.shape[::-1] if turn.quarters % 2 else image.shape
        return turn.apply(image, self._slot(shape, image.dtype, targets))

    @property
    def cut_short(self) -> str:
        """After the last frame: how much less the file held than its header states; "" where it is whole."""
        return ""

    def rewind(self) -> None:  # noqa: B027  (a hook: stacks have nothing to do)
        """Goes back to the first frame."""

    def close(self) -> None:  # noqa: B027  (a hook, likewise)
        """Closes the file."""


class VideoThermalStream(ThermalStream):
    """A video that OpenCV's FFmpeg can hand out without converting it to 8-bit colour."""

    def __init__(self, path: Path, orientation: Orientation | None = None) -> None:
        super().__init__(path, orientation)
        self._video = VideoFile(path, CONVERT, raw=True)
        self.fps, self.count = self._video.fps, self._video.count

    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[Any] | None:
        """See `ThermalStream.read`."""
        turn = self._orientation.turn(self._video.turn)
        shape = self._video.raw_shape
        slot = None
        if shape is not None and turn == UPRIGHT:
            slot = self._slot(shape, np.dtype(np.uint16), targets)
        image = self._video.read(slot)
        self.time_ns = self._video.time_ns
        if image is None:
            return None
        if image.dtype != np.uint16 or image.ndim != 2:
            raise FrameError(
                key,
                f"thermal video: expected 16-bit with one channel, OpenCV {cv2.__version__} gives "
                f"{kind_of(image)}",
                self.path,
                CONVERT,
            )
        return self._turned(image, turn, targets)

    @property
    def cut_short(self) -> str:
        """See `VideoFile.cut_short`."""
        return self._video.cut_short

    def rewind(self) -> None:
        """See `ThermalStream.rewind`."""
        self._video.rewind()

    def close(self) -> None:
        """See `ThermalStream.close`."""
        self._video.close()


class TiffThermalStream(ThermalStream):
    """A TIFF, read page by page from memory that is mapped and not loaded. Each page is decoded afresh."""

    def __init__(self, path: Path, orientation: Orientation | None = None) -> None:
        super().__init__(path, orientation)
        try:
            with path.open("rb") as file:
                self._data: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise SourceError(
                f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from None
        try:
            if not is_tiff(self._data[:4]):
                raise ValueError(f"no TIFF file (it begins with {self._data[:8].hex(' ')})")
            view = memoryview(self._data)
            try:
                self._pages = list(tiff_pages(view))
            finally:
                view.release()
            if not self._pages:
                raise ValueError("no page in this TIFF")
        except (ValueError, struct.error, IndexError) as problem:
            self.close()
            what = (
                "damaged TIFF: it ends inside a directory" if isinstance(problem, struct.error) else problem
            )
            raise SourceError(f"{path}: {what}") from None
        self.count, self.dtype = len(self._pages), self._pages[0].dtype

    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[Any] | None:
        """See `ThermalStream.read`."""
        if index >= len(self._pages):
            return None
        page = self._pages[index]
        with memoryview(self._data) as view:
            image = _raw(key, self.path, decode_page(key, self.path, view, page))
        return self._turned(image, self._orientation.turn(turn_of_exif(page.orientation)), targets)

    def close(self) -> None:
        """See `ThermalStream.close`."""
        self._pages, self._data = [], b""  # the mapping goes with its last view


class NumpyThermalStream(ThermalStream):
    """A .npy or .npz with one frame or a stack of them, read frame by frame."""

    def __init__(self, path: Path, orientation: Orientation | None = None) -> None:
        super().__init__(path, orientation)
        self._file = NumpyFile(path)
        self.count, self.dtype = self._file.count, self._file.dtype

    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[Any] | None:
        """See `ThermalStream.read`."""
        if index >= self._file.count:
            return None
        turn = self._orientation.turn(UPRIGHT)
        shape, dtype = self._file.shape_hw, self._file.dtype
        slot = self._slot(shape, dtype, targets) if turn == UPRIGHT else np.empty(shape, dtype)
        self._file.read_into(key, index, slot)
        return self._turned(slot, turn, targets)

    def close(self) -> None:
        """See `ThermalStream.close`."""
        self._file.close()


def open_thermal_stream(path: Path, orientation: Orientation | None = None) -> ThermalStream:
    """Opens a file of raw thermal frames by its suffix: .npy, .npz, .tif, .tiff, else a video.

    Arguments:
        path: the file.
        orientation: how its frames are turned; as the file says by default.

    Raises:
        SourceError: the file cannot be opened as such.
    """
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return NumpyThermalStream(path, orientation)
    if suffix in (".tif", ".tiff"):
        return TiffThermalStream(path, orientation)
    return VideoThermalStream(path, orientation)


def _raw(key: str, path: Path, image: NDArray[Any]) -> NDArray[Any]:
    if image.ndim == 2 and image.dtype.itemsize >= 2:
        return image
    raise FrameError(
        key,
        f"thermal image: expected 16-bit with one channel (raw counts), found {kind_of(image)}",
        path,
        "An 8-bit or coloured thermal picture has lost its radiometry; export the raw frames.",
    )
