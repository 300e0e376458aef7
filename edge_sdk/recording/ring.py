"""The files of a ring: which are there, what is in them, and which goes first."""

from __future__ import annotations

import os
import re
import struct
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from edge_sdk.recording.layout import RUN_METADATA

__all__ = ["RING_KEY", "RingFile", "find_files", "name_of", "removal_order", "survey", "too_old"]

RING_KEY = "ring"
"""In a file's facts: it is part of a ring, and goes when there is no room."""

_SHORT_NS = 10_000_000_000
"""All files of a start together shorter than this: it failed, and they go before others."""

_MAGIC = b"\x89MCAP0\r\n"
_HEADER, _CHUNK, _MESSAGE_INDEX, _METADATA = 0x01, 0x06, 0x07, 0x0C
_PAIR_CHANNEL, _INDEX_ENTRY_NBYTES = 1, 16
_MOST_METADATA_NBYTES = 1 << 20
_FIRST_TRUE_DATE_S = 1_577_836_800
"""2020-01-01: a clock or a file from before it was never set, and says nothing of an age."""


@dataclass(frozen=True)
class RingFile:
    """One file of a ring.

    Attributes:
        path, number: the file, and its number in the ring.
        nbytes: its size.
        pairs: pairs that can be read from it.
        first_ns, last_ns: times of its first and last message, nanoseconds since 1970; 0 without any.
        start: names the start that wrote it.
    """

    path: Path
    number: int
    nbytes: int
    pairs: int = 0
    first_ns: int = 0
    last_ns: int = 0
    start: str = ""


def name_of(path: Path, number: int) -> Path:
    """Returns a file of the ring that is named by `path`."""
    return path.with_name(f"{path.stem}-{number:03d}{path.suffix}")


def find_files(path: Path) -> tuple[list[RingFile], int]:
    """Finds the files of a ring, and the number of the next one.

    Files with such a name that are no part of a ring (another recording, somebody's copy) are left alone,
    and their numbers are not used again.
    """
    pattern = re.compile(rf"{re.escape(path.stem)}-(\d+){re.escape(path.suffix)}")
    found, following = [], 0
    try:
        entries = list(os.scandir(path.parent))
    except FileNotFoundError:
        return [], 0
    for entry in entries:
        match = pattern.fullmatch(entry.name)
        if match is None:
            continue
        following = max(following, int(match[1]) + 1)
        if entry.is_file(follow_symlinks=False) and (file := survey(Path(entry), int(match[1]))) is not None:
            found.append(file)
    return sorted(found, key=lambda file: file.number), following


def survey(path: Path, number: int) -> RingFile | None:
    """Looks through a file by the heads of its records, without reading its pictures.

    Returns: None where it is no part of a ring.
    """
    try:
        with path.open("rb", buffering=0) as file:
            nbytes = os.fstat(file.fileno()).st_size
            return _survey(file.fileno(), path, number, nbytes)
    except OSError:
        return None


def _survey(descriptor: int, path: Path, number: int, nbytes: int) -> RingFile | None:
    magic = os.pread(descriptor, len(_MAGIC), 0)
    if magic != _MAGIC[: len(magic)]:
        return None
    at, facts, begun = len(_MAGIC), None, False
    pairs, first_ns, last_ns = 0, 0, 0
    while True:
        head = os.pread(descriptor, 9 + 16, at)
        if len(head) < 9:
            break
        opcode, length = struct.unpack_from("<BQ", head)
        if at + 9 + length > nbytes:
            break  # cut off here
        if opcode == _METADATA and facts is None and length <= _MOST_METADATA_NBYTES:
            facts = _metadata(os.pread(descriptor, length, at + 9))
        elif opcode == _CHUNK and len(head) == 25:
            start_ns, end_ns = struct.unpack_from("<QQ", head, 9)
            first_ns, last_ns = min(first_ns or start_ns, start_ns), max(last_ns, end_ns)
        elif opcode == _MESSAGE_INDEX and len(head) >= 15:
            channel, size = struct.unpack_from("<HI", head, 9)
            pairs += size // _INDEX_ENTRY_NBYTES if channel == _PAIR_CHANNEL else 0
        begun = begun or opcode != _HEADER
        at += 9 + length
    if facts is None:  # cut off before it said whose it is, so nothing is in it; or no file of ours
        return None if begun else RingFile(path, number, nbytes)
    if RING_KEY not in facts or facts.get("segment") != str(number):
        return None
    start = facts.get("started_unix_ns", "")
    return RingFile(path, number, nbytes, pairs, first_ns, last_ns, start)


def _metadata(content: bytes) -> dict[str, str] | None:
    """Reads a metadata record: a name, then a map of texts; None where it is another one or spoilt."""
    try:
        name, at = _text(content, 0)
        if name != RUN_METADATA:
            return None
        at += 4
        found = {}
        while at < len(content):
            key, at = _text(content, at)
            found[key], at = _text(content, at)
    except (struct.error, UnicodeDecodeError):
        return None
    return found


def _text(content: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<I", content, at)
    return content[at + 4 : at + 4 + size].decode(), at + 4 + size


def removal_order(files: list[RingFile]) -> list[RingFile]:
    """Sorts files by which goes first: those without pairs, those of starts that failed soon, the oldest."""
    spans: dict[str, list[int]] = defaultdict(list)
    for file in files:
        if file.pairs:
            spans[file.start] += [file.first_ns, file.last_ns]
    short = {start for start, times in spans.items() if max(times) - min(times) < _SHORT_NS}
    return sorted(
        files, key=lambda file: (0 if not file.pairs else 1 if file.start in short else 2, file.number)
    )


def too_old(path: Path, max_age_s: float, now_unix_s: float | None = None) -> bool:
    """Says whether a file was last written so long ago; never where its date or today's cannot be true."""
    now_s = time.time() if now_unix_s is None else now_unix_s
    try:
        written_s = path.stat().st_mtime
    except OSError:
        return False
    return min(now_s, written_s) > _FIRST_TRUE_DATE_S and now_s - written_s > max_age_s
