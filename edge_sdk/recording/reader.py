"""Reads recordings back, whole ones and what a power cut left of one."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.json_text import JsonProblem, json_value
from edge_sdk.picture_size import MOST_PIXELS
from edge_sdk.recording.layout import RUN_METADATA, TOPICS, VERSION, RecordedPair, pair_from_json
from edge_sdk.requirements import install_hint

__all__ = ["Recording", "RecordingFacts"]

_MOST_CHUNK_BYTES = 5 * MOST_PIXELS + (16 << 20)
"""Unpacked: the largest colour and thermal picture that are read, and an entry."""


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
                    entry = json_value(message.data)
                    yield pair_from_json(entry, last, mine.get("/rgb"), mine.get("/thermal"))
                except FrameError as error:
                    yield error
                except JsonProblem as problem:
                    yield FrameError(f"#{last}", f"its entry: {problem}", self.path)

    def close(self) -> None:
        """Closes the file. Closing twice is fine."""
        self._file.close()

    def _records(self) -> Iterator[Any]:
        """Yields the messages of each chunk as a list, or what is wrong with it."""
        from mcap.records import Chunk, Footer, Message

        records = self._reader().records
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
                parts = self._unpacked(record)
            except Exception as error:  # zstandard, checksum or struct: a damaged chunk either way
                yield FrameError(
                    f"before byte {self._file.tell()}",
                    f"a chunk of the recording is damaged: {error}",
                    self.path,
                )
                continue
            yield [part for part in parts if isinstance(part, Message)]

    def _reader(self, skip_magic: bool = False) -> Any:
        file: Any = _Bounded(self._file)
        return self._mcap.StreamReader(
            file, emit_chunks=True, skip_magic=skip_magic, record_size_limit=_MOST_CHUNK_BYTES
        )

    def _unpacked(self, chunk: Any) -> list[Any]:
        """Takes a chunk apart, if what it states to hold is no more than a pair can take."""
        import zstandard

        if chunk.compression not in ("", "zstd"):
            raise ValueError(f"packed with {chunk.compression!r}, expected zstd")
        stated = [chunk.uncompressed_size]
        if chunk.compression == "zstd":
            in_frame = zstandard.get_frame_parameters(chunk.data).content_size
            stated += [in_frame] if in_frame != _UNKNOWN_SIZE else []
        if max(stated) > _MOST_CHUNK_BYTES:
            raise ValueError(f"it states {max(stated)} bytes, at most {_MOST_CHUNK_BYTES} are read")
        parts: list[Any] = self._mcap.breakup_chunk(chunk, validate_crc=True)
        return parts

    def _read_facts(self) -> RecordingFacts:
        from mcap.records import Metadata

        self._file.seek(0)
        try:
            for record in self._reader().records:
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
            for record in self._reader(skip_magic=True).records:
                if isinstance(record, Statistics):
                    return record.channel_message_counts.get(1, 0)
                if isinstance(record, Footer):
                    return None
        except Exception:  # no summary: the file is cut short, which reading it will say
            return None
        return None


class _Bounded:
    """A file that is never asked for more bytes than it has: lengths in damaged files may state anything."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    def read(self, length: int = -1) -> bytes:
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if length < 0 else min(length, left))


_UNKNOWN_SIZE = 2**64 - 1
"""What zstandard says of a frame that does not state how much it holds; unpacking is then bounded."""


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
            values[name] = text if isinstance(default, str) else _fact(name, text, path)
    return RecordingFacts(**values)


def _fact(name: str, text: str, path: Path) -> Any:
    try:
        value = json_value(text)
    except JsonProblem as problem:
        raise ConfigError(f"{path}: {name} of the recording: {problem}") from None
    if name == "gate" and value is not None:
        sound = isinstance(value, dict) and all(
            isinstance(item, (int, float, str)) for item in value.values()
        )
    else:
        sound = value is None or (isinstance(value, int) and not isinstance(value, bool))
    if not sound:
        raise ConfigError(f"{path}: {name} of the recording: it cannot be {str(value)[:60]!r}")
    return value
