"""Files that hold many raw 16-bit thermal frames: lossless video, multi-page TIFF, NumPy stacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError, SourceError
from edge_sdk.sources.integrity import check_complete
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.targets import NO_TARGETS, FrameTargets

__all__ = ["ThermalStream", "open_thermal_stream"]

CONVERT = (
    "OpenCV keeps 16 bits for FFV1 with pixel format gray16le. "
    "Convert with: ffmpeg -i IN -pix_fmt gray16le -c:v ffv1 OUT.mkv (the input must itself hold 16 bits), "
    "or give a multi-page 16-bit TIFF or a .npy stack"
)


class ThermalStream(ABC):
    """Raw thermal frames in order.

    Attributes:
        path: the file.
        fps: its frame rate, or None where the file has none.
        count: its number of frames, exact or as its header states, or None.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fps: float | None = None
        self.count: int | None = None
        self._ring = FrameRing()

    @abstractmethod
    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[np.uint16] | None:
        """Returns frame `index` (asked for in order), or None after the last one.

        Copies: into the target of its size, else into a buffer that is written again once nobody holds it.

        Raises:
            FrameError: the frame is no uint16 [height, width].
        """

    def _slot(self, shape: tuple[int, ...], targets: FrameTargets) -> NDArray[np.uint16]:
        target = targets.take(shape, np.uint16)
        return self._ring.take(shape, np.uint16) if target is None else target

    def rewind(self) -> None:  # noqa: B027  (a hook: stacks have nothing to do)
        """Goes back to the first frame."""

    def close(self) -> None:  # noqa: B027  (a hook, likewise)
        """Closes the file."""


class VideoThermalStream(ThermalStream):
    """A video that OpenCV's FFmpeg can hand out without converting it to 8-bit colour."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._capture = self._open()
        fps, count = self._capture.get(cv2.CAP_PROP_FPS), self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self.fps = float(fps) if fps > 0 else None
        self.count = int(count) if count > 0 else None
        self._shape: tuple[int, ...] | None = None

    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[np.uint16] | None:
        """See `ThermalStream.read`."""
        slot = self._slot(self._shape, targets) if self._shape else None
        there, image = cast("tuple[bool, NDArray[Any]]", self._capture.read(slot))
        if not there:
            return None
        if image.dtype != np.uint16 or image.ndim != 2:
            channels = image.shape[2] if image.ndim == 3 else 1
            found = f"{image.dtype.itemsize * 8}-bit with {channels} channel(s)"
            raise FrameError(
                key,
                f"thermal video: expected 16-bit with one channel, OpenCV {cv2.__version__} gives {found}",
                self.path,
                CONVERT,
            )
        self._shape = image.shape
        return image

    def rewind(self) -> None:
        """See `ThermalStream.rewind`."""
        self._capture.release()
        self._capture = self._open()

    def close(self) -> None:
        """See `ThermalStream.close`."""
        self._capture.release()

    def _open(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(str(self.path), cv2.CAP_FFMPEG)
        if not capture.isOpened():
            raise SourceError(f"{self.path}: OpenCV cannot open it as a video. {CONVERT}")
        capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
        return capture


class TiffThermalStream(ThermalStream):
    """A multi-page 16-bit TIFF, read page by page. OpenCV allocates each page afresh."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            check_complete(path.read_bytes())
        except ValueError as problem:
            raise SourceError(f"{path}: {problem}") from None
        self.count = cv2.imcount(str(path), cv2.IMREAD_UNCHANGED)
        if self.count < 1:
            raise SourceError(f"{path}: OpenCV finds no page in this TIFF")

    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[np.uint16] | None:
        """See `ThermalStream.read`."""
        assert self.count is not None
        if index >= self.count:
            return None
        there, pages = cv2.imreadmulti(str(self.path), index, 1, flags=cv2.IMREAD_UNCHANGED)
        if not there or len(pages) != 1:
            raise FrameError(key, f"page {index} of {self.count} cannot be decoded", self.path)
        return _raw(key, self.path, pages[0])


class NumpyThermalStream(ThermalStream):
    """A .npy stack, mapped and not loaded; or the one array of an .npz, loaded whole."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._stack = self._load()
        sound = self._stack.dtype == np.uint16 or self._stack.dtype.kind == "f"
        if self._stack.ndim != 3 or not sound or not len(self._stack):
            raise SourceError(
                f"{path}: expected uint16 [frames, height, width], "
                f"found {self._stack.dtype} {list(self._stack.shape)}"
            )
        self.count = len(self._stack)

    def read(self, key: str, index: int, targets: FrameTargets = NO_TARGETS) -> NDArray[np.uint16] | None:
        """See `ThermalStream.read`."""
        if index >= len(self._stack):
            return None
        if self._stack.dtype != np.uint16:
            return np.asarray(self._stack[index])
        slot = self._slot(self._stack.shape[1:], targets)
        np.copyto(slot, self._stack[index])
        return slot

    def close(self) -> None:
        """See `ThermalStream.close`."""
        self._stack = np.empty((0, 0, 0), np.uint16)

    def _load(self) -> NDArray[Any]:
        try:
            loaded = np.load(self.path, mmap_mode="r", allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                names = loaded.files
                name = "thermal" if "thermal" in names else names[0] if len(names) == 1 else None
                if name is None:
                    raise SourceError(
                        f"{self.path}: expected one array, or one named 'thermal'; "
                        f"found {', '.join(names) or 'none'}"
                    )
                array: NDArray[Any] = loaded[name]
                return array
        except (ValueError, OSError, EOFError) as error:
            raise SourceError(f"{self.path}: cannot be read as a NumPy file: {error}") from None


def open_thermal_stream(path: Path) -> ThermalStream:
    """Opens a file of raw thermal frames by its suffix: .npy, .npz, .tif, .tiff, else a video.

    Raises:
        SourceError: the file cannot be opened as such.
    """
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return NumpyThermalStream(path)
    if suffix in (".tif", ".tiff"):
        return TiffThermalStream(path)
    return VideoThermalStream(path)


def _raw(key: str, path: Path, image: NDArray[Any]) -> NDArray[np.uint16]:
    if image.dtype != np.uint16 or image.ndim != 2:
        raise FrameError(
            key,
            f"thermal image: expected uint16 [height, width], found {image.dtype} {list(image.shape)}",
            path,
            "An 8-bit or coloured thermal picture has lost its radiometry; export the raw frames.",
        )
    return image
