"""A file that is written behind a buffer, so that a full disk loses nothing and is tried again."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

__all__ = ["DiskFile", "is_full", "is_held"]


class DiskFile:
    """A new file as the MCAP library writes one: what it writes waits in memory until `drain`.

    A disk that is full in the middle of a write leaves the rest waiting; the next `drain` goes on at the
    very byte. The file is locked while it is open, so that others can tell that it is being written.

    Arguments:
        path: refused where it is there already.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o644)
        with contextlib.suppress(OSError):  # a file system without locks: then nobody can tell
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._waiting = bytearray()
        self._on_disk = 0

    @property
    def waiting(self) -> int:
        """Bytes that are not on their way to the disk yet."""
        return len(self._waiting)

    def write(self, data: bytes) -> int:
        """Takes bytes to write."""
        self._waiting += data
        return len(data)

    def tell(self) -> int:
        """Returns how long the file is with what waits."""
        return self._on_disk + len(self._waiting)

    def flush(self) -> None:
        """Does nothing: `drain` writes."""

    def drain(self, sync: bool = False) -> None:
        """Writes what waits.

        Arguments:
            sync: bring it to the disk, as far as the system can say.

        Raises:
            OSError: the disk does not take it all; what it did not take goes on waiting.
        """
        while self._waiting:
            taken = os.write(self._descriptor, self._waiting)
            del self._waiting[:taken]
            self._on_disk += taken
        if sync:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file as it is; closing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_full(error: OSError) -> bool:
    """Says whether an error means that there is no space now, which may change."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_held(path: Path) -> bool:
    """Says whether a process writes to a file of this kind now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
