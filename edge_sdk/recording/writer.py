"""One MCAP file, or a row of them, of bounded size and whole up to its last second."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edge_sdk.errors import ConfigError, DeviceError
from edge_sdk.recording.layout import PAIR_SCHEMA, RUN_METADATA, TOPICS
from edge_sdk.requirements import install_hint

__all__ = ["RecordingPlan", "SegmentedFile"]

_CHUNK_BYTES = 256 * 1024
"""Pairs are compressed and written in chunks of about this size: what a power cut can spoil."""

_NEVER_BYTES = 1 << 30
"""Chunk size for the library: a chunk ends here between pairs, so that none lies in two."""

_SEGMENTS = 8
"""Files of a ring: the oldest eighth goes when the limit is reached."""

_SUMMARY_BYTES, _CHUNK_INDEX_BYTES = 8 * 1024, 256
"""Room kept for what `finish` writes behind the data: fixed parts, and an entry a chunk."""

_MIB = 1024 * 1024
_LEAST_MIB = 4


@dataclass(frozen=True)
class RecordingPlan:
    """Where a recording goes, what it holds and how large it gets.

    Attributes:
        path: a file with a suffix (.mcap); else a folder, in which the file is named by date and time.
        rgb: "lossless", or "jpeg": the detector is then given what the JPEG decodes to, so that a
            replay sees the same pixels.
        jpeg_quality: 1 - 100.
        limit_mib: the most that the recording may take on disk, in MiB.
        when_full: "stop" ends the recording and lets the run go on; "ring" writes files PATH-000,
            PATH-001, ... and removes the oldest so that all together keep the limit.
        when_behind: "wait" holds the run back where the disk is slower, so that every pair is in the
            recording; "drop" leaves pairs out and counts them.
    """

    path: Path
    rgb: str = "lossless"
    jpeg_quality: int = 90
    limit_mib: int = 4096
    when_full: str = "stop"
    when_behind: str = "wait"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("rgb", ("lossless", "jpeg")),
            ("when_full", ("stop", "ring")),
            ("when_behind", ("wait", "drop")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"recording {name}: expected {' or '.join(allowed)}, found {getattr(self, name)!r}"
                )
        if not 1 <= self.jpeg_quality <= 100:
            raise ConfigError(f"recording jpeg_quality: expected 1 - 100, found {self.jpeg_quality}")
        if self.limit_mib < _LEAST_MIB:
            raise ConfigError(
                f"recording limit: expected {_LEAST_MIB} MiB or more, found {self.limit_mib} MiB"
            )


class SegmentedFile:
    """Writes entries to one file, or to a ring of files.

    Arguments:
        path: the file. Refused where it is there already: a recording is evidence.
        facts: of the run, text to text; written at the start of each file.
        limit_bytes: never exceeded, all files together.
        ring: see `RecordingPlan.when_full`.

    Raises:
        ConfigError: the file exists, or the package `mcap` is not installed.
        DeviceError: it cannot be made.
    """

    def __init__(self, path: Path, facts: Mapping[str, str], *, limit_bytes: int, ring: bool) -> None:
        try:
            import mcap.writer
        except ImportError:
            raise ConfigError(f"recordings need the package mcap: {install_hint('record')}") from None
        self._make_writer = mcap.writer.Writer
        self._facts = dict(facts)
        self._path, self._limit_bytes, self._ring = path, limit_bytes, ring
        self._segment_bytes = limit_bytes // _SEGMENTS if ring else limit_bytes
        self._segments: list[Path] = []
        self._number = 0
        first = self._segment_path(0)
        if first.exists():
            raise ConfigError(
                f"{first}: exists already and is not overwritten; name another file or remove it"
            )
        self._open(first)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are there now, oldest first."""
        return tuple(self._segments)

    @property
    def nbytes(self) -> int:
        """Bytes on disk or about to be, all files together."""
        earlier = sum(path.stat().st_size for path in self._segments[:-1] if path.exists())
        return earlier + self._at + self._pending

    def write(
        self, sequence: int, time_ns: int, rgb: bytes | None, thermal: bytes | None, pair: bytes
    ) -> bool:
        """Writes one pair.

        Arguments:
            sequence: its number.
            time_ns: nanoseconds since 1970 at which it arrived.
            rgb, thermal: the pictures' bytes, or None.
            pair: the JSON object.

        Returns: False where it no longer fits and nothing was written.

        Raises:
            DeviceError: the disk does not take it.
        """
        size = len(pair) + len(rgb or b"") + len(thermal or b"") + 256
        if not self._fits(size):
            if not self._ring or size + _SUMMARY_BYTES > self._segment_bytes:
                return False
            self._next_segment()
        try:
            for channel, data in ((2, rgb), (3, thermal), (1, pair)):
                if data is not None:
                    self._writer.add_message(channel, time_ns, data, time_ns, sequence)
                    self._pending += len(data) + 64
            if self._pending >= _CHUNK_BYTES:
                self._writer.flush()  # type: ignore[no-untyped-call]
        except OSError as error:
            raise self._failed(error) from None
        self._look()
        return True

    def sync(self) -> None:
        """Brings everything so far to the disk, as far as the system can say.

        Raises:
            DeviceError: the disk does not take it.
        """
        try:
            self._writer.flush()  # type: ignore[no-untyped-call]
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from None
        self._look()

    def close(self) -> None:
        """Writes the summary and closes the file. Without it the file can be read all the same."""
        try:
            self._writer.finish()  # type: ignore[no-untyped-call]
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from None
        finally:
            self._file.close()

    def _fits(self, size: int) -> bool:
        summary = _SUMMARY_BYTES + _CHUNK_INDEX_BYTES * (self._chunks + 2)
        return self._at + self._pending + size + summary <= self._segment_bytes

    def _next_segment(self) -> None:
        self.close()
        self._number += 1
        while len(self._segments) >= _SEGMENTS:
            self._segments.pop(0).unlink(missing_ok=True)
        self._open(self._segment_path(self._number))

    def _segment_path(self, number: int) -> Path:
        if not self._ring:
            return self._path
        return self._path.with_name(f"{self._path.stem}-{number:03d}{self._path.suffix}")

    def _open(self, path: Path) -> None:
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("xb")
        except OSError as error:
            raise DeviceError(f"{path}: cannot be written: {error.strerror or error}") from None
        self._segments.append(path)
        self._at = self._pending = self._chunks = 0
        self._writer = self._make_writer(self._file, chunk_size=_NEVER_BYTES)
        self._writer.start(profile="", library="edge-sdk")
        self._writer.add_metadata(RUN_METADATA, {**self._facts, "segment": str(self._number)})
        schema = self._writer.register_schema(
            "edge-sdk/recording/pair", "jsonschema", json.dumps(PAIR_SCHEMA).encode()
        )
        for topic in TOPICS:
            is_pair = topic == "/pair"
            self._writer.register_channel(topic, "json" if is_pair else "raw", schema if is_pair else 0)
        self.sync()

    def _look(self) -> None:
        at = self._file.tell()
        if at != self._at:
            self._at, self._pending = at, 0
            self._chunks += 1

    def _failed(self, error: OSError) -> DeviceError:
        return DeviceError(f"{self._segments[-1]}: cannot be written: {error.strerror or error}")


def limit_bytes(plan: RecordingPlan) -> int:
    """Returns the plan's limit in bytes."""
    return plan.limit_mib * _MIB


def facts_text(facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns facts as MCAP metadata wants them: text to text."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}
