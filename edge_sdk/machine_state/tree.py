"""Reading the kernel's files under any root, where one bad file never stops the others."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["OFFLINE", "Opener", "Tree", "read_file"]

Opener = Callable[[Path], bytes]
"""Path -> the file's bytes; raises OSError where there are none."""

OFFLINE = "offline"
"""What a sensor is whose power is off: the kernel answers EAGAIN then."""

_LARGEST_NBYTES = 256 * 1024
_MOST_LINKS = 40
_NUMBER = re.compile(r"[-+]?\d+")


def read_file(path: Path) -> bytes:
    """Reads a file of the kernel. Never waits: a pipe in a foreign tree gives an error, or nothing.

    Raises:
        OSError: there is no such file, or it cannot be read now.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts, size = [], 0
        while size < _LARGEST_NBYTES and (part := os.read(descriptor, _LARGEST_NBYTES)):
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


class Tree:
    """One reading of the file system. Notes what was there and could not be read.

    Attributes:
        root: of the file system that is read.
        needs_root: names of what only root may read.
        unreadable: pairs of (name, why) of what gave an error.
    """

    def __init__(self, root: Path = Path("/"), opener: Opener = read_file) -> None:
        self.root = root
        self.needs_root: dict[str, None] = {}
        self.unreadable: dict[str, str] = {}
        self._open = opener

    def text(self, path: str | Path, what: str = "") -> str | None:
        """Reads text without the NULs and blanks around it; None where there is none.

        Arguments:
            path: below the root.
            what: names it in the notes; without a name nothing is noted.
        """
        return self.attempt(path, what)[0]

    def attempt(self, path: str | Path, what: str = "") -> tuple[str | None, str]:
        """Reads text as `text` does; returns (text or None, why not: "", "absent", "offline", ...)."""
        try:
            content = self._open(self.inside(path))
        except OSError as error:
            why = _why(error)
            if what and why == "root only":
                self.needs_root[what] = None
            elif what and why not in ("absent", OFFLINE):
                self.unreadable[what] = why
            return None, why
        return content.decode("utf-8", errors="replace").strip("\0 \n\t"), ""

    def inside(self, path: str | Path) -> Path:
        """Finds a path below the root, following links as they are meant there and never out of it."""
        if self.root == Path("/"):
            return self.root / path
        at, parts, links = self.root, list(Path(path).parts), 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                at = at.parent if at != self.root else at
                continue
            try:
                target = (at / part).readlink()
            except OSError:
                at = at / part
                continue
            links += 1
            if links > _MOST_LINKS:
                return at / part
            if target.is_absolute():
                at = self.root
            parts = [*target.parts[1 if target.is_absolute() else 0 :], *parts]
        return at

    def number(self, path: str | Path, what: str = "") -> int | None:
        """Reads a whole number; None where there is none."""
        text = self.text(path, what)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            if what:
                self.unreadable[what] = f"no number: {text[:40]!r}"
            return None
        return int(text)

    def folders(self, pattern: str) -> Iterator[Path]:
        """Lists what matches, below the root, in the order of the numbers in their names."""
        try:
            found = [path.relative_to(self.root) for path in self.root.glob(pattern)]
        except OSError:
            return
        yield from sorted(found, key=_by_number)

    def hwmon(self, *names: str) -> Iterator[tuple[Path, str]]:
        """Lists hwmon devices by the name of their driver: their numbers change with every boot."""
        for folder in self.folders("sys/class/hwmon/hwmon*"):
            name = self.text(folder / "name")
            if name is not None and (not names or name in names):
                yield folder, name


def _why(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "root only"
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV):
        return "absent"
    if error.errno == errno.EAGAIN:
        return OFFLINE
    name = errno.errorcode.get(error.errno or 0, "")
    return f"{name}: {error.strerror}" if name else str(error)


def _by_number(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]
