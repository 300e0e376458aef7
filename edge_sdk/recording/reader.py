"""Reads recordings back, whole ones and what a power cut left of one."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.recording.layout import RUN_METADATA, TOPICS, VERSION, RecordedPair, pair_from_json
from edge_sdk.requirements import install_hint

__all__ = ["Recording", "RecordingFacts"]

_MOST_RECORD_BYTES = 1 << 30


@dataclass(frozen=True)
class RecordingFacts:
    """What a recording says of its run.

    Attributes:
        engine, engine_version, bundle_sha256, precision, provider: what answered.
        device: the device that was asked for.
        gate: the thresholds, name to value.
        source: the URI of the run's source.
        thermal_unit, registration: of the source, as its record had it.
        rgb: "lossless" or "jpeg".
        opencv: version of the library that encoded and decoded the pictures.
        started_unix_ns: when it began, nanoseconds since 1970.
        sdk_version: of the SDK that made it.
    """

    engine: str = ""
    engine_version: str = ""
    bundle_sha256: str = ""
    precision: str = ""
    provider: str = ""
    device: str = "auto"
    gate: Mapping[str, Any] | None = None
    source: str = ""
    thermal_unit: str = "unknown"
    registration: str = "unknown"
    rgb: str = "lossless"
    opencv: str = ""
    started_unix_ns: int = 0
    sdk_version: str = ""

    def as_json(self) -> dict[str, Any]:
        """Returns the facts that a recorder has to be told."""
        mine = dict(vars(self))
        for told_elsewhere in ("rgb", "opencv", "started_unix_ns"):
            del mine[told_elsewhere]
        return mine


class Recording:
    """A recording, open for reading from its start.

    A file that ends in the middle of a chunk is read up to the last whole pair; `whole` is then False
    and `problem` says where it ends. A chunk whose checksum is wrong is one `FrameError`; reading
    goes on behind it.

    Arguments:
        path: the file.

    Attributes:
        path: as given.
        facts: of the run.
        whole: whether the file has its end; None until the end was reached.
        problem: what is wrong with the file, or "".

    Raises:
        ConfigError: the package `mcap` is not installed, or the file is no recording of this SDK.
        SourceError: no such file, or nothing in it can be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import mcap.stream_reader
        except ImportError:
            raise ConfigError(f"recordings need the package mcap: {install_hint('record')}") from None
        self._mcap = mcap.stream_reader
        self.path = Path(path)
        self.whole: bool | None = None
        self.problem = ""
        try:
            self._file = self.path.open("rb")
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be opened: {error.strerror or error}") from None
        try:
            self.length = self._stated_length()
            self.facts = self._read_facts()
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[RecordedPair | FrameError]:
        """Reads from the start; yields a `FrameError` for what is damaged."""
        self._file.seek(0)
        self.whole, self.problem = None, ""
        topics = dict(enumerate(TOPICS, 1))
        pictures: dict[int, dict[str, bytes]] = {}
        last = 0
        for record in self._records():
            if isinstance(record, FrameError):
                yield record
                continue
            for message in record:
                topic = topics.get(message.channel_id)
                if topic != "/pair":
                    pictures.setdefault(message.sequence, {})[topic or ""] = message.data
                    continue
                mine = pictures.pop(message.sequence, {})
                pictures.clear()  # of pairs whose entry was lost with a damaged chunk
                last = message.sequence
                try:
                    entry = json.loads(message.data)
                    yield pair_from_json(entry, last, mine.get("/rgb"), mine.get("/thermal"))
                except FrameError as error:
                    yield error
                except ValueError as error:
                    yield FrameError(f"#{last}", f"its entry is no JSON: {error}", self.path)

    def close(self) -> None:
        """Closes the file. Closing twice is fine."""
        self._file.close()

    def _records(self) -> Iterator[Any]:
        """Yields the messages of each chunk as a list, or what is wrong with it."""
        from mcap.records import Chunk, Footer, Message

        reader = self._mcap.StreamReader(self._file, emit_chunks=True, record_size_limit=_MOST_RECORD_BYTES)
        records = reader.records
        while True:
            try:
                record = next(records, None)
            except Exception as error:  # the library has no one type for a file that is cut short
                self.whole = False
                self.problem = (
                    f"cut short or damaged near byte {self._file.tell()}: {error or type(error).__name__}"
                )
                return
            if record is None or isinstance(record, Footer):
                self.whole = isinstance(record, Footer)
                return
            if not isinstance(record, Chunk):
                continue
            try:
                parts = self._mcap.breakup_chunk(record, validate_crc=True)
            except Exception as error:  # zstandard, checksum or struct: a damaged chunk either way
                yield FrameError(
                    f"before byte {self._file.tell()}",
                    f"a chunk of the recording is damaged: {error}",
                    self.path,
                )
                continue
            yield [part for part in parts if isinstance(part, Message)]

    def _read_facts(self) -> RecordingFacts:
        from mcap.records import Metadata

        self._file.seek(0)
        try:
            for record in self._mcap.StreamReader(
                self._file, emit_chunks=True, record_size_limit=_MOST_RECORD_BYTES
            ).records:
                if isinstance(record, Metadata) and record.name == RUN_METADATA:
                    return _facts(record.metadata, self.path)
                if type(record).__name__ == "Chunk":
                    break
        except ConfigError:
            raise
        except Exception as error:  # likewise
            size = self.path.stat().st_size
            raise SourceError(
                f"{self.path}: not a recording, or cut off before its first pair ({size} bytes): "
                f"{error or type(error).__name__}"
            ) from None
        raise ConfigError(
            f"{self.path}: an MCAP file, but no recording of edge-sdk: it has no {RUN_METADATA!r}"
        )

    def _stated_length(self) -> int | None:
        """Reads the number of pairs from the summary; None where there is none."""
        from mcap.records import Footer, Statistics

        try:
            self._file.seek(-(8 + 9 + 20), os.SEEK_END)
            (start,) = struct.unpack("<9xQ12x8x", self._file.read(8 + 9 + 20))
            if not start:
                return None
            self._file.seek(start)
            for record in self._mcap.StreamReader(
                self._file, skip_magic=True, record_size_limit=_MOST_RECORD_BYTES
            ).records:
                if isinstance(record, Statistics):
                    return record.channel_message_counts.get(1, 0)
                if isinstance(record, Footer):
                    return None
        except Exception:  # no summary: the file is cut short, which reading it will say
            return None
        return None


def _facts(metadata: Mapping[str, str], path: Path) -> RecordingFacts:
    if metadata.get("version") != str(VERSION):
        raise ConfigError(
            f"{path}: a recording of version {metadata.get('version')!r}, this SDK reads version {VERSION}"
        )
    known = RecordingFacts()
    values: dict[str, Any] = {}
    for name, default in vars(known).items():
        text = metadata.get(name)
        if text is not None:
            values[name] = text if isinstance(default, str) else json.loads(text)
    return RecordingFacts(**values)
