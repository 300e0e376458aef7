"""One MCAP file, or a row of them, of bounded size and whole up to its last second."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from edge_sdk.errors import ConfigError, DeviceError
from edge_sdk.recording.disk_file import DiskFile, is_full, is_held
from edge_sdk.recording.layout import PAIR_SCHEMA, RUN_METADATA, TOPICS
from edge_sdk.recording.ring import (
    RING_KEY,
    RingFile,
    find_files,
    name_of,
    removal_order,
    too_old,
)
from edge_sdk.requirements import install_hint

__all__ = ["RecordingPlan", "SegmentedFile", "Wrote"]

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 256 * 1024
"""Pairs are compressed and written in chunks of about this size: what a power cut can spoil."""

_NEVER_BYTES = 1 << 30
"""Chunk size for the library: a chunk ends here between pairs, so that none lies in two."""

_SEGMENTS = 8
"""Files of a ring, about: the oldest goes when the limit is reached. Each holds a pair at least."""

_SUMMARY_BYTES, _CHUNK_INDEX_BYTES = 8 * 1024, 256
"""Room kept for what `finish` writes behind the data: fixed parts, and an entry a chunk."""

_ENTRY_BYTES = 64 * 1024
"""Room for what is said of one pair, its boxes included."""

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
            PATH-001, ... and removes the oldest so that all together keep the limit; started again under
            its name it goes on.
        when_behind: "wait" holds the run back where the disk is slower, so that every pair is in the
            recording; "drop" leaves pairs out and counts them. On a full disk both leave pairs out, but
            only "drop" begins there.
        max_age_s: files of a ring that were last written so long ago are removed; None: none are.
    """

    path: Path
    rgb: str = "lossless"
    jpeg_quality: int = 90
    limit_mib: int = 4096
    when_full: str = "stop"
    when_behind: str = "wait"
    max_age_s: float | None = None

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
        if self.max_age_s is not None and not self.max_age_s > 0:
            raise ConfigError(f"recording max_age_s: expected more than 0 seconds, found {self.max_age_s}")


class Wrote(Enum):
    """What became of a pair that was to be written."""

    TAKEN = "taken"
    LIMIT = "the limit is reached"
    TOO_LARGE = "it is larger than half of the ring"
    NO_SPACE = "the disk is full"


