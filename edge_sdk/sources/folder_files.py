"""The picture files of a folder and its sub-folders, by name, in the order in which people number them."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from edge_sdk.sources.uri import printable

__all__ = ["FolderFiles", "files_in", "natural_key"]

_NO_PICTURES = frozenset({"@eaDir", "__MACOSX", "$RECYCLE.BIN"})
"""Folders that file servers and archives leave behind."""


@dataclass(frozen=True)
class FolderFiles:
    """What a folder holds.

    Attributes:
        files: each file with the key that names it: its path in the folder without suffix, composed (NFC),
            and printable where its bytes are no UTF-8. In natural order.
        ignored: number of other files.
    """

    files: tuple[tuple[str, Path], ...]
    ignored: int


def files_in(
    folder: Path, suffixes: Collection[str], *, skip: Collection[Path] = (), by_name: bool = False
) -> FolderFiles:
    """Lists a folder and its sub-folders.

    Hidden files and folders are passed over, and so are macOS's `._` files and what servers leave behind.
    Links to folders are not followed.

    Arguments:
        folder: the folder.
        suffixes: of the files wanted, in small letters.
        skip: sub-folders that hold something else.
        by_name: order by the characters, and not 2 before 10.
    """
    found: list[tuple[str, Path]] = []
    ignored = 0
    skipped = {place.resolve() for place in skip}
    for root, folders, names in os.walk(folder):
        place = Path(root)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _NO_PICTURES
            and (place / name).resolve() not in skipped
        ]
        for name in names:
            path = place / name
            if name.startswith(".") or path.suffix.lower() not in suffixes:
                ignored += 1
            else:
                key = (path.relative_to(folder).parent / path.stem).as_posix()
                found.append((unicodedata.normalize("NFC", printable(key)), path))
    found.sort(
        key=(lambda item: (item[0], item[1])) if by_name else (lambda item: (natural_key(item[0]), item[1]))
    )
    return FolderFiles(tuple(found), ignored)


def natural_key(stem: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Returns the sort key that puts `frame2` before `frame10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", stem)
    numbered = [(False, int(part), "") if part[0] in "0123456789" else (True, 0, part) for part in parts]
    return numbered, stem
