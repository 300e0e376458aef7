"""Reading a source's URI: `scheme:path?option=value&option=value`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from edge_sdk.credentials import without_password
from edge_sdk.errors import ConfigError
from edge_sdk.sources.rjpeg_marks import RJPEG_SUFFIXES, is_radiometric_jpeg

__all__ = ["SourceUri", "holds_radiometric_jpegs", "nearest", "parse_uri", "printable", "user_path"]


_LOOKED_AT = 8
_FILES = frozenset({".cptv", ".npy", ".npz", ".tif", ".tiff", ".png", ".jpg", ".jpeg", ".bmp", ".webp"})
"""What `file:` reads and a video player would not."""


@dataclass(frozen=True)
class SourceUri:
    """A source's URI, taken apart.

    Attributes:
        text: as the caller wrote it.
        scheme: what stands before the first colon, in small letters.
        path: what stands between the colon and the question mark, percent-decoded.
        options: the query, percent-decoded.
    """

    text: str
    scheme: str
    path: str
    options: Mapping[str, str]

    def option(self, name: str, default: str) -> str:
        """Returns an option's value, or the default where it was not given."""
        return self.options.get(name, default)

    def choice(self, name: str, allowed: Iterable[str]) -> str | None:
        """Returns an option that must be one of a few words, or None where it was not given.

        Raises:
            ConfigError: it is another word.
        """
        value, allowed = self.options.get(name), tuple(allowed)
        if value is not None and value not in allowed:
            raise ConfigError(
                f"{self.text}: {name}: expected {' or '.join(allowed)}, "
                f"found {value!r}{nearest(value, allowed)}"
            )
        return value


def parse_uri(text: str, schemes: Mapping[str, Iterable[str]]) -> SourceUri:
    """Takes a URI apart and refuses what nobody would read.

    A blank, `+`, `:` or `#` in a path or value stands for itself; write `%3F` for `?`, `%26` for `&`
    and `%25` for `%`. A leading `~` is the user's home folder.

    Arguments:
        text: the URI.
        schemes: the known schemes, each with the names of its options.

    Raises:
        ConfigError: no scheme, an unknown scheme or option, an option given twice or without value.
    """
    if not isinstance(text, (str, os.PathLike)):
        raise ConfigError(f"a source is named by a URI like 'clip:substation', found {text!r}")
    text = os.fspath(text)
    shown = without_password(text)
    if "\0" in text or "%00" in text:
        raise ConfigError(f"{shown!r}: a source's URI cannot hold a NUL character")
    head, has_query, query = text.partition("?")
    scheme, has_scheme, path = head.partition(":")
    scheme = scheme.strip().lower()
    if not has_scheme or "/" in scheme:
        raise ConfigError(f"{shown!r} has no scheme.{_advice(head, schemes)}")
    if scheme not in schemes:
        raise ConfigError(
            f"{shown!r}: unknown scheme {scheme!r}{nearest(scheme, schemes)} Known: {_list(schemes)}"
        )
    path = unquote(path.strip())
    if path.startswith("//"):
        path = path[2:]
    path = str(user_path(path)) if path.startswith("~") else path
    if not path and scheme not in ("memory", "camera"):
        raise ConfigError(f"{shown!r}: nothing stands after {scheme + ':'!r}")
    return SourceUri(text, scheme, path, _options(shown, query if has_query else "", tuple(schemes[scheme])))


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns ". Did you mean 'x'?" for the known word that looks most like this one, else a full stop."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f". Did you mean {close[0]!r}?" if close else "."


def printable(text: str) -> str:
    """Returns text that any output takes: bytes of a file name that are no UTF-8 are written as `\\xe9`."""
    try:
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def holds_radiometric_jpegs(folder: Path) -> bool:
    """Says whether one of the first files of a folder is a radiometric JPEG."""
    try:
        jpegs = sorted(path for path in folder.iterdir() if path.suffix.lower() in RJPEG_SUFFIXES)
    except OSError:
        return False
    return any(is_radiometric_jpeg(path) for path in jpegs[:_LOOKED_AT] if path.is_file())


def user_path(text: str) -> Path:
    """Returns a path in which a leading `~` became the user's home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user, or no home: then it is a file name
        return Path(text)


def _options(shown: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, has_value, value = part.partition("=")
        name, value = unquote(name).strip(), unquote(value)
        if name not in known:
            which = f"Known: {_list(known)}" if known else "This scheme has none"
            raise ConfigError(f"{shown!r}: unknown option {name!r}{nearest(name, known)} {which}")
        if name in options:
            raise ConfigError(f"{shown!r}: option {name!r} is given twice")
        if not has_value or not value:
            raise ConfigError(f"{shown!r}: option {name!r} has no value; write {name}=...")
        options[name] = value
    return options


def _advice(head: str, schemes: Mapping[str, Iterable[str]]) -> str:
    path = user_path(head)
    if path.is_dir():
        if holds_radiometric_jpegs(path):
            return f" It is a folder of radiometric JPEGs: write 'file:{head}'"
        return f" It is a folder: write 'pairs:{head}' to read the pairs in it"
    if path.is_file() and (path.suffix.lower() in _FILES or is_radiometric_jpeg(path)):
        return f" It is a file: write 'file:{head}'"
    if path.is_file() and path.suffix.lower() == ".mcap":
        return f" It is a recording: write 'mcap:{head}'"
    if path.is_file():
        return f" It is a file: write 'video:{head}?thermal=FILE' to read it as a video"
    return f" Write 'clip:substation' or 'pairs:FOLDER'. Known schemes: {_list(schemes)}"


def _list(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
