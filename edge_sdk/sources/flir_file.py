"""What a FLIR radiometric JPEG holds, record by record: for files that the library flyr does not read.

Source: the FLIR tables of ExifTool's documentation (APP1 segments "FLIR", FFF header, record directory).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.picture_size import check_size, jpeg_segments
from edge_sdk.sources.picture_facts import picture_facts

__all__ = ["FlirFile", "canonical", "flir_file"]

_MARK = b"FLIR\0"
_RAW, _VISIBLE, _CAMERA, _INSET = 1, 14, 32, 42
_PICTURE_AT = 32
"""Bytes before the picture in a record that holds one."""

_MODEL_AT, _MODEL_BYTES = 212, 32
_MOST_RECORDS = 1024
_CHUNK = 65000
_UNREAD_ENTRIES = 2
"""flyr 5 counts entries from the start of the file, so it misses the last two: a cause of its KeyError."""


@dataclass(frozen=True)
class FlirFile:
    """The records of one file.

    Attributes:
        records: the bytes of each record, by type.
        camera: the model that the camera info names, or "".
        usual: whether its directory is laid out as flyr expects it. Given another, flyr may go through
            hundreds of millions of entries that are not there.
    """

    records: Mapping[int, bytes]
    camera: str = ""
    usual: bool = False

    @property
    def raw_size_wh(self) -> tuple[int, int] | None:
        """Width and height of the raw frame as its record states them; None where there is no such record."""
        record = self.records.get(_RAW)
        if record is None or len(record) < _PICTURE_AT:
            return None
        width, height = struct.unpack_from(_order(record) + "HH", record, 2)
        return width, height

    @property
    def has_constants(self) -> bool:
        """Whether there is a camera info in the byte order that flyr reads, so that degrees can be had."""
        record = self.records.get(_CAMERA, b"")
        return len(record) > 840 and _order(record) == "<"

    def raw(self, key: str) -> NDArray[np.uint16]:
        """Returns the raw frame, [height, width]. Copies: yes.

        Raises:
            ValueError: it is not there or not whole; with figures.
            FrameTooLargeError: it states more pixels than are read.
        """
        record, size_wh = self.records.get(_RAW), self.raw_size_wh
        if record is None or size_wh is None:
            raise ValueError("it has no raw thermal frame (record 1)")
        data = record[_PICTURE_AT:]
        if data.startswith(b"\x89PNG"):
            facts = picture_facts(data)
            check_size(key, facts.size_wh)
            image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
            if image is None or image.ndim != 2 or image.dtype != np.uint16:
                raise ValueError("its raw thermal frame is a PNG that is not of 16 bits with one channel")
            swapped: NDArray[np.uint16] = image.byteswap().astype(np.uint16)
            return swapped  # FLIR's PNGs have the low byte first
        width, height = size_wh
        check_size(key, size_wh)
        needed = 2 * width * height
        if not needed or len(data) < needed:
            raise ValueError(
                f"its raw thermal frame is stated as {width}x{height} pixels, which need {needed} bytes; "
                f"{len(data)} are there"
            )
        return np.frombuffer(data[:needed], _order(record) + "u2").reshape(height, width).astype(np.uint16)

    def visible(self, key: str) -> NDArray[np.uint8] | None:
        """Returns the embedded colour picture, red first; None where there is none that can be decoded."""
        data = self.records.get(_VISIBLE, b"")[_PICTURE_AT:]
        try:
            facts = picture_facts(data)
        except ValueError:
            return None
        check_size(key, facts.size_wh)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        if image is None:
            return None
        if facts.form == "PNG":  # FLIR's hold luma and chroma in place of red, green and blue
            luma, chroma_b, chroma_r = image[..., 2], image[..., 1], image[..., 0]
            stacked = np.ascontiguousarray(np.dstack([luma, chroma_r, chroma_b]))
            return np.asarray(cv2.cvtColor(stacked, cv2.COLOR_YCrCb2RGB), np.uint8)
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def flir_file(data: bytes) -> FlirFile:
    """Reads the records of a FLIR file, as many as are there.

    Raises:
        ValueError: it has no FLIR part, or that part is damaged; with figures.
    """
    parts: dict[int, bytes] = {}
    try:
        for marker, content in jpeg_segments(memoryview(data)):
            if marker == 0xE1 and bytes(content[:5]) == _MARK and len(content) > 8:
                parts.setdefault(content[6], bytes(content[8:]))
        whole = b"".join(part for _, part in sorted(parts.items()))
        return _parsed(whole)
    except (struct.error, IndexError):
        raise ValueError("its FLIR part is damaged: it ends inside its directory") from None


def canonical(data: bytes, found: FlirFile, raw: NDArray[np.uint16]) -> bytes:
    """Writes the file again as flyr expects it: chunks in a row, one directory, a raw frame without PNG."""
    records = dict(found.records)
    height, width = raw.shape
    head = struct.pack("<HHH", 2, width, height)
    records[_RAW] = head.ljust(_PICTURE_AT, b"\0") + raw.astype("<u2").tobytes()
    entries = len(records) + _UNREAD_ENTRIES
    directory, body, at = b"", b"", 64 + 32 * entries
    for kind, record in sorted(records.items()):
        directory += struct.pack(">HHIIIIIII", kind, 1, 100, 1, at + len(body), len(record), 0, 0, 0)
        body += record
    header = b"FFF\0".ljust(20, b"\0") + struct.pack(">III", 100, 64, entries)
    flir = header.ljust(64, b"\0") + directory.ljust(32 * entries, b"\0") + body
    chunks = [flir[start : start + _CHUNK] for start in range(0, len(flir), _CHUNK)]
    segments = b"".join(
        b"\xff\xe1" + struct.pack(">H", len(chunk) + 10) + _MARK + bytes((1, number, len(chunks) - 1)) + chunk
        for number, chunk in enumerate(chunks)
    )
    return data[:2] + segments + _without_flir(data)


def _parsed(whole: bytes) -> FlirFile:
    if whole[:4] not in (b"FFF\0", b"AFF\0"):
        raise ValueError(f"its FLIR part begins with {whole[:4].hex(' ') or 'nothing'}, expected FFF or AFF")
    (version,) = struct.unpack_from(">I", whole, 20)
    order = ">" if 100 <= version < 200 else "<"
    directory_at, count = struct.unpack_from(order + "II", whole, 24)
    if count > _MOST_RECORDS:
        raise ValueError(f"its FLIR part states {count} records, at most {_MOST_RECORDS} are read")
    records: dict[int, bytes] = {}
    unread = False
    for number in range(count):
        entry = directory_at + 32 * number
        kind, _subtype, _version, _index, at, length = struct.unpack_from(order + "HHIIII", whole, entry)
        if number >= count - _UNREAD_ENTRIES and kind in (_RAW, _VISIBLE, _CAMERA, _INSET):
            unread = True
        if kind and at < len(whole):
            records.setdefault(kind, whole[at : at + length])
    model = records.get(_CAMERA, b"")[_MODEL_AT : _MODEL_AT + _MODEL_BYTES].partition(b"\0")[0]
    return FlirFile(records, model.decode("ascii", "replace").strip(), order == ">" and not unread)


def _order(record: bytes) -> str:
    """A record's first word is 2 in its own byte order."""
    return "<" if record[:2] == b"\x02\0" else ">"


def _without_flir(data: bytes) -> bytes:
    """The file behind its first two bytes, less the FLIR segments."""
    kept, position = b"", 2
    for marker, content in jpeg_segments(memoryview(data)):
        start = position
        while data[start + 1] == 0xFF:
            start += 1
        position = start + 4 + len(content)
        if not (marker == 0xE1 and bytes(content[:5]) == _MARK):
            kept += data[start:position]
    return kept + data[position:]
