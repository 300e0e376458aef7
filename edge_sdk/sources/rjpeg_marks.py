"""Is a JPEG radiometric, and whose? Told by what lies in it, without decoding anything."""

from __future__ import annotations

import struct
from pathlib import Path

from edge_sdk.picture_size import jpeg_segments

__all__ = ["RJPEG_SUFFIXES", "is_radiometric_jpeg", "radiometric_maker"]

RJPEG_SUFFIXES = frozenset({".jpg", ".jpeg"})

_FLIR_MARK, _DJI_MARKS = b"FLIR\0", (b"drone-dji", b"DJI_XMP", b"http://www.dji.com/", b"DJI\0")
_HEAD_BYTES = 8 * 1024 * 1024

_DJI_LEAST_BYTES = 2 * 160 * 120
"""DJI's raw frame lies in APP3 segments, 16 bits a pixel; colour photos of the same drones have none.
Source: DJI Thermal SDK's R-JPEGs as the dji-thermal tools describe them."""


def is_radiometric_jpeg(path: Path) -> bool:
    """Says whether a file is a JPEG with a raw frame of FLIR or DJI in it; False where it cannot be read."""
    try:
        with path.open("rb") as file:
            return radiometric_maker(file.read(_HEAD_BYTES)) != ""
    except OSError:
        return False


def radiometric_maker(data: bytes | bytearray | memoryview) -> str:
    """Returns "FLIR" or "DJI" for a JPEG that holds a raw thermal frame, else ""."""
    view = memoryview(data)
    if bytes(view[:2]) != b"\xff\xd8":
        return ""
    dji, raw_bytes = False, 0
    try:
        for marker, content in jpeg_segments(view):
            if marker == 0xE1 and bytes(content[:5]) == _FLIR_MARK:
                return "FLIR"
            if marker == 0xE3:
                raw_bytes += len(content)
            elif not dji and marker in (0xE1, 0xE4, 0xE7):
                text = bytes(content)
                dji = any(mark in text for mark in _DJI_MARKS)
    except (struct.error, IndexError):
        return ""
    return "DJI" if dji and raw_bytes >= _DJI_LEAST_BYTES else ""
