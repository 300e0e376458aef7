"""Messages that wait on disk until a broker has them: an SQLite file of bounded size."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from edge_sdk.errors import ConfigError, DeviceError

__all__ = ["Spool"]


class Spool:
    """A queue on disk, first in first out, that outlives the process and a power cut.

    Safe from several threads. When full, the oldest messages go and are counted: news of now is worth
    more than news of yesterday.

    Arguments:
        path: the file, made if it is not there.
        limit: messages that wait at most.

    Attributes:
        lost: messages thrown away because the spool was full, since it was opened.

    Raises:
        ConfigError: the file is something else.
        DeviceError: it cannot be made or written to.
    """

    def __init__(self, path: Path, *, limit: int = 100_000) -> None:
        if limit < 1:
            raise ConfigError(f"spool limit: expected 1 message or more, found {limit}")
        self._path, self._limit, self.lost = path, limit, 0
        self._lock = threading.Lock()
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY AUTOINCREMENT, "
                "topic TEXT NOT NULL, payload BLOB NOT NULL, retain INTEGER NOT NULL)"
            )
            self._count: int = self._database.execute("SELECT COUNT(*) FROM waiting").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise DeviceError(f"{path}: cannot be opened for messages that wait: {error}") from None
            raise ConfigError(f"{path}: not a file of waiting messages: {error}") from None
        except OSError as error:
            raise DeviceError(f"{path}: cannot be made: {error.strerror or error}") from None

    def __len__(self) -> int:
        return self._count

    def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Adds a message.

        Raises:
            DeviceError: the disk does not take it.
        """
        with self._lock:
            try:
                self._database.execute(
                    "INSERT INTO waiting (topic, payload, retain) VALUES (?, ?, ?)", (topic, payload, retain)
                )
                self._count += 1
                if self._count > self._limit:
                    excess = self._count - self._limit
                    self._database.execute(
                        "DELETE FROM waiting WHERE id IN (SELECT id FROM waiting ORDER BY id LIMIT ?)",
                        (excess,),
                    )
                    self._count -= excess
                    self.lost += excess
            except sqlite3.Error as error:
                raise DeviceError(f"{self._path}: the message cannot be kept: {error}") from None

    def peek(self, after: int = 0, count: int = 100) -> list[tuple[int, str, bytes, bool]]:
        """Returns (id, topic, payload, retain) of the oldest messages behind an id; they stay."""
        with self._lock:
            rows = self._database.execute(
                "SELECT id, topic, payload, retain FROM waiting WHERE id > ? ORDER BY id LIMIT ?",
                (after, count),
            ).fetchall()
        return [(number, topic, payload, bool(retain)) for number, topic, payload, retain in rows]

    def done(self, number: int) -> None:
        """Removes a message that the broker has."""
        with self._lock:
            self._count -= self._database.execute("DELETE FROM waiting WHERE id = ?", (number,)).rowcount

    def close(self) -> None:
        """Closes the file; what waits stays in it."""
        with self._lock:
            self._database.close()
