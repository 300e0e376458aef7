"""Reading sysfs: small files under a root that may be another machine's tree."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["Opener", "Tree", "cause", "read_file"]

Opener = Callable[[Path], bytes]
"""Reads a small file wholly; raises OSError. An argument: a test makes files fail as hardware does."""

_MAX_NBYTES = 4096  # sysfs attributes are one page at most


def read_file(path: Path) -> bytes:
    """Reads one attribute with one system call, as the kernel hands it out."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _MAX_NBYTES)
    finally:
        os.close(handle)


class Tree:
    """The files of a machine below `root`."""

    def __init__(self, root: Path | str = "/", opener: Opener = read_file) -> None:
        self.root = Path(root)
        self._open = opener

    @property
    def is_own(self) -> bool:
        """Whether this is the machine that runs, not a copy of another one's tree."""
        return self.root == Path("/")

    def glob(self, pattern: str) -> list[Path]:
        """Lists paths below the root, sorted as people count: hwmon2 before hwmon10."""
        try:
            found = list(self.root.glob(pattern))
        except OSError:
            return []
        return sorted(found, key=lambda path: (len(path.name), str(path)))

    def text(self, path: Path) -> str:
        """Reads text.

        Raises:
            OSError: as the file does.
        """
        return self._open(path).decode("utf-8", "replace").replace("\0", " ").strip()

    def text_or(self, path: Path, default: str = "") -> str:
        """Reads text, or returns `default` where there is none to be had."""
        try:
            return self.text(path)
        except OSError:
            return default

    def number(self, path: Path) -> int:
        """Reads a whole number; text after it ("32760 ma") is passed over.

        Raises:
            OSError: as the file does, or EINVAL where it holds no number.
        """
        words = self.text(path).split()
        try:
            return int(words[0])
        except (IndexError, ValueError):
            raise OSError(errno.EINVAL, f"no number in it but {' '.join(words)[:40]!r}") from None


def cause(error: OSError) -> str:
    """Says why a file gave nothing, with the name that kernel people search for."""
    if error.errno == errno.ENOENT:
        return "missing"
    name = errno.errorcode.get(error.errno or 0, "")
    text = error.strerror or str(error)
    return f"{name} ({text})" if name else text
