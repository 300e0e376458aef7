"""How many pictures a Matroska or WebM file holds, counted block by block: its header does not say.

Source: RFC 9559 (Matroska) and RFC 8794 (EBML), which name the elements used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["MatroskaBlocks", "count_blocks", "is_matroska"]

_EBML, _SEGMENT, _CLUSTER, _TRACKS = 0x1A45DFA3, 0x18538067, 0x1F43B675, 0x1654AE6B
_TRACK_ENTRY, _TRACK_NUMBER, _TRACK_TYPE = 0xAE, 0xD7, 0x83
_BLOCK_GROUP, _BLOCK, _SIMPLE_BLOCK = 0xA0, 0xA1, 0xA3
_OPENED = (_SEGMENT, _CLUSTER, _TRACKS, _TRACK_ENTRY, _BLOCK_GROUP)
"""Elements that are looked into; all others are passed over."""

_VIDEO = 1
_UNKNOWN = (1 << 56) - 1
"""The length of a segment that was written without an end in sight, in the 8 bytes that writers use."""


@dataclass(frozen=True)
class MatroskaBlocks:
    """What was counted.

    Attributes:
        count: blocks of the first video track.
        whole: whether no element reaches beyond the end of the file.
    """

    count: int
    whole: bool


def is_matroska(path: Path) -> bool:
    """Says whether a file begins like a Matroska or WebM file."""
    with path.open("rb") as file:
        return file.read(4) == _EBML.to_bytes(4, "big")


def count_blocks(path: Path) -> MatroskaBlocks | None:
    """Counts the pictures of a file's first video track; None where the file makes no sense.

    Pictures are passed over and not read: the time grows with their number, not with their size.
    """
    size = path.stat().st_size
    counts: dict[int, int] = {}
    video = number = None
    whole = True
    with path.open("rb") as file:
        while True:
            start = file.tell()
            ident = _vint(file, keep_marker=True)
            if ident is None:
                break
            length = _vint(file)
            if length is None:
                return _answer(counts, video, False)
            end = file.tell() + length
            if ident in _OPENED:
                if ident == _TRACK_ENTRY:
                    number = None
                elif ident == _SEGMENT and length != _UNKNOWN and end > size:
                    whole = False
                continue
            if end > size:
                return _answer(counts, video, False)
            if ident in (_TRACK_NUMBER, _TRACK_TYPE) and length <= 8:
                value = int.from_bytes(file.read(length), "big")
                if ident == _TRACK_NUMBER:
                    number = value
                elif value == _VIDEO and video is None:
                    video = number
            elif ident in (_SIMPLE_BLOCK, _BLOCK):
                track = _vint(file) or 0
                counts[track] = counts.get(track, 0) + 1
            if end <= start:
                return None
            file.seek(end)
    return _answer(counts, video, whole)


def _answer(counts: dict[int, int], video: int | None, whole: bool) -> MatroskaBlocks | None:
    return None if video is None else MatroskaBlocks(counts.get(video, 0), whole)


def _vint(file: BinaryIO, keep_marker: bool = False) -> int | None:
    """Reads a number of 1 to 8 bytes, whose leading zeros say how many; None at the end or for none."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    length = 9 - first[0].bit_length()
    rest = file.read(length - 1)
    if len(rest) < length - 1:
        return None
    value = int.from_bytes(first + rest, "big")
    return value if keep_marker else value & ((1 << 7 * length) - 1)
