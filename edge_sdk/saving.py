"""Files of results: whole or not at all.

Every file that this SDK writes to be kept goes through here. It is written beside its place, synced and then
renamed, so that neither a full disk nor a killed process leaves half a file, or half of one over a good one.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, SaveError

__all__ = ["LineFile", "check_target", "save_bytes", "save_json", "save_text"]

_NOT_SYNCABLE = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
_numbers = count()


def save_bytes(path: Path | str, content: bytes, *, sync: bool = True, mode: int = 0o666) -> None:
    """Writes a file whole or not at all; an existing one is replaced only by a whole one.

    A link is followed; a device or a pipe is written to as it is.

    Arguments:
        path: the file; its folder must be there.
        content: all of it.
        sync: wait until the disk has it. Without, a power cut may lose the file, but not leave half of it.
        mode: permissions of a new file, less the umask; an existing one's are kept.

    Raises:
        SaveError: the file cannot be written; what stood there before still does.
    """
    try:
        if _is_special(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "wb", buffering=0) as stream:
                _write_all(stream.fileno(), content)
            return
        _replace(Path(os.path.realpath(path)), content, sync, mode)
    except OSError as error:
        raise SaveError(path, error) from error


def save_text(path: Path | str, text: str, *, sync: bool = True) -> None:
    """Writes UTF-8 text as `save_bytes` does. What cannot be written in UTF-8 (names of files) is escaped."""
    save_bytes(path, text.encode("utf-8", "backslashreplace"), sync=sync)


def save_json(path: Path | str, document: Any) -> None:
    """Writes a JSON document, two blanks a level, as `save_bytes` does."""
    save_text(path, json.dumps(document, indent=2) + "\n")


def check_target(path: Path | str) -> None:
    """Refuses, before a run of minutes, a file that could not be written after it; makes missing folders.

    It tries: a file is made beside the place and removed again.

    Raises:
        ConfigError: nothing can be written there; says why.
    """
    try:
        place = Path(os.path.realpath(path))
        if _is_special(place):
            os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            raise ConfigError(f"{path}: cannot be written, it is a folder")
        if os.path.ismount(place):
            raise ConfigError(
                f"{path}: cannot be written: it is a mount of its own, which no file can be renamed onto. "
                "Mount its folder instead"
            )
        if place.exists() and not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, "the file that is there is read-only")
        part = _beside(place)
        os.close(_create(part))
        part.unlink()
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads yet
            return
        raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from error
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{str(path)!r}: cannot be written ({error})") from error


class LineFile(ClosedByWith):
    """A file of lines, each of which is with the kernel when `write` returns: killing the process loses none.

    A disk that is full ends the file behind its last whole line.

    Arguments:
        path: the file, begun anew with its first line: a run that fails before that leaves an old file whole.

    Raises:
        SaveError: it cannot be made.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.count = 0
        self._nbytes = 0
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SaveError(path, error) from error
        self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def write(self, line: str) -> None:
        """Writes one line and its end.

        Raises:
            SaveError: the disk did not take it; the file is closed with the lines before it.
        """
        content = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            if self._regular and not self.count:
                os.ftruncate(self._descriptor, 0)
            _write_all(self._descriptor, content)
        except OSError as error:
            if self._regular:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._nbytes)
            self.close()
            raise SaveError(self.path, error, f"after {self.count} lines") from error
        self._nbytes += len(content)
        self.count += 1

    def close(self) -> None:
        """Syncs and closes the file. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.fsync(descriptor)
            os.close(descriptor)


def _replace(target: Path, content: bytes, sync: bool, mode: int) -> None:
    part = _beside(target)
    descriptor = _create(part, mode)
    try:
        try:
            with suppress(FileNotFoundError):
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            _write_all(descriptor, content)
            if sync:
                _sync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    if sync:
        _sync_folder(target.parent)


def _beside(target: Path) -> Path:
    """A name of its own in the same folder; short, as the target's may be as long as names can be."""
    return target.with_name(f".edge-sdk-{os.getpid()}-{next(_numbers)}.part")


def _create(part: Path, mode: int = 0o666) -> int:
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SYNCABLE:
            raise


def _sync_folder(folder: Path) -> None:
    """Makes the new name last. A folder that cannot be opened for reading is no reason to fail."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _is_special(path: Path | str) -> bool:
    """Whether a device, a pipe or a socket stands there, which nothing can be renamed onto."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
