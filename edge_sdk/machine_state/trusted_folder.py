"""A folder in which nobody else can have planted anything: found and used without following others' links."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import DeviceError

__all__ = ["TrustedFolder"]

_MOST_LINKS = 40


class TrustedFolder(ClosedByWith):
    """A folder, held open, that belongs to root or to this user, as every folder above it does.

    The way to it is gone step by step on open folders, so that nothing can be exchanged meanwhile. A link
    on the way is followed only where root or this user made it; the folder itself and the files in it are
    never links. Root trusts root alone.

    Arguments:
        path: the folder.
        make: make it, and what is missing above it, for its owner alone to write to.

    Raises:
        DeviceError: somebody else owns, may write to, or has linked what lies on the way.
        OSError: it is not there or cannot be opened.
    """

    def __init__(self, path: Path, *, make: bool = False) -> None:
        self.path = path
        self._descriptor = _walk(path.absolute(), make)

    def open(self, name: str, flags: int) -> int:
        """Opens a file in it; returns its descriptor.

        Raises:
            DeviceError: it is a link, no plain file, or others own it or may write to it.
            OSError: it cannot be opened.
        """
        path = self.path / name
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, 0o644, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _distrusted(path, "is a link, which nobody who is trusted makes there") from None
            raise
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise _distrusted(path, "is no plain file")
            _refuse_others(path, facts)
            if facts.st_nlink > 1:
                raise _distrusted(path, f"has {facts.st_nlink} names, and one was expected")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, most_nbytes: int) -> bytes:
        """Reads the beginning of a file, as `open` opens it."""
        descriptor = self.open(name, os.O_RDONLY)
        try:
            return os.pread(descriptor, most_nbytes, 0)
        finally:
            os.close(descriptor)

    def write(self, name: str, content: bytes) -> None:
        """Writes a file whole or not at all; on disk when it returns."""
        part = f"{name}.part"
        self.remove(part)
        descriptor = self.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self.remove(part)
            raise
        self.sync()

    def has(self, name: str) -> bool:
        """Says whether something of that name is there, a link too."""
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Removes a file, or nothing where there is none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Brings the names of its files to the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Lets go of the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _walk(path: Path, make: bool) -> int:
    """Opens an absolute path step by step; returns the folder's descriptor."""
    parts, links = list(path.parts[1:]), 0
    at, trail = Path("/"), [_open_folder("/", None, os.O_PATH)]
    try:
        while parts:
            name = parts.pop(0)
            if name == "..":
                at = at.parent
                if len(trail) > 1:
                    os.close(trail.pop())
                continue
            here = trail[-1]
            try:
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=here)
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                links += 1
                _refuse_owner(at / name, facts)
                if not parts:
                    raise _distrusted(at / name, "is a link; the folder itself was expected")
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(at / name))
                target = Path(os.readlink(name, dir_fd=here))
                if target.is_absolute():
                    at = Path("/")
                    while len(trail) > 1:
                        os.close(trail.pop())
                parts[:0] = target.parts[1 if target.is_absolute() else 0 :]
                continue
            at = at / name
            # To pass through a folder one need not be allowed to list it.
            trail.append(_open_folder(name, here, os.O_PATH if parts else os.O_RDONLY))
            _refuse_others(at, os.fstat(trail[-1]), passing=bool(parts))
    except BaseException:
        for descriptor in trail:
            os.close(descriptor)
        raise
    for descriptor in trail[:-1]:
        os.close(descriptor)
    return trail[-1]


def _open_folder(name: str, here: int | None, how: int) -> int:
    return os.open(name, how | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)


def _refuse_others(path: Path, facts: os.stat_result, *, passing: bool = False) -> None:
    """Refuses what others own or may write to; in a sticky folder on the way they can exchange nothing."""
    _refuse_owner(path, facts)
    mode = facts.st_mode
    group = mode & stat.S_IWGRP and facts.st_gid not in (0, os.getegid())
    if (group or mode & stat.S_IWOTH) and not (passing and mode & stat.S_ISVTX):
        raise _distrusted(path, f"may be written to by others (mode {stat.S_IMODE(mode):o})")


def _refuse_owner(path: Path, facts: os.stat_result) -> None:
    if facts.st_uid not in (0, os.geteuid()):
        raise _distrusted(path, f"belongs to user {facts.st_uid}, not to root")


def _distrusted(path: Path, why: str) -> DeviceError:
    return DeviceError(
        f"{path}: {why}, so what root notes there could be exchanged, and is not used. "
        "Remove it or give it to root, or name another folder with --state-dir."
    )
