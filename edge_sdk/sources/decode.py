"""From an image file to an array: read once, checked for wholeness and size, decoded, turned as it should be.

This is the one reader of picture files: folders, single files and cameras that are files all come here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError
from edge_sdk.opencv_files import opencv_name
from edge_sdk.picture_size import check_bytes, check_size
from edge_sdk.sources.orientation import AS_TAGGED, UPRIGHT, Orientation, Turn
from edge_sdk.sources.picture_facts import PictureFacts, picture_facts
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.rjpeg_marks import radiometric_maker
from edge_sdk.sources.targets import NO_TARGETS, FrameTargets
from edge_sdk.sources.tiff import TiffPage, read_plain, rebuilt

__all__ = ["IMAGE_SUFFIXES", "ImageReader", "decode_page", "kind_of"]

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})

_AS_STORED = cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_ANYDEPTH
_BGR = cv2.IMREAD_COLOR | _AS_STORED
_RGB = getattr(cv2, "IMREAD_COLOR_RGB", 0) | _AS_STORED
"""ANYDEPTH keeps 16 bits, so that a thermal file in the colour folder is noticed, not shrunk to grey.
Pictures are turned here and not by OpenCV, which turns colour and leaves thermal frames as they are."""

_RAW_EXPECTED = "16-bit with one channel (raw counts)"


class ImageReader:
    """Reads the image files of one camera: all of one size, colour or raw thermal.

    Where OpenCV can decode into a given array (4.11 and later) steady state allocates nothing of a
    frame's size in Python. Older ones and `imdecode` cost a fresh array a frame; OpenCV's own scratch
    memory is its own affair.

    Arguments:
        camera: "rgb" or "thermal".
        size_wh: the size every frame must have after turning, or None for that of the first good one.
        size_from: where the size comes from, for messages.
        orientation: how its pictures are turned; as their tags say by default.

    Attributes:
        turn: how the last picture was turned.
    """

    def __init__(
        self,
        camera: str,
        size_wh: tuple[int, int] | None = None,
        size_from: str = "the first frame",
        orientation: Orientation | None = None,
    ) -> None:
        self.camera = camera
        self.size_wh = size_wh
        self.turn = UPRIGHT
        self._size_from = size_from
        self._orientation = orientation or AS_TAGGED
        self._is_rgb = camera == "rgb"
        self._ring, self._stored_ring = FrameRing(), FrameRing()
        self._file = bytearray()
        self._can_decode_into = not self._is_rgb or hasattr(cv2, "IMREAD_COLOR_RGB")

    def read(self, key: str, path: Path, targets: FrameTargets = NO_TARGETS) -> NDArray[Any]:
        """Reads one file.

        Colour comes as uint8 [height, width, 3], red first; thermal as [height, width] of 16 bits or more, as
        the file holds it: raw counts, or temperatures in floating point. Both are
        turned as their tag or the caller says.

        Copies: decoded into the target of its size, else into a buffer that is written again once nobody
        holds it (`FrameRing`).

        Raises:
            FrameError: no such file, a folder, unreadable, truncated, of a wrong dtype or size.
            FrameTooLargeError: its header states more pixels than are read.
        """
        data = self._load(key, path)
        try:
            facts = picture_facts(data)
        except ValueError as problem:
            raise FrameError(key, str(problem), path) from None
        check_size(key, facts.size_wh, path)
        turn = self._orientation.turn(facts.turn)
        size_wh = turn.size(facts.size_wh)
        image = self._decode(key, path, data, facts, turn, targets)
        self._check(key, path, image, data)
        if self.size_wh not in (None, size_wh):
            assert self.size_wh is not None
            raise FrameError(
                key,
                f"{self.camera} image: expected {self.size_wh[0]}x{self.size_wh[1]} "
                f"(width x height, as in {self._size_from}), found {size_wh[0]}x{size_wh[1]}"
                f"{'' if turn == UPRIGHT else f', {turn}'}",
                path,
            )
        self.size_wh, self.turn = size_wh, turn
        if turn == UPRIGHT:
            return image
        dtype: type[np.generic] = image.dtype.type
        shape = (size_wh[1], size_wh[0], *image.shape[2:])
        slot = targets.take(shape, dtype) if image.dtype in (np.uint8, np.uint16) else None
        return turn.apply(image, self._ring.take(shape, dtype) if slot is None else slot)

    def _load(self, key: str, path: Path) -> memoryview:
        try:
            with path.open("rb", buffering=0) as file:
                size = path.stat().st_size
                check_bytes(key, size, path)
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

    def _decode(
        self,
        key: str,
        path: Path,
        data: memoryview,
        facts: PictureFacts,
        turn: Turn,
        targets: FrameTargets,
    ) -> NDArray[Any]:
        page = facts.page
        if page is not None and not self._is_rgb:
            return decode_page(key, path, data, page)
        into = self._can_decode_into and self.size_wh == turn.size(facts.size_wh)
        image = self._decode_into(path, facts.size_wh, targets, turn) if into else None
        if image is not None:
            return image
        image = _from_memory(key, path, data, _BGR if self._is_rgb else cv2.IMREAD_UNCHANGED)
        if self._is_rgb and image.ndim == 3:
            cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image)
        if into and image.dtype == self._dtype:
            self._can_decode_into = False  # the file is fine, so this OpenCV needs a fresh array
        return image

    def _decode_into(
        self, path: Path, stored_wh: tuple[int, int], targets: FrameTargets, turn: Turn
    ) -> NDArray[Any] | None:
        width, height = stored_wh
        shape, flags = ((height, width, 3), _RGB) if self._is_rgb else ((height, width), cv2.IMREAD_UNCHANGED)
        dtype: type[np.generic] = np.uint8 if self._is_rgb else np.uint16
        slot = targets.take(shape, dtype) if turn == UPRIGHT else self._stored_ring.take(shape, dtype)
        if slot is None:
            slot = self._ring.take(shape, dtype)
        try:
            with opencv_name(path) as name:
                image = cv2.imread(name, cast("NDArray[np.uint8]", slot), flags)
        except (cv2.error, TypeError, OSError):
            return None
        return image if image is slot else None

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self._is_rgb else np.uint16)

    def _check(self, key: str, path: Path, image: NDArray[Any], data: memoryview) -> None:
        channels = image.shape[2] if image.ndim == 3 else 1
        if self._is_rgb:
            if image.dtype != np.uint8 or channels != 3:
                fix = "Are the rgb= and thermal= folders swapped?"
                raise FrameError(key, f"rgb image: expected 8-bit colour, found {kind_of(image)}", path, fix)
        elif channels != 1 or image.dtype.itemsize < 2:
            maker = radiometric_maker(data)
            fix = (
                f"It is a radiometric JPEG of {maker}: its raw frame is read by file:{path}"
                if maker
                else "An 8-bit or coloured thermal picture has lost its radiometry; export the raw frames."
            )
            found = kind_of(image)
            raise FrameError(key, f"thermal image: expected {_RAW_EXPECTED}, found {found}", path, fix)


def kind_of(image: NDArray[Any]) -> str:
    """Says in words what the numbers of a picture are, like "signed 16-bit with 1 channel"."""
    channels = image.shape[2] if image.ndim == 3 else 1
    kinds = {"i": "signed ", "f": "floating-point "}
    bits = f"{kinds.get(image.dtype.kind, '')}{image.dtype.itemsize * 8}-bit"
    return f"{bits} with {channels} channel{'s' if channels > 1 else ''}"


def decode_page(key: str, path: Path, data: memoryview | bytes, page: TiffPage) -> NDArray[Any]:
    """Decodes one page of a TIFF as it is stored. Copies: into a fresh array.

    Raises:
        FrameError: it cannot be decoded.
    """
    check_size(key, page.size_wh, path)
    if page.is_plain:
        try:
            return read_plain(data, page)
        except ValueError as problem:
            raise FrameError(key, str(problem), path) from None
    return _from_memory(key, path, rebuilt(data, page), cv2.IMREAD_UNCHANGED)


def _from_memory(key: str, path: Path, data: memoryview | bytes, flags: int) -> NDArray[Any]:
    try:
        image: NDArray[Any] | None = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise FrameError(key, f"cannot be decoded: {error.err}", path) from None
    if image is None:
        raise FrameError(key, f"cannot be decoded ({len(data)} bytes)", path)
    return image
