"""Messages that wait on disk until a broker has them: an SQLite file of bounded size, held by one process."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, DeviceError

__all__ = ["Spool", "Waiting"]

_IN_MEMORY = 1000
"""Messages kept in memory at most while the disk takes none."""

_COLUMNS = {"id", "topic", "payload", "retain"}

_log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A message that waits; ids grow, also from one process to the next."""

    id: int
    topic: str
    payload: bytes
    retain: bool


class Spool(ClosedByWith):
    """A queue on disk, first in first out, that outlives the process and a power cut.

    Safe from several threads. When full, the oldest messages go and are counted: news of now is worth
    more than news of yesterday. While the disk is full or fails, messages wait in memory, the oldest of
    more than 1000 are lost and counted, and `retry` brings the rest to the disk as soon as it can. A
    file that is damaged is set aside, and a new one begun.

    Arguments:
        path: the file, made if it is not there. A second process is refused it.
        limit: messages that wait at most.

    Attributes:
        lost: messages thrown away since it was opened.
        set_aside: where damaged files lie now.
        problem: why messages wait in memory alone, or "".

    Raises:
        ConfigError: the file is a database of something else.
        DeviceError: it cannot be made or written to, or another process holds it.
    """

    def __init__(self, path: Path, *, limit: int = 100_000) -> None:
        if limit < 1:
            raise ConfigError(f"spool limit: expected 1 message or more, found {limit}")
        self._path, self._limit, self.lost = path, limit, 0
        self.set_aside: list[Path] = []
        self.problem = ""
        self._lock = threading.Lock()
        self._memory: deque[Waiting] = deque()
        self._confirmed: set[int] = set()
        self._count = self._last_id = 0
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            self._holder = _hold(path)
        except OSError as error:
            raise DeviceError(f"{path}: cannot be made: {error.strerror or error}") from None
        try:
            self._open()
        except sqlite3.Error as error:
            self._holder.close()
            raise DeviceError(f"{path}: cannot be opened for messages that wait: {error}") from None
        except BaseException:
            self._holder.close()
            raise

    def __len__(self) -> int:
        return self._count - len(self._confirmed) + len(self._memory)

    @property
    def in_memory(self) -> int:
        """Messages that wait in memory alone, since the disk does not take them."""
        return len(self._memory)

    def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Adds a message: to the disk, or to memory while the disk does not take it."""
        with self._lock:
            self._last_id += 1
            self._memory.append(Waiting(self._last_id, topic, payload, retain))
            if not self.problem:
                self._flush()
            while len(self._memory) > _IN_MEMORY:
                self._memory.popleft()
                self.lost += 1

    def retry(self) -> None:
        """Brings to the disk what waits in memory, if the disk takes it by now; call it now and then."""
        with self._lock:
            if not self._is_there():
                self._move()
            self._flush()

    def peek(self, after: int = 0, count: int = 100) -> list[Waiting]:
        """Returns the oldest messages behind an id; they stay."""
        with self._lock:
            try:
                rows = self._database.execute(
                    "SELECT id, topic, payload, retain FROM waiting WHERE id > ? ORDER BY id LIMIT ?",
                    (after, count),
                ).fetchall()
            except sqlite3.Error as error:
                self._failed(error)
                if self._count:
                    return []  # what waits in memory is younger, and must not go first
                rows = []
            found = [Waiting(number, topic, payload, bool(retain)) for number, topic, payload, retain in rows]
            found += [message for message in self._memory if message.id > after]
            return [message for message in found if message.id not in self._confirmed][:count]

    def done(self, numbers: Collection[int]) -> None:
        """Removes messages that the broker has."""
        with self._lock:
            kept = {message.id for message in self._memory}
            if kept:
                self._memory = deque(message for message in self._memory if message.id not in numbers)
            self._confirmed.update(number for number in numbers if number not in kept)
            if not self.problem:
                self._flush()

    def close(self) -> None:
        """Closes the file; what waits stays in it, and what waited in memory alone is lost and counted."""
        with self._lock:
            if self._holder.closed:
                return
            self._flush()
            self.lost += len(self._memory)
            self._memory.clear()
            self._database.close()
            _lock_path(self._path).unlink(missing_ok=True)
            self._holder.close()

    def _flush(self) -> None:
        """Does on disk what is due there: one transaction, whole or not at all."""
        if not (self._memory or self._confirmed):
            return
        try:
            with self._database:
                self._database.execute("BEGIN")
                gone = self._database.executemany(
                    "DELETE FROM waiting WHERE id = ?", [(number,) for number in self._confirmed]
                ).rowcount
                self._database.executemany("INSERT INTO waiting VALUES (?, ?, ?, ?)", self._memory)
                excess = max(0, self._count - max(gone, 0) + len(self._memory) - self._limit)
                if excess:
                    self._database.execute(
                        "DELETE FROM waiting WHERE id IN (SELECT id FROM waiting ORDER BY id LIMIT ?)",
                        (excess,),
                    )
        except sqlite3.Error as error:
            self._failed(error)
            return
        self._count += len(self._memory) - max(gone, 0) - excess
        self.lost += excess
        self._memory.clear()
        self._confirmed.clear()
        if self.problem:
            _log.warning("%s: takes messages again", self._path)
            self.problem = ""

    def _failed(self, error: Exception) -> None:
        if _is_damage(error):
            try:
                self._begin_anew(str(error))
                return
            except (sqlite3.Error, OSError) as second:
                error = second
        if not self.problem:
            _log.warning("%s: takes no messages, they wait in memory: %s", self._path, error)
        self.problem = f"{self._path}: {error}; messages wait in memory"

    def _is_there(self) -> bool:
        """Whether the name still leads to this file; SQLite itself would go on with one that it does not."""
        try:
            facts = self._path.stat()
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == self._identity

    def _move(self) -> None:
        """Takes what waits in a file that was moved or removed into a new one of the old name."""
        with contextlib.suppress(sqlite3.Error):  # closed already by a try before this one, or unreadable
            rows = self._database.execute("SELECT id, topic, payload, retain FROM waiting ORDER BY id")
            kept = [Waiting(*row) for row in rows.fetchall() if row[0] not in self._confirmed]
            self._memory.extendleft(reversed(kept))
        self._database.close()
        self._confirmed.clear()
        self._count = 0
        try:
            self._open()
        except (sqlite3.Error, OSError, ConfigError) as error:
            self._failed(error)

    def _open(self) -> None:
        """Opens the file; sets a damaged one aside and begins a new one."""
        try:
            self._connect()
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise
            self._begin_anew(str(error))

    def _begin_anew(self, why: str) -> None:
        self._database.close()
        aside = self._path.with_name(f"{self._path.name}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
        for suffix in ("", "-wal", "-shm"):
            file = self._path.with_name(self._path.name + suffix)
            if file.exists():
                file.rename(aside.with_name(aside.name + suffix))
        self.set_aside.append(aside)
        _log.warning("%s: damaged (%s), set aside as %s; a new one is begun", self._path, why, aside.name)
        self._connect()

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            columns = {row[1] for row in self._database.execute("PRAGMA table_info(waiting)")}
            tables = self._database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
            if columns != _COLUMNS and (tables or columns):
                raise ConfigError(
                    f"{self._path}: not a file of waiting messages but a database of something else. "
                    "Name another file with --mqtt-spool"
                )
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY AUTOINCREMENT, "
                "topic TEXT NOT NULL, payload BLOB NOT NULL, retain INTEGER NOT NULL)"
            )
            (verdict,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(str(verdict))
            self._count = self._database.execute("SELECT COUNT(*) FROM waiting").fetchone()[0]
            last = self._database.execute("SELECT MAX(seq) FROM sqlite_sequence").fetchone()[0] or 0
            self._last_id = max(self._last_id, last)
            facts = self._path.stat()
            self._identity = facts.st_dev, facts.st_ino
        except BaseException:
            self._database.close()
            raise


def _is_damage(error: Exception) -> bool:
    """Says whether the file itself is spoilt; a full or failing disk is an `OperationalError`."""
    return type(error) is sqlite3.DatabaseError


def _lock_path(path: Path) -> Path:
    real = path.resolve()
    return real.with_name(f"{real.name}.lock")


def _hold(path: Path) -> _Holder:
    """Holds the file for this process, by a lock of the kernel that goes with it."""
    lock = _lock_path(path)
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
            os.close(descriptor)
            raise DeviceError(
                f"{path}: {holder} holds it, and two runs cannot share one file of waiting messages. "
                "Name another file with --mqtt-spool, or end that run"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)  # its last holder removed it meanwhile
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} (since {datetime.now():%Y-%m-%d %H:%M:%S})\n".encode(), 0)
    return _Holder(descriptor)


class _Holder:
    def __init__(self, descriptor: int) -> None:
        self._descriptor, self.closed = descriptor, False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self._descriptor)
