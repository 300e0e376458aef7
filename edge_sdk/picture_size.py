"""How large a picture may be: one limit for files, recordings and cameras, asked before memory is taken."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from edge_sdk.errors import FrameTooLargeError

__all__ = [
    "LONGEST_SIDE_PX",
    "MOST_BYTES",
    "MOST_PIXELS",
    "check_bytes",
    "check_size",
    "jpeg_segments",
    "jpeg_size_wh",
]

MOST_PIXELS = 1 << 27
"""Pixels of one picture: 134 million, a quarter more than the largest drone camera has (100 million)."""

LONGEST_SIDE_PX = 32766
"""What OpenCV can warp. Source: `remap` asserts sides below SHRT_MAX."""

MOST_BYTES = 1 << 30
"""Bytes of one picture's file: more than the largest picture takes uncompressed."""


def check_size(key: str, size_wh: tuple[int, int], path: Path | None = None) -> None:
    """Refuses a picture that is too large, by what its header says.

    Arguments:
        key: of the frame.
        size_wh: width and height in pixels.
        path: its file.

    Raises:
        FrameTooLargeError: it has more than `MOST_PIXELS`, or a side over `LONGEST_SIDE_PX`.
    """
    width, height = size_wh
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE_PX:
        raise FrameTooLargeError(
            key,
            f"{width}x{height} pixels",
            f"{MOST_PIXELS // 1_000_000} million pixels and {LONGEST_SIDE_PX} a side",
            path,
        )


def check_bytes(key: str, nbytes: int, path: Path | None = None, most: int = MOST_BYTES) -> None:
    """Refuses to take more bytes than any picture needs.

    Raises:
        FrameTooLargeError: so it is.
    """
    if nbytes > most:
        raise FrameTooLargeError(key, f"{nbytes} bytes", f"{most} bytes", path)


def jpeg_segments(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yields the marker and content of each segment before a JPEG's picture begins."""
    position = 2
    while position + 4 <= len(view) and view[position] == 0xFF:
        marker = view[position + 1]
        if marker == 0xFF:
            position += 1
            continue
        (length,) = struct.unpack_from(">H", view, position + 2)
        if marker == 0xDA or length < 2:
            return
        yield marker, view[position + 4 : position + 2 + length]
        position += 2 + length


def jpeg_size_wh(view: memoryview) -> tuple[int, int]:
    """Returns the width and height that a JPEG's header states, (0, 0) where it states none."""
    for marker, content in jpeg_segments(view):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC) and len(content) >= 5:
            height, width = struct.unpack_from(">HH", content, 1)
            return width, height
    return 0, 0
