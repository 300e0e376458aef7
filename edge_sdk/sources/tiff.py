"""The pages of a TIFF file: what each states, and its raw numbers where they are not compressed.

OpenCV reads no page without PhotometricInterpretation, which radiometric cameras leave out, and says of none
what its numbers mean. So the directory is read here, uncompressed pages of one channel too, and what is
compressed is handed to OpenCV as a file of one complete page.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["TiffPage", "is_tiff", "read_plain", "rebuilt", "tiff_pages"]

_Bytes: TypeAlias = "bytes | memoryview"

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_SIZES = dict(zip(range(1, 19), (1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8), strict=True))
"""Bytes of one value of each field type. Source: TIFF 6.0; BigTIFF for 16 - 18."""

_INTEGERS = {1: "B", 3: "H", 4: "I", 16: "Q"}
"""The field types that sizes, offsets and counts have: BYTE, SHORT, LONG, LONG8."""

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_STARTS, _ORIENTATION, _SAMPLES, _ROWS, _COUNTS, _PLANAR = 273, 274, 277, 278, 279, 284
_TILE_WIDTH, _TILE_HEIGHT, _TILE_STARTS, _TILE_COUNTS, _FORMAT = 322, 323, 324, 325, 339
_JPEG_TABLES = 347

_KEPT = (256, 257, 258, 259, 262, 266, 277, 278, 284, 317, 320, 322, 323, 338, 339, 347, 530, 532)
"""Tags that a decoder may need, beside where the strips or tiles are. Source: TIFF 6.0."""

_MOST_VALUES = 1 << 20
"""Strips or tiles of one page that are listed here."""


@dataclass(frozen=True)
class TiffPage:
    """One page, as its directory says.

    Attributes:
        order: "<" or ">", the file's byte order.
        tags: the numbers, and the bytes of JPEG tables, by tag.
    """

    order: str
    tags: Mapping[int, tuple[int, ...] | bytes]

    def numbers(self, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Returns the whole numbers of a tag."""
        found = self.tags.get(tag, default)
        return found if isinstance(found, tuple) else default

    def number(self, tag: int, default: int) -> int:
        """Returns the first number of a tag, or the default where the page has none."""
        return next(iter(self.numbers(tag)), default)

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.number(_WIDTH, 0), self.number(_HEIGHT, 0)

    @property
    def orientation(self) -> int:
        """The EXIF value of how it is to be turned, 1 where it says nothing."""
        return self.number(_ORIENTATION, 1)

    @property
    def channels(self) -> int:
        """Numbers a pixel."""
        return self.number(_SAMPLES, 1)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """What one number is, in the file's byte order; None for what NumPy has no word for."""
        bits = set(self.numbers(_BITS, (1,)))
        kind = {1: "u", 2: "i", 3: "f"}.get(self.number(_FORMAT, 1))
        if len(bits) != 1 or kind is None:
            return None
        try:
            return np.dtype(f"{self.order}{kind}{bits.pop() // 8}")
        except TypeError:
            return None

    @property
    def pieces(self) -> tuple[tuple[int, int], ...]:
        """Where the strips or tiles stand: offset and length of each."""
        starts = self.numbers(_STARTS) or self.numbers(_TILE_STARTS)
        counts = self.numbers(_COUNTS) or self.numbers(_TILE_COUNTS)
        return tuple(zip(starts, counts, strict=False))

    @property
    def is_plain(self) -> bool:
        """Whether `read_plain` can read it: one channel of whole bytes, not compressed."""
        dtype = self.dtype
        wide = dtype is not None and dtype.itemsize > 1
        return wide and self.channels == 1 and self.number(_COMPRESSION, 1) == 1

    @property
    def is_complete(self) -> bool:
        """Whether OpenCV finds in it what it insists on."""
        return _PHOTOMETRIC in self.tags


def is_tiff(data: _Bytes) -> bool:
    """Says whether bytes begin like a TIFF or BigTIFF file."""
    return bytes(data[:4]) in SIGNATURES


def tiff_pages(data: _Bytes) -> Iterator[TiffPage]:
    """Reads the directories one after the other, and checks that every page's picture is there.

    Raises:
        ValueError: it is truncated or damaged, with figures. (struct.error: it ends inside a directory.)
    """
    view = memoryview(data)
    order = "<" if view[0] == 0x49 else ">"
    (version,) = struct.unpack_from(order + "H", view, 2)
    big = version == 43
    count_code, offset_code, entry_size = ("Q", "Q", 20) if big else ("H", "I", 12)
    (position,) = struct.unpack_from(order + offset_code, view, 8 if big else 4)
    seen: set[int] = set()
    while position and position not in seen:
        seen.add(position)
        if position + 2 > len(view):
            raise ValueError(f"truncated TIFF: {len(view)} bytes, a page begins at byte {position}")
        (entries,) = struct.unpack_from(order + count_code, view, position)
        position += struct.calcsize(order + count_code)
        if position + entries * entry_size > len(view):
            raise ValueError(
                f"truncated TIFF: {len(view)} bytes, a directory of {entries} entries reaches to byte "
                f"{position + entries * entry_size}"
            )
        tags: dict[int, tuple[int, ...] | bytes] = {}
        for entry in range(position, position + entries * entry_size, entry_size):
            tag, kind, count = struct.unpack_from(order + "HH" + offset_code, view, entry)
            values_at = _values_at(view, entry, order, offset_code)
            if kind in _INTEGERS:
                if count > _MOST_VALUES:
                    continue
                tags[tag] = struct.unpack_from(f"{order}{count}{_INTEGERS[kind]}", view, values_at)
            elif tag == _JPEG_TABLES:
                tags[tag] = bytes(view[values_at : values_at + count * _SIZES.get(kind, 0)])
        page = TiffPage(order, tags)
        for start, length in page.pieces:
            if start + length > len(view):
                raise ValueError(
                    f"truncated TIFF: {len(view)} bytes, its picture reaches to byte {start + length}"
                )
        yield page
        (position,) = struct.unpack_from(order + offset_code, view, position + entries * entry_size)


