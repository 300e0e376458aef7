"""Reading a bundle's files so that nothing unchecked reaches an engine.

The bytes that are hashed are the bytes that are returned: a file is read once, and ONNX Runtime is
given those bytes and never the path. What changes on disk later changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path, PurePosixPath

from edge_sdk.engine.manifest import GraphFile
from edge_sdk.errors import EngineIntegrityError

__all__ = ["read_inside", "read_verified", "sha256_of"]


def sha256_of(data: bytes) -> str:
    """Returns the SHA-256 of some bytes, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read_verified(folder: Path, item: GraphFile) -> bytes:
    """Reads one file of a bundle.

    Arguments:
        folder: the bundle's folder.
        item: its path, size and SHA-256 as the manifest states them.

    Raises:
        EngineIntegrityError: it is missing, a link, no regular file, or of another size or SHA-256.
    """
    path = folder / item.file
    data = read_inside(folder, item.file, item.nbytes)
    if len(data) != item.nbytes:
        raise EngineIntegrityError(path, "size", f"{item.nbytes} bytes", f"{len(data)} bytes", _FIX_CHANGED)
    found = sha256_of(data)
    if found != item.sha256:
        raise EngineIntegrityError(path, "SHA-256", item.sha256, found, _FIX_CHANGED)
    return data


def read_inside(folder: Path, file: str, limit_nbytes: int) -> bytes:
    """Reads a regular file inside a folder, following no link below the folder.

    Arguments:
        folder: where to start; may itself be reached through links.
        file: path from there, "/" between folders.
        limit_nbytes: a larger file is refused before it is read.

    Raises:
        EngineIntegrityError: the file is missing, unreadable, a link, outside the folder, no
            regular file or larger than the limit.
    """
    parts = PurePosixPath(file).parts
    path = folder / file
    if not parts or PurePosixPath(file).is_absolute() or ".." in parts:
        raise EngineIntegrityError(path, "path", "inside the bundle's folder", file, _FIX_INSIDE)
    here = folder
    try:
        for part in parts:
            here = here / part
            if stat.S_ISLNK(os.lstat(here).st_mode):
                raise EngineIntegrityError(here, "kind of file", "a regular file", "a link", _FIX_INSIDE)
        # Without O_NONBLOCK, opening a named pipe waits for a writer that never comes.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError as error:
        raise EngineIntegrityError(path, "file", "present", "missing", _FIX_CHANGED) from error
    except (OSError, ValueError) as error:
        raise EngineIntegrityError(path, "file", "readable", _reason(error)) from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise EngineIntegrityError(path, "kind of file", "a regular file", "something else", _FIX_INSIDE)
        if facts.st_size > limit_nbytes:
            raise EngineIntegrityError(
                path, "size", f"at most {limit_nbytes} bytes", f"{facts.st_size} bytes", _FIX_CHANGED
            )
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            # One byte more than allowed, so that a file that grows meanwhile shows.
            return stream.read(limit_nbytes + 1)
    except OSError as error:
        raise EngineIntegrityError(path, "file", "readable", _reason(error)) from error
    finally:
        os.close(descriptor)


_FIX_CHANGED = "The bundle is incomplete or was changed after it was made: install or copy it again."
_FIX_INSIDE = "A bundle must be whole in its own folder: put a copy of the file there."


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