class SegmentedFile:
    """Writes entries to one file, or to a ring of files.

    A ring that is there already under its name goes on: its files count, and the oldest make room, those
    of starts that failed soon before all others. Nothing is removed before a pair of this start is on the
    disk, but for files without any pair. On a full disk a ring makes room; what cannot be written waits in
    memory, `held` says why, and every further call tries again.

    Arguments:
        path: the file. Refused where it is there already, unless it names a ring: a recording is evidence.
        facts: of the run, text to text; written at the start of each file.
        limit_bytes: never exceeded, all files together; but for the moment of a start's first pair.
        ring: see `RecordingPlan.when_full`.
        max_age_s: files of a ring that were last written so long ago are removed; None: none are.
        patient: begin on a full disk too, with `held`.

    Attributes:
        held: why nothing can be written at present, or "".
        pairs: pairs of this start in the files that are there.
        removed: pairs of this start that went with its oldest files.
        lost: pairs that were taken and that a full disk never took, known after `close`.

    Raises:
        ConfigError: the file exists, another process writes to the ring, or the package `mcap` is not
            installed.
        DeviceError: it cannot be made.
    """

    def __init__(
        self,
        path: Path,
        facts: Mapping[str, str],
        *,
        limit_bytes: int,
        ring: bool,
        max_age_s: float | None = None,
        patient: bool = False,
    ) -> None:
        try:
            import mcap.writer
        except ImportError:
            raise ConfigError(f"recordings need the package mcap: {install_hint('record')}") from None
        self._make_writer = mcap.writer.Writer
        self._facts = dict(facts)
        self._path, self._limit_bytes, self._ring, self._max_age_s = path, limit_bytes, ring, max_age_s
        self._segment_bytes = limit_bytes // _SEGMENTS if ring else limit_bytes
        self.held = ""
        self.pairs = self.removed = self.lost = 0
        self._earlier: list[RingFile] = []
        self._own: list[RingFile] = []
        self._file: DiskFile | None = None
        self._number = 0
        self._header = _SUMMARY_BYTES
        self._trimmed = False
        if ring:
            self._earlier, self._number = find_files(path)
            for file in self._earlier:
                if is_held(file.path):
                    raise ConfigError(
                        f"{file.path}: another process records into this ring; name another one"
                    )
        elif path.exists():
            raise ConfigError(
                f"{path}: exists already and is not overwritten; name another file or remove it"
            )
        self._open_next()
        if self.held and not patient:
            self._remove_current()
            raise DeviceError(f"{self._current_path}: cannot be written: {self.held}")

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of this start that are there now, oldest first."""
        current = () if self._file is None else (self._file.path,)
        return (*(file.path for file in self._own), *current)

    @property
    def nbytes(self) -> int:
        """Bytes of this start on disk or about to be, all its files together."""
        return sum(file.nbytes for file in self._own) + self._here

    def least_bytes(self, pair_nbytes: int) -> int:
        """Returns the least limit with which pairs of a size can be recorded: a ring needs room for two."""
        one = self._header + pair_nbytes + _ENTRY_BYTES + _SUMMARY_BYTES + 3 * _CHUNK_INDEX_BYTES
        return 2 * one if self._ring else one

    def write(
        self, sequence: int, time_ns: int, rgb: bytes | None, thermal: bytes | None, pair: bytes
    ) -> Wrote:
        """Writes one pair.

        Arguments:
            sequence: its number.
            time_ns: nanoseconds since 1970 at which it arrived.
            rgb, thermal: the pictures' bytes, or None.
            pair: the JSON object.

        Returns: whether it was taken; if not, nothing of it was written.

        Raises:
            DeviceError: the disk fails; that it is full is no error here.
        """
        size = len(pair) + len(rgb or b"") + len(thermal or b"") + 256
        if self.held and not self.retry():
            return Wrote.NO_SPACE
        if self._ring and self._header + size + _SUMMARY_BYTES > self._limit_bytes // 2:
            return Wrote.TOO_LARGE
        if not self._fits(size):
            if not self._ring:
                return Wrote.LIMIT
            if self._taken and not self._next_segment():
                return Wrote.NO_SPACE
        if self._trimmed:
            self._make_room(size + _SUMMARY_BYTES)
        for channel, data in ((2, rgb), (3, thermal), (1, pair)):
            if data is not None:
                self._writer.add_message(channel, time_ns, data, time_ns, sequence)
                self._pending += len(data) + 64
        self._taken += 1
        self.pairs += 1
        if self._pending >= _CHUNK_BYTES or not self._trimmed:
            self._drain(sync=not self._trimmed)
        return Wrote.TAKEN

    def sync(self) -> None:
        """Brings everything so far to the disk, as far as the system can say.

        Raises:
            DeviceError: the disk fails.
        """
        self.retry()

    def retry(self) -> bool:
        """Tries again what the full disk did not take; returns whether all is well.

        Raises:
            DeviceError: the disk fails.
        """
        if self._file is not None:
            self._drain(sync=True)
        elif self.held:
            self._open_next()
        return not self.held

    def close(self) -> None:
        """Writes the summary and closes the file. Without it the file can be read all the same.

        A file without a pair is removed.
        """
        if self._file is None:
            return
        if not self._taken:
            self._remove_current()
            return
        try:
            self._finish()
        finally:
            self._settle_current()

    def _fits(self, size: int) -> bool:
        summary = _SUMMARY_BYTES + _CHUNK_INDEX_BYTES * (self._chunks + 2)
        return self._here + size + summary <= self._segment_bytes

    @property
    def _here(self) -> int:
        """Bytes of the file in hand, on disk or about to be."""
        return 0 if self._file is None else self._file.tell() + self._pending

    @property
    def _current_path(self) -> Path:
        return name_of(self._path, self._number) if self._ring else self._path

    def _next_segment(self) -> bool:
        """Ends the file in hand and begins the next one; False where the disk is too full for it."""
        self._finish()
        if self.held:
            return False
        self._settle_current()
        self._number += 1
        self._open_next()
        return not self.held

    def _open_next(self) -> None:
        path = self._current_path
        self.held = ""
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            self._file = DiskFile(path)
        except OSError as error:
            if not is_full(error):
                raise DeviceError(f"{path}: cannot be written: {error.strerror or error}") from None
            if self._remove_oldest():
                self._open_next()
            else:
                self._hold(error)
            return
        _log.info("recording to %s", path)
        self._pending = self._chunks = self._taken = self._safe = 0
        self._finished = False
        self._writer = self._make_writer(self._file, chunk_size=_NEVER_BYTES)  # type: ignore[arg-type]
        self._writer.start(profile="", library="edge-sdk")
        mine = {**self._facts, "segment": str(self._number), **({RING_KEY: "1"} if self._ring else {})}
        self._writer.add_metadata(RUN_METADATA, mine)
        schema = self._writer.register_schema(
            "edge-sdk/recording/pair", "jsonschema", json.dumps(PAIR_SCHEMA).encode()
        )
        for topic in TOPICS:
            is_pair = topic == "/pair"
            self._writer.register_channel(topic, "json" if is_pair else "raw", schema if is_pair else 0)
        self._drain(sync=True)
        self._header = self._file.tell() + len(json.dumps(PAIR_SCHEMA)) + 256

    def _drain(self, sync: bool = False) -> None:
        """Hands the chunk in hand to the disk, if it takes it."""
        assert self._file is not None
        before = self._file.tell()
        if not self._finished:
            self._writer.flush()  # type: ignore[no-untyped-call]
        if self._file.tell() != before:
            self._pending = 0
            self._chunks += 1
        while True:
            try:
                self._file.drain(sync)
            except OSError as error:
                if not is_full(error):
                    raise DeviceError(
                        f"{self._file.path}: cannot be written: {error.strerror or error}"
                    ) from None
                if self._remove_oldest():
                    continue
                self._hold(error)
                return
            break
        self.held, self._safe = "", self._taken
        if self.pairs and not self._trimmed:
            self._trimmed = True
            self._make_room(_SUMMARY_BYTES)
            self._remove_old()

    def _finish(self) -> None:
        if not self._finished:
            self._drain()
            self._writer.finish()  # type: ignore[no-untyped-call]
            self._finished = True
        self._drain(sync=True)

    def _settle_current(self) -> None:
        """Closes the file in hand, as far as it got."""
        file, self._file = self._file, None
        assert file is not None
        nbytes = file.tell() - file.waiting
        file.close()
        self.lost += self._taken - self._safe
        self.pairs -= self._taken - self._safe
        self._own.append(RingFile(file.path, self._number, nbytes, self._safe))
        if self._ring and self._trimmed:
            self._remove_old()

    def _remove_current(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.path.unlink(missing_ok=True)
            file.close()

    def _hold(self, error: OSError) -> None:
        self.held = error.strerror or str(error)

    def _make_room(self, size: int) -> None:
        """Removes files of the ring until so many bytes more keep the limit."""
        while self._ring and self._total() + size > self._limit_bytes and self._remove_oldest():
            pass

    def _total(self) -> int:
        return self.nbytes + sum(file.nbytes for file in self._earlier)

    def _remove_oldest(self) -> bool:
        """Removes the file of the ring that goes first; False where none may go."""
        if not self._ring:
            return False
        candidates = [*removal_order(self._earlier), *self._own]
        if not self._trimmed:  # no pair of this start is on the disk yet
            candidates = [file for file in candidates if not file.pairs]
        return bool(candidates) and self._remove(candidates[0])

    def _remove_old(self) -> None:
        if self._ring and self._max_age_s is not None:
            for file in [*self._earlier, *self._own]:
                if too_old(file.path, self._max_age_s):
                    self._remove(file)

    def _remove(self, file: RingFile) -> bool:
        """Removes a file; one that cannot be removed is left out of account, or this would never end."""
        with contextlib.suppress(OSError):
            file.path.unlink()
        if file in self._own:
            self._own.remove(file)
            self.pairs -= file.pairs
            self.removed += file.pairs
        else:
            self._earlier.remove(file)
        return True


def limit_bytes(plan: RecordingPlan) -> int:
    """Returns the plan's limit in bytes."""
    return plan.limit_mib * _MIB


def facts_text(facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns facts as MCAP metadata wants them: text to text."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}