def read_plain(data: _Bytes, page: TiffPage) -> NDArray[Any]:
    """Reads a page of which `is_plain` holds: [height, width] in the machine's byte order.

    Copies: into a fresh array.

    Raises:
        ValueError: its strips or tiles do not make the picture that it states.
    """
    dtype, (width, height) = page.dtype, page.size_wh
    assert dtype is not None
    tiled = bool(page.numbers(_TILE_STARTS))
    piece_wh = (
        (page.number(_TILE_WIDTH, 0), page.number(_TILE_HEIGHT, 0))
        if tiled
        else (width, min(height, page.number(_ROWS, height)))
    )
    if min(width, height, *piece_wh) < 1:
        raise ValueError(f"damaged TIFF: {width}x{height} pixels in pieces of {piece_wh[0]}x{piece_wh[1]}")
    across, down = -(-width // piece_wh[0]), -(-height // piece_wh[1])
    pieces = page.pieces
    if len(pieces) < across * down:
        raise ValueError(f"damaged TIFF: {len(pieces)} of {across * down} strips or tiles are listed")
    view = memoryview(data)
    image = np.empty((height, width), dtype.newbyteorder("="))
    for number in range(across * down):
        row, column = number // across * piece_wh[1], number % across * piece_wh[0]
        rows = piece_wh[1] if tiled else min(piece_wh[1], height - row)
        start, length = pieces[number]
        needed = rows * piece_wh[0] * dtype.itemsize
        if length < needed:
            raise ValueError(f"damaged TIFF: strip or tile {number} has {length} bytes, {needed} are needed")
        part = np.frombuffer(view[start : start + needed], dtype).reshape(rows, piece_wh[0])
        target = image[row : row + rows, column : column + piece_wh[0]]
        target[...] = part[: target.shape[0], : target.shape[1]]
    return image


def rebuilt(data: _Bytes, page: TiffPage) -> bytes:
    """Writes one page as a TIFF file of its own, with the tag that OpenCV insists on. Copies: its pieces."""
    order, view = page.order, memoryview(data)
    tags: dict[int, tuple[int, ...] | bytes] = {tag: page.tags[tag] for tag in _KEPT if tag in page.tags}
    tags.setdefault(_PHOTOMETRIC, (1 if page.channels == 1 else 2,))
    pieces = [view[start : start + length] for start, length in page.pieces]
    starts, position = [], 8
    for piece in pieces:
        starts.append(position)
        position += len(piece)
    tiled = bool(page.numbers(_TILE_STARTS))
    tags[_TILE_STARTS if tiled else _STARTS] = tuple(starts)
    tags[_TILE_COUNTS if tiled else _COUNTS] = tuple(len(piece) for piece in pieces)
    directory_at = position + position % 2
    far_at = directory_at + 2 + 12 * len(tags) + 4
    entries, far = b"", b""
    for tag, values in sorted(tags.items()):
        kind, packed = _packed(order, values)
        count = len(values)
        if len(packed) > 4:
            place = struct.pack(order + "I", far_at + len(far))
            far += packed + b"\0" * (len(packed) % 2)
        else:
            place = packed.ljust(4, b"\0")
        entries += struct.pack(order + "HHI", tag, kind, count) + place
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", directory_at)
    body = b"".join((head, *pieces)).ljust(directory_at, b"\0")
    return body + struct.pack(order + "H", len(tags)) + entries + b"\0" * 4 + far


def _packed(order: str, values: tuple[int, ...] | bytes) -> tuple[int, bytes]:
    if isinstance(values, bytes):
        return 7, values
    kind = 4 if max(values, default=0) > 0xFFFF else 3
    return kind, struct.pack(f"{order}{len(values)}{_INTEGERS[kind]}", *values)


def _values_at(view: memoryview, entry: int, order: str, offset_code: str) -> int:
    """Returns where a directory entry's values stand: in the entry itself, or elsewhere if they are many."""
    kind, count = struct.unpack_from(order + "H" + offset_code, view, entry + 2)
    position: int = entry + 4 + struct.calcsize(order + offset_code)
    needed = _SIZES.get(kind, 0) * count
    if needed > struct.calcsize(order + offset_code):
        (position,) = struct.unpack_from(order + offset_code, view, position)
    if position + needed > len(view):
        raise ValueError(f"truncated TIFF: {len(view)} bytes, a table reaches to byte {position + needed}")
    return position
