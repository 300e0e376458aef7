"""Names of files that OpenCV can open. It takes UTF-8 alone, and crashes on anything else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["opencv_name", "opencv_target", "plain_name"]

_OPEN_FILES = "/proc/self/fd"
"""Linux: the open files of this process by number, names that are ASCII whatever the files are called."""


def plain_name(path: Path) -> bool:
    """Says whether OpenCV, which takes text as UTF-8, names the very file that Python would."""
    try:
        return str(path).encode("utf-8") == os.fsencode(path) and "\0" not in str(path)
    except UnicodeEncodeError:
        return False


@contextmanager
def opencv_name(path: Path) -> Iterator[str]:
    """Lends a name under which OpenCV can read an existing file; it holds inside the `with` block.

    A file that was opened by this name stays readable afterwards.

    Raises:
        OSError: the file cannot be opened, or its name is not UTF-8 on a system without /proc.
    """
    if plain_name(path):
        yield _no_protocol(path)
        return
    number = os.open(path, os.O_RDONLY)
    try:
        yield _by_number(number, path)
    finally:
        os.close(number)


@contextmanager
def opencv_target(path: Path) -> Iterator[str]:
    """Lends a name under which OpenCV can write a file whose name is ASCII, whatever its folder is called.

    Raises:
        OSError: the folder cannot be opened, or its name is not UTF-8 on a system without /proc.
    """
    if plain_name(path):
        yield _no_protocol(path)
        return
    number = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"{_by_number(number, path)}/{path.name}"
    finally:
        os.close(number)


def _by_number(number: int, path: Path) -> str:
    name = f"{_OPEN_FILES}/{number}"
    if not Path(name).exists():
        raise OSError(
            None, "the name is not UTF-8, and this system has no /proc: rename it", os.fsencode(path)
        )
    return name


def _no_protocol(path: Path) -> str:
    """A relative name with a colon is a protocol to FFmpeg, an absolute one never is."""
    return str(path) if path.is_absolute() else str(Path.cwd() / path)
