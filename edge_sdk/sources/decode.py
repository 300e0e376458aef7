"""From an image file to an array: read once, checked for wholeness, decoded into a reused buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError
from edge_sdk.sources.integrity import check_complete
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.targets import NO_TARGETS, FrameTargets

__all__ = ["IMAGE_SUFFIXES", "ImageReader"]

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})

_BGR = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
_RGB = getattr(cv2, "IMREAD_COLOR_RGB", 0) | cv2.IMREAD_ANYDEPTH
"""ANYDEPTH keeps 16 bits, so that a thermal file in the colour folder is noticed, not shrunk to grey."""


class ImageReader:
    """Reads the image files of one camera: all of one size, colour or raw thermal.

    Where OpenCV can decode into a given array (4.11 and later) steady state allocates nothing of a
    frame's size in Python. Older ones, `imdecode` and a picture that its EXIF tag turns by 90 degrees
    cost a fresh array a frame; OpenCV's own scratch memory is its own affair.

    Arguments:
        camera: "rgb" or "thermal".
        size_wh: the size every frame must have, or None for that of the first good one.
        size_from: where the size comes from, for messages.
    """

    def __init__(
        self, camera: str, size_wh: tuple[int, int] | None = None, size_from: str = "the first frame"
    ) -> None:
        self.camera = camera
        self.size_wh = size_wh
        self._size_from = size_from
        self._is_rgb = camera == "rgb"
        self._ring = FrameRing()
        self._file = bytearray()
        self._can_decode_into = not self._is_rgb or hasattr(cv2, "IMREAD_COLOR_RGB")

    def read(self, key: str, path: Path, targets: FrameTargets = NO_TARGETS) -> NDArray[Any]:
        """Reads one file.

        Colour comes as uint8 [height, width, 3], red first, turned as its EXIF tag says;
        thermal as uint16 [height, width].

        Copies: decoded into the target of its size, else into a buffer that is written again once nobody
        holds it (`FrameRing`).

        Raises:
            FrameError: no such file, a folder, unreadable, truncated, of a wrong dtype or size.
        """
        data = self._load(key, path)
        try:
            check_complete(data)
        except ValueError as problem:
            raise FrameError(key, str(problem), path) from None
        image = self._decode_into(path, targets) if self._can_decode_into and self.size_wh else None
        if image is None:
            image = self._decode(key, path, data)
        self._check(key, path, image)
        return image

    def _load(self, key: str, path: Path) -> memoryview:
        try:
            with path.open("rb", buffering=0) as file:
                size = path.stat().st_size
                if size > len(self._file):
                    self._file = bytearray(size)
                view = memoryview(self._file)[:size]
                filled = 0
                while filled < size and (count := file.readinto(view[filled:])):
                    filled += count
                return view[:filled]
        except FileNotFoundError:
            raise FrameError(key, "no such file", path) from None
        except IsADirectoryError:
            raise FrameError(key, "a folder stands where an image file was expected", path) from None
        except OSError as error:
            raise FrameError(key, f"cannot be read: {error.strerror or error}", path) from None

    def _decode_into(self, path: Path, targets: FrameTargets) -> NDArray[Any] | None:
        assert self.size_wh is not None
        width, height = self.size_wh
        shape, flags = ((height, width, 3), _RGB) if self._is_rgb else ((height, width), cv2.IMREAD_UNCHANGED)
        dtype: type[np.generic] = np.uint8 if self._is_rgb else np.uint16
        slot = targets.take(shape, dtype)
        if slot is None:
            slot = self._ring.take(shape, dtype)
        try:
            image = cv2.imread(str(path), slot, flags)
        except (cv2.error, TypeError):
            return None
        return image if image is slot else None

    def _decode(self, key: str, path: Path, data: memoryview) -> NDArray[Any]:
        encoded = np.frombuffer(data, np.uint8)
        try:
            image = cv2.imdecode(encoded, _BGR if self._is_rgb else cv2.IMREAD_UNCHANGED)
        except cv2.error as error:
            raise FrameError(key, f"cannot be decoded: {error.err}", path) from None
        if image is None:
            raise FrameError(key, f"cannot be decoded ({len(data)} bytes)", path)
        if self._is_rgb and image.ndim == 3:
            cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image)
        if self.size_wh == (image.shape[1], image.shape[0]) and image.dtype == self._dtype:
            # The file is fine, so it is this OpenCV, or the file's EXIF tag, that needs a fresh array.
            self._can_decode_into = False
        return image

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self._is_rgb else np.uint16)

    def _check(self, key: str, path: Path, image: NDArray[Any]) -> None:
        channels = image.shape[2] if image.ndim == 3 else 1
        sound = image.dtype == self._dtype or (not self._is_rgb and image.dtype.kind == "f")
        if not sound or channels != (3 if self._is_rgb else 1):
            expected = "8-bit colour" if self._is_rgb else "16-bit with one channel (raw counts)"
            fix = (
                "Are the rgb= and thermal= folders swapped?"
                if self._is_rgb
                else "An 8-bit or coloured thermal picture has lost its radiometry; export the raw frames."
            )
            found = f"{image.dtype.itemsize * 8}-bit with {channels} channel{'s' if channels > 1 else ''}"
            raise FrameError(key, f"{self.camera} image: expected {expected}, found {found}", path, fix)
        size_wh = (image.shape[1], image.shape[0])
        if self.size_wh is None:
            self.size_wh = size_wh
        elif size_wh != self.size_wh:
            raise FrameError(
                key,
                f"{self.camera} image: expected {self.size_wh[0]}x{self.size_wh[1]} "
                f"(width x height, as in {self._size_from}), found {size_wh[0]}x{size_wh[1]}",
                path,
            )
